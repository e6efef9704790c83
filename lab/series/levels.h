// Inputs of a forecast that tell its level by changes alone, since levels may leave the range of the training part.
#ifndef HEED_LAB_SERIES_LEVELS_H_
#define HEED_LAB_SERIES_LEVELS_H_

#include <utility>

#include <ATen/core/Tensor.h>

#include "lab/series/batches.h"

namespace heed::lab {

// Beside the change of each column since the step before, models of a forecast see the column less its mean over the window's
// steps so far, in units of the root mean square of that over the training part. Both look back alone, so they hold at each of
// the steps at which a causal encoder is trained.
class RelativeLevels {
 public:
  // Of a forecast.
  explicit RelativeLevels(const SeriesBatches& batches);
  explicit RelativeLevels(at::Tensor scale) : columns_(scale.size(0)), scale_(std::move(scale)) {}

  const at::Tensor& scale() const { return scale_; }  // float32 [columns]

  // X: [rows, steps, batches.width()], features of a batch -> [rows, steps, batches.width() + columns].
  at::Tensor operator()(const at::Tensor& X) const;

 private:
  at::Tensor Unscaled(const at::Tensor& X) const;

  int64_t columns_;
  at::Tensor scale_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_LEVELS_H_
