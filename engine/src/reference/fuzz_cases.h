// Cases for searching: small, with every option at once and what is easily forgotten, and how a case that fails is made
// simpler.
#ifndef HEED_REFERENCE_FUZZ_CASES_H_
#define HEED_REFERENCE_FUZZ_CASES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/cases.h"

namespace heed::reference {

// A random case of small extents, no heads among them, whose positions often jump and where NaN and infinity often stand where
// no row looks. Its name is "fuzz SEED".
Case FuzzCase(uint64_t seed);

// A step towards a simpler case. apply(case): whether it has changed the case, which may then be simplified again.
struct Reduction {
  std::string name;
  std::function<bool(Case&)> apply;
};
const std::vector<Reduction>& Reductions();

// The case after as many reductions as leave it failing. Its name is that of the case and theirs, each behind kReduced;
// NamedCase makes it again.
inline const std::string kReduced = " | ";
Case Minimised(Case failing, const std::function<bool(const Case&)>& fails);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_FUZZ_CASES_H_
