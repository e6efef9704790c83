// What random cases choose by. Their draws depend on the generator alone, not on the C++ library.
#ifndef HEED_REFERENCE_RANDOM_DRAWS_H_
#define HEED_REFERENCE_RANDOM_DRAWS_H_

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "reference/scheme.h"

namespace heed::reference {

inline int64_t Pick(Random& random, std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; }
inline bool Chance(Random& random, uint64_t one_in) { return random() % one_in == 0; }
// Fisher and Yates; std::shuffle draws as each C++ library likes.
template <class Iterator>
void Shuffle(Iterator begin, Iterator end, Random& random) {
  for (auto left = end - begin; left > 1; --left)
    std::swap(begin[left - 1], begin[static_cast<decltype(left)>(random() % static_cast<uint64_t>(left))]);
}
// Which extents of a dense array are 1.
inline int RandomOnes(Random& random) { return static_cast<int>(Pick(random, {0, 1, 2, 3, 4, 6, 8, 9, 12, 15})); }

}  // namespace heed::reference

#endif  // HEED_REFERENCE_RANDOM_DRAWS_H_
