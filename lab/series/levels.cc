#include "lab/series/levels.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "lab/data/view.h"

namespace heed::lab {
namespace {

constexpr int64_t kScaleSteps = 1 << 17;  // by which the scales are measured

at::Tensor Unscaled(const at::Tensor& X, int64_t columns) {
  // The window's own first change came before it.
  const at::Tensor changes = X.narrow(2, 0, columns), behind = changes.narrow(1, 1, X.size(1) - 1);
  const at::Tensor levels = at::cat({at::zeros_like(changes.narrow(1, 0, 1)), behind.cumsum(1)}, 1);
  const at::Tensor steps = at::arange(1, X.size(1) + 1, X.options()).unsqueeze(1);
  return levels - levels.cumsum(1) / steps;
}

}  // namespace

at::Tensor LevelScales(const SeriesBatches& batches) {
  const int64_t columns = std::ssize(batches.data().features);
  at::Tensor squares = at::zeros({columns}, at::kDouble);
  double count = 0;
  batches.ForEach(batches.TrainingWindows(std::max<int64_t>(1, kScaleSteps / batches.longest())),
                  [&](const SeriesBatch& batch) {
                    const at::Tensor X = View(batch.features, {batch.rows, batch.steps, batches.width()});
                    squares += Unscaled(X, columns).to(at::kDouble).square().sum(at::IntArrayRef{0, 1});
                    count += static_cast<double>(batch.rows * batch.steps);
                  });
  const at::Tensor scales = (squares / count).sqrt();
  return scales.masked_fill(scales.eq(0), 1.0).to(at::kFloat);  // a column that never changes stays 0
}

at::Tensor WithLevels(const at::Tensor& X, const at::Tensor& scales) {
  return at::cat({X, Unscaled(X, scales.size(0)) / scales}, 2);
}

}  // namespace heed::lab
