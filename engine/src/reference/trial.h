// One case, computed by the engine and by the reference, and compared.
#ifndef HEED_REFERENCE_TRIAL_H_
#define HEED_REFERENCE_TRIAL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heed/executor.h"
#include "reference/cases.h"

namespace heed::reference {

// Largest differences between engine and reference by what they are of. Outputs in units of eps * sum_j p[j] |v[j]| of their
// row; lse, statistics and weights in eps * max(1, |expected|); gradients in eps * max(1, largest sum of absolute terms of the
// array), because terms cancel; outputs and gradients over 1 - p, because dropout scales what it keeps. eps is
// the spacing of the type at 1; that of the accumulator for lse and statistics, which never pass through a narrow type. NaN
// where the engine returned NaN or disagreed about infinity.
struct TrialErrors {
  std::vector<std::pair<std::string, double>> of;
  double Largest() const;
  std::string Text() const;
};

// T: float, double, BFloat16 or Float16. Inputs are N(0, 1), rounded to T before either side sees them.
template <class T>
TrialErrors RunTrial(const Case& c, uint64_t seed, Executor& executor);

// Scores up to this size are what errors are measured at; larger ones, from a large scale or distances of a million under
// slopes, round as much more as they are larger, and errors are divided by that.
constexpr double kOrdinaryScore = 16.0;

// What a sound kernel stays below: scores of D products of N(0, 1) carry about sqrt(D) eps of rounding, which the weights
// inherit; widths up to 257 are in the table. 16-bit types round inputs and results alone, and 128 of their eps would be all.
template <class T>
constexpr double kErrorLimit = sizeof(T) == 2 ? 32.0 : 128.0;

}  // namespace heed::reference

#endif  // HEED_REFERENCE_TRIAL_H_
