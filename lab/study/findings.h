// Sentences computed from the measurements: other measurements, other sentences.
#ifndef HEED_LAB_STUDY_FINDINGS_H_
#define HEED_LAB_STUDY_FINDINGS_H_

#include <string>
#include <vector>

#include "lab/comparison/comparison.h"
#include "lab/positions/positions.h"
#include "lab/study/measurements.h"
#include "lab/study/study.h"

namespace heed::lab {

// Which model is best at the training length, by how much, and whether the seeds agree: "The GRU is best with 1.93 nats ..".
// Empty for fewer than two models.
std::string RankingFinding(const std::vector<ModelResult>& models);

// Whether attention without positions gets beyond the frequencies of characters, next to the best scheme. Empty where
// attention without positions was not studied.
std::string OrderFinding(const std::vector<ModelResult>& models, const Baselines& baselines);

// How the schemes' loss changes from the training length to the longest one.
std::string LengthFinding(const std::vector<ModelResult>& models, const StudyOptions& options);

// The fastest and the slowest in training.
std::string SpeedFinding(const std::vector<ModelResult>& models);

std::string PositionsFinding(const RotationCheck& check, const std::vector<Figure>& figures);
std::string ComparisonFinding(const Comparison& comparison);

struct Finding {
  std::string question, answer;
};
// Which encoder and which scheme for this text and length, by how much; what order, length and speed come to. Questions that
// the chosen models do not answer are left out.
std::vector<Finding> Conclusion(const StudyResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_FINDINGS_H_
