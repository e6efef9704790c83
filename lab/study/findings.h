// What a study concludes.
#ifndef HEED_LAB_STUDY_FINDINGS_H_
#define HEED_LAB_STUDY_FINDINGS_H_

#include <string>
#include <vector>

#include "lab/comparison/comparison.h"
#include "lab/positions/positions.h"
#include "lab/runs/finding.h"
#include "lab/study/study.h"

namespace heed::lab {

// Which encoder, and which positional encoding in attention, is best at the training length.
std::string EncoderFinding(const Measurements& measured);
std::string AttentionFinding(const Measurements& measured);

// Whether attention without positions gets beyond the frequencies of characters, next to the best scheme. Empty where
// attention without positions was not studied.
std::string OrderFinding(const Measurements& measured, const Baselines& baselines);

// How the schemes' loss changes from the training length to the longest one.
std::string LengthFinding(const Measurements& measured);

// The fastest and the slowest in training.
std::string SpeedFinding(const Measurements& measured);

std::string PositionsFinding(const RotationCheck& check, const std::vector<Figure>& figures);

// Which encoder and which scheme for this text and length, by how much; what order, length and speed come to. Questions that
// the chosen models do not answer are left out.
std::vector<Finding> Conclusion(const StudyResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_FINDINGS_H_
