// One model trained on labelled sequences, and how it fares on the test part.
#ifndef HEED_LAB_SERIES_RUN_H_
#define HEED_LAB_SERIES_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "lab/runs/measurements.h"
#include "lab/series/batches.h"

namespace heed::lab {

// The models in the order of the options. The widths of their feed-forward sublayers are chosen so that each comes as near as
// it can to the parameters of attention without positions and a feed-forward width of twice the width.
Models PlanSeries(const SeriesBatches& batches, const SeriesOptions& options);

// "loss" on the test part: nats, or the mean squared error in the target's own units; of a classification "accuracy";
// "training_loss", the mean over the last tenth of the steps, in the same units; "step_seconds", the thread's own time in a
// step.
std::vector<Column> SeriesMeasures(SeriesGoal goal);

// Trains in the calling thread; several calls may run side by side. Runs of one seed see the same sequences in the same order,
// whatever the model. Throws Divergence, and Interruption on Ctrl-C.
Outcome TrainOnSeries(const SeriesBatches& batches, const SizedContender& model, const SeriesOptions& options, uint64_t seed,
                      const std::function<void()>& on_step);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_RUN_H_
