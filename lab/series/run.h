// One model trained on labelled sequences, and how it fares on the validation part.
#ifndef HEED_LAB_SERIES_RUN_H_
#define HEED_LAB_SERIES_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/runs/feed_forward.h"
#include "lab/series/batches.h"

namespace heed::lab {

using SeriesModel = SizedContender;

struct SeriesRun {
  uint64_t seed = 0;
  double loss = 0;          // on the validation part: nats, or mean squared error in the target's own units
  double accuracy = 0;      // of a classification, else 0
  double training = 0;      // loss of training, mean over the last tenth of the steps, of standardised targets
  double step_seconds = 0;  // of training: the thread's own time
};

// The models in the order of the options. The widths of their feed-forward sublayers are chosen so that each comes as near as
// it can to the parameters of attention without positions and a feed-forward width of twice the width.
std::vector<SeriesModel> PlanSeries(const SeriesBatches& batches, const SeriesOptions& options);

// Trains in the calling thread; several calls may run side by side. Runs of one seed see the same sequences in the same order,
// whatever the model. Throws Divergence, and Interruption on Ctrl-C.
SeriesRun TrainOnSeries(const SeriesBatches& batches, const SeriesModel& model, const SeriesOptions& options, uint64_t seed,
                        const std::function<void()>& on_step);

// Numbers survive the way to JSON and back bit by bit.
nlohmann::ordered_json ToJson(const SeriesRun& run);
// Throws nlohmann::json::exception or InvalidArgument where the JSON does not hold a run.
SeriesRun SeriesRunFromJson(const nlohmann::ordered_json& json);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_RUN_H_
