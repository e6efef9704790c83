// Sentences about deep stacks, computed from their measurements.
#ifndef HEED_BOOK_DEPTH_FINDINGS_H_
#define HEED_BOOK_DEPTH_FINDINGS_H_

#include <string>
#include <vector>

#include "book/depth/depth.h"

namespace heed::lab {

// A distance below this counts as all tokens alike.
inline constexpr double kAlike = 1e-6;
// A trained stack learns where it gets below the loss of the frequencies by more than this.
inline constexpr double kLearns = 0.1;  // nats per character

// In which stacks the tokens become alike, and at which layer; what is left of their differences in the others. Empty where
// nothing was measured.
std::string RankFinding(const DepthResult& result, Objective objective);
// The same for attention alone with every scheme.
std::string PositionsRankFinding(const DepthResult& result);
// Where attention looks at all tokens alike.
std::string EntropyFinding(const DepthResult& result);
// How the gradient changes from the last layer to the first, and what queries and keys get of it.
std::string GradientFinding(const DepthResult& result);
// Which stacks learn at which depths, and what a layer costs. Empty where none was trained.
std::string TrainingFinding(const DepthResult& result);
std::string TimeFinding(const DepthResult& result);
// All of the above that are not empty, in this order.
std::vector<std::string> DepthFindings(const DepthResult& result);

// One paragraph for a conclusion: whether attention alone keeps tokens apart, and how deep trains.
std::string DepthConclusion(const DepthResult& result);

}  // namespace heed::lab

#endif  // HEED_BOOK_DEPTH_FINDINGS_H_
