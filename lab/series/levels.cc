#include "lab/series/levels.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "lab/data/view.h"

namespace heed::lab {
namespace {

constexpr int64_t kScaleSteps = 1 << 17;  // by which the scale is measured

}  // namespace

RelativeLevels::RelativeLevels(const SeriesBatches& batches) : columns_(std::ssize(batches.data().features)) {
  at::Tensor squares = at::zeros({columns_}, at::kDouble);
  double count = 0;
  batches.ForEach(batches.TrainingWindows(std::max<int64_t>(1, kScaleSteps / batches.longest())),
                  [&](const SeriesBatch& batch) {
                    squares += Unscaled(View(batch.features, {batch.rows, batch.steps, batches.width()}))
                                   .to(at::kDouble)
                                   .square()
                                   .sum(at::IntArrayRef{0, 1});
                    count += static_cast<double>(batch.rows * batch.steps);
                  });
  const at::Tensor scale = (squares / count).sqrt();
  scale_ = scale.masked_fill(scale.eq(0), 1.0).to(at::kFloat);  // a column that never changes stays 0
}

at::Tensor RelativeLevels::Unscaled(const at::Tensor& X) const {
  // The window's own first change came before it.
  const at::Tensor changes = X.narrow(2, 0, columns_), behind = changes.narrow(1, 1, X.size(1) - 1);
  const at::Tensor levels = at::cat({at::zeros_like(changes.narrow(1, 0, 1)), behind.cumsum(1)}, 1);
  const at::Tensor steps = at::arange(1, X.size(1) + 1, X.options()).unsqueeze(1);
  return levels - levels.cumsum(1) / steps;
}

at::Tensor RelativeLevels::operator()(const at::Tensor& X) const { return at::cat({X, Unscaled(X) / scale_}, 2); }

}  // namespace heed::lab
