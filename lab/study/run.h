// One training run of a study and what is measured on it.
#ifndef HEED_LAB_STUDY_RUN_H_
#define HEED_LAB_STUDY_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/data/corpus.h"
#include "lab/positions/positions.h"
#include "lab/runs/measurements.h"
#include "lab/study/options.h"
#include "lab/training/options.h"

namespace heed::lab {

// "loss" on validation text in nats per character, by the characters of a window, NaN where a learned table ends;
// "tokens_per_second": characters trained on, per second of one thread's own time; "training_loss" by step, each the mean of
// the steps since the one before.
std::vector<Column> StudyColumns(const StudyOptions& options, Objective objective);

// Trains and evaluates in the calling thread; several calls may run side by side. Beside the numbers stands what attention's
// scheme has learnt, see TableOf. Throws Divergence, and Interruption on Ctrl-C.
Outcome TrainAndEvaluate(const Corpus& corpus, const TrainOptions& options, const std::function<void()>& on_step);

// In the first layer where the scheme acts inside of attention; nothing where it trains nothing. Throws
// nlohmann::json::exception or InvalidArgument where the JSON holds no table.
std::optional<SchemeTable> TableOf(const nlohmann::ordered_json& more);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_RUN_H_
