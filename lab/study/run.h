// One training run of a study and what was measured on it.
#ifndef HEED_LAB_STUDY_RUN_H_
#define HEED_LAB_STUDY_RUN_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/data/corpus.h"
#include "lab/positions/positions.h"
#include "lab/report/result_store.h"
#include "lab/study/plan.h"

namespace heed::lab {

// Losses are means in nats per predicted character.
struct StudyRun {
  uint64_t seed = 0;
  std::vector<int64_t> curve_steps;  // the training loss, each point the mean of the steps since the previous one
  std::vector<double> curve_losses;
  std::vector<double> losses;    // on validation text, by kLengthMultiples; NaN where a learned table ends
  double tokens_per_second = 0;  // trained on, per second of one thread's own time
  // What attention's scheme has learnt, in the first layer where it acts inside of attention; nothing where it trains nothing.
  std::optional<SchemeTable> table = std::nullopt;
};

inline constexpr double kNoLoss = std::numeric_limits<double>::quiet_NaN();

// Trains and evaluates in the calling thread; several calls may run side by side. Throws Divergence, and Interruption on
// Ctrl-C.
StudyRun TrainAndEvaluate(const Corpus& corpus, const TrainOptions& options, const std::function<void()>& on_step);

// Every model with every seed of the options, in memory order [model][seed]. options.threads runs go on at a time, under one
// progress bar named `what`; those that the store holds, where there is one, are not repeated (DoRuns).
std::vector<std::vector<StudyRun>> TrainModels(const std::string& what, const Corpus& corpus, const StudyOptions& options,
                                               const std::vector<StudyModel>& models, const ResultStore* store);

// Numbers survive the way to JSON and back bit by bit; NaN becomes null.
nlohmann::ordered_json ToJson(const StudyRun& run);
// Throws nlohmann::json::exception or InvalidArgument when the JSON does not hold a run.
StudyRun RunFromJson(const nlohmann::ordered_json& json);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_RUN_H_
