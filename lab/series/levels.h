// Inputs of a forecast that tell its level by changes alone, since levels may leave the range of the training part.
#ifndef HEED_LAB_SERIES_LEVELS_H_
#define HEED_LAB_SERIES_LEVELS_H_

#include <ATen/core/Tensor.h>

#include "lab/series/batches.h"

namespace heed::lab {

// Beside the change of each column since the step before, models of a forecast see the column less its mean over the window's
// steps so far, in units of the root mean square of that over the training part. Both look back alone, so they hold at each of
// the steps at which a causal encoder is trained.

// These units: float32 [columns].
at::Tensor LevelScales(const SeriesBatches& batches);
// X: [rows, steps, batches.width()], features of a batch -> [rows, steps, batches.width() + columns].
at::Tensor WithLevels(const at::Tensor& X, const at::Tensor& scales);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_LEVELS_H_
