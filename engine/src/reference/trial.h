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

// Largest differences between engine and reference by what they are of, in units of what they may be. NaN where the engine
// returned NaN or disagreed about infinity.
//
// float and double: outputs in eps * sum_j p[j] |v[j]| of their row; lse, statistics and weights in eps * max(1, |expected|);
// gradients in eps * max(1, largest sum of absolute terms of the array), because terms cancel; outputs and gradients over 1 -
// p, because dropout scales what it keeps. eps is the spacing of the type at 1.
//
// 16-bit types: outputs and the gradients of q, k and v are computed in float and rounded once, each element on its own. The
// unit is eps of the narrow type times the element itself (rounding to nearest takes half of it), plus its smallest number,
// plus what a float may be off by: kAccumulatorLimit of the units above. Everything else of their calls is float and measured
// as that, over kAccumulatorLimit.
struct TrialErrors {
  std::vector<std::pair<std::string, double>> of;
  double Largest() const;
  std::string Text() const;
};

// Precision::kFused: outputs and gradients of bfloat16 calls may be off by kFusedShare of the sum of absolute terms beyond
// that.
//
// T: float, double, BFloat16 or Float16. Inputs are N(0, 1), rounded to T before either side sees them.
template <class T>
TrialErrors RunTrial(const Case& c, uint64_t seed, Executor& executor);

// A hash of all that the calls of such a trial write: outputs, statistics, weights, gradients; see reference/bits_hash.h.
template <class T>
uint64_t HashTrial(const Case& c, uint64_t seed, Executor& executor);

// The same on each of these SIMD targets, one after the other; the last one stays in use. The reference, which takes most of
// the time, is computed once.
template <class T>
std::vector<TrialErrors> RunTrials(const Case& c, uint64_t seed, Executor& executor, const std::vector<std::string>& targets);

// Scores up to this size are what errors are measured at; larger ones, from a large scale or distances of a million under
// slopes, round as much more as they are larger, and errors are divided by that.
constexpr double kOrdinaryScore = 16.0;

// What a sound kernel stays below, in the units of its accumulation type: scores of D products of N(0, 1) carry about sqrt(D)
// eps of rounding, which the weights inherit; widths up to 257 are in the table. The units of 16-bit types contain it.
constexpr double kAccumulatorLimit = 128.0;
template <class T>
constexpr double kErrorLimit = sizeof(T) == 2 ? 1.0 : kAccumulatorLimit;

// Rounding to bfloat16 moves a weight by 2^-9 of itself at most; gradients of scores are rounded too, and inherit what the
// weights moved in the output.
constexpr double kFusedShare = 0x1p-7;

}  // namespace heed::reference

#endif  // HEED_REFERENCE_TRIAL_H_
