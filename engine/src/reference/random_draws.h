// What random cases choose by.
#ifndef HEED_REFERENCE_RANDOM_DRAWS_H_
#define HEED_REFERENCE_RANDOM_DRAWS_H_

#include <cstdint>
#include <initializer_list>

#include "reference/scheme.h"

namespace heed::reference {

inline int64_t Pick(Random& random, std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; }
inline bool Chance(Random& random, uint64_t one_in) { return random() % one_in == 0; }
// Which extents of a dense array are 1.
inline int RandomOnes(Random& random) { return static_cast<int>(Pick(random, {0, 1, 2, 3, 4, 6, 8, 9, 12, 15})); }

}  // namespace heed::reference

#endif  // HEED_REFERENCE_RANDOM_DRAWS_H_
