// The models of a study of a text: every encoder, and attention with every scheme, at equal numbers of parameters.
#ifndef HEED_LAB_STUDY_TEXT_STUDY_H_
#define HEED_LAB_STUDY_TEXT_STUDY_H_

#include <cstdint>

#include "lab/data/text.h"
#include "lab/runs/measurements.h"
#include "lab/study/options.h"
#include "lab/training/options.h"

namespace heed::lab {

// Lengths at which every model is evaluated, in units of the training length.
inline constexpr int64_t kLengthMultiples[] = {1, 2, 4};

// The largest share by which the parameters of two models may differ.
inline constexpr double kLargestDeviation = 0.05;

// The models of one objective, in the order of the options. The widths of their feed-forward sublayers are chosen so that each
// has the parameters of attention without positions and a feed-forward width of 4 * width. Throws InvalidArgument when the
// width leaves no such choice within kLargestDeviation.
Models PlanModels(const StudyOptions& options, Objective objective, const Vocabulary& vocabulary);

ModelOptions ModelOf(const StudyOptions& options, Objective objective, const Contender& contender, int64_t ffn_width);

// "loss" on the test part in nats per character, by the characters of a window, NaN where a learned table ends;
// "validation_loss" at the training length.
std::vector<Column> TextColumns(const StudyOptions& options);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_TEXT_STUDY_H_
