// One model trained on labelled sequences, and how it fares on the test part.
#ifndef HEED_LAB_SERIES_RUN_H_
#define HEED_LAB_SERIES_RUN_H_

#include <cstdint>
#include <vector>

#include "lab/runs/contest.h"
#include "lab/series/batches.h"

namespace heed::lab {

// The models in the order of the options. The widths of their feed-forward sublayers are chosen so that each comes as near as
// it can to the parameters of attention without positions and a feed-forward width of twice the width.
Models PlanSeries(const SeriesBatches& batches, const SeriesOptions& options);

// "loss" on the test part: nats, or the mean squared error in the target's own units; of a classification "accuracy"; in the
// same units "validation_loss" and "training_loss", the mean over the last tenth of the steps.
std::vector<Column> SeriesMeasures(SeriesGoal goal);

// The windows of the test part in at most 32 groups that follow one another: sequences, or times of a forecast.
std::vector<std::vector<SeriesWindow>> TestBlocks(const SeriesBatches& batches);

// Of the models on these data; runs of one seed see the same sequences in the same order, whatever the model. Data and options
// must outlive it.
Contest ContestOf(const SeriesBatches& batches, SeriesOptions& options);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_RUN_H_
