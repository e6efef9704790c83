// Random cases: any options at once, and one or two at a time. Each has a name from which it can be made again.
#ifndef HEED_REFERENCE_RANDOM_CASES_H_
#define HEED_REFERENCE_RANDOM_CASES_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference/cases.h"
#include "reference/scheme.h"

namespace heed::reference {

// What they choose by. Draws depend on the generator alone, not on the C++ library.
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

// A random row: sizes 0, 1, odd, around tile edges; options in any combination that is not refused. Its name is
// "random SEED". Schemes behind the first ones are not in it, so that it stays what it is when one is appended to the list.
Case RandomCase(uint64_t seed);

// That one and, where such schemes choose to be in it, a second one with them, "wide random SEED".
std::vector<Case> RandomCases(uint64_t seed);

// One thing that a call may ask for, with random numbers where it has any.
struct Option {
  // How it goes with others.
  struct Manners {
    bool joins = false;                     // another one of the same argument
    std::vector<std::string> refuses = {};  // by their names, with an error that names both arguments
  };
  std::string name;
  std::string argument;  // how errors name it
  std::function<void(Case&, Random&)> set;
  Manners manners = {};
};

// Everything that a call may ask for, new things last. Strides and grouped heads are in every random case.
const std::vector<Option>& Options();

// Whether two options are different things that one call can ask for: not two values of the same argument.
bool AreApart(const Option& a, const Option& b);

// A random shape and layout with two options, or with one where both are the same. Its name is "pair A + B SEED".
Case PairCase(const Option& a, const Option& b, uint64_t seed);

// The case with weights that may be rounded, Precision::kFused; its name ends with ", fused".
Case Fused(Case c);

// The case with a name: a row of Cases(), a random one or a pair, fused or not, or one of reference/fuzz_cases.h.
std::optional<Case> NamedCase(const std::string& name);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_RANDOM_CASES_H_
