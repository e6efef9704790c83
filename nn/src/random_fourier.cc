#include "heed/nn/random_fourier.h"

#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

#include "narrow.h"
#include "refuse.h"
#include "residual_layers.h"
#include "sizes.h"
#include "tensor_view.h"

namespace heed::nn {

RandomFourierImpl::RandomFourierImpl(int64_t width, int64_t axes, double scale, bool trainable)
    : width_(width), axes_(axes), scale_(scale), trainable_(trainable) {
  if (width < 2 || width % 2 != 0 || axes < 1 || !(scale > 0 && std::isfinite(scale))) {
    Refuse("RandomFourier: expected an even width, axes > 0 and a finite scale > 0, got ", width, ", ", axes, " and ", scale);
  }
  CheckSize("RandomFourier", "width", width);
  CheckSize("RandomFourier", "axes", axes);
  CheckTable("RandomFourier", "width", width / 2, axes);
  reset();
}

void RandomFourierImpl::reset() {
  const at::Tensor drawn = at::randn({axes_, width_ / 2}) * scale_;
  frequencies = trainable_ ? register_parameter("frequencies", drawn) : register_buffer("frequencies", drawn);
}

void RandomFourierImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  Cloneable::to(device, TableType(frequencies, dtype), non_blocking);
}

void RandomFourierImpl::to(torch::Dtype dtype, bool non_blocking) {
  Cloneable::to(TableType(frequencies, dtype), non_blocking);
}

torch::Tensor RandomFourierImpl::forward(const torch::Tensor& X, const torch::Tensor& positions) {
  CheckInput("RandomFourier", X, width_);
  CheckDense("RandomFourier: positions", positions);
  if (positions.scalar_type() != at::kLong && positions.scalar_type() != at::kDouble)
    Refuse("RandomFourier: positions: expected int64 or float64, got ", positions.scalar_type());
  const bool flat = axes_ == 1 && (positions.dim() < 2 || positions.size(-1) != 1 || positions.size(-2) != X.size(1));
  const at::Tensor places = flat ? positions.unsqueeze(-1) : positions;
  const bool row = places.dim() == 2 || (places.dim() == 3 && (places.size(0) == 1 || places.size(0) == X.size(0)));
  if (!row || places.size(-2) != X.size(1) || places.size(-1) != axes_) {
    Refuse("RandomFourier: positions: expected shape [", X.size(0), ", ", X.size(1), ", ", axes_, "], got ",
           ShapeText(positions));
  }
  if (positions.is_floating_point() && !positions.isfinite().all().item<bool>())
    Refuse("RandomFourier: positions: expected finite numbers");
  // In double: a wave of a far position is told by its fraction of a turn.
  const at::Tensor angles = 2 * std::numbers::pi * at::matmul(places.to(at::kDouble), frequencies.to(at::kDouble));
  const at::Tensor waves = at::cat({angles.cos(), angles.sin()}, -1);
  return X + waves.to(X.is_floating_point() ? X.scalar_type() : frequencies.scalar_type());
}

}  // namespace heed::nn
