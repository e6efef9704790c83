// One training run of a study and what is measured on it.
#ifndef HEED_LAB_STUDY_RUN_H_
#define HEED_LAB_STUDY_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/data/parts.h"
#include "lab/runs/contest.h"
#include "lab/study/options.h"
#include "lab/study/study.h"
#include "lab/training/options.h"

namespace heed::lab {

// "loss" on the test part in nats per character, by the characters of a window, NaN where a learned table ends;
// "validation_loss" at the training length; "training_loss" by the share of the training in per cent.
std::vector<Column> StudyColumns(const StudyOptions& options);

// Trains on the training part, in the calling thread; several calls may run side by side. Throw Divergence, and Interruption on
// Ctrl-C.
//
// The loss on the validation part.
double TrainAndValidate(const TextParts& parts, const TrainOptions& options, const OnStep& on_step);
// The columns of a study. Beside them stand "blocks", the loss on each block of the test part at the training length, "longer",
// the same by longer lengths, and "observed", what `observe` makes of the trained model, where there is one.
Outcome TrainAndReport(const TextParts& parts, const TrainOptions& options, const ObserveModel& observe, const OnStep& on_step);

// Of "longer", with every seed: [seeds, blocks]; empty where the model does not reach the length.
std::vector<std::vector<double>> LossesAt(const Measurements& measured, const Contender& model, int64_t length);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_RUN_H_
