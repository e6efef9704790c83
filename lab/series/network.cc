#include "lab/series/network.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "lab/data/view.h"
#include "lab/series/levels.h"

namespace heed::lab {

at::Tensor SeriesNetwork::Answers(const SeriesForm& form, const SeriesBatch& batch) {
  const bool padded = std::ranges::any_of(batch.lengths, [&](int64_t n) { return n != batch.steps; });
  const at::Tensor X = View(batch.features, {batch.rows, batch.steps, form.width()});
  const at::Tensor lengths = padded ? View(batch.lengths, {batch.rows}) : at::Tensor();
  const at::Tensor times = form.has_times ? View(batch.times, {batch.rows, batch.steps}) : at::Tensor();
  at::Tensor Y = network_->forward(scales_.defined() ? WithLevels(X, scales_) : X, lengths, times);
  if (!form.each_step) return Y;
  return Y.flatten(0, 1).index_select(0, View(batch.scored, {std::ssize(batch.scored)}));
}

}  // namespace heed::lab
