#include "heed/nn/positional_encoding.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include "attention_call.h"
#include "heed/error.h"
#include "heed/nn/random_fourier.h"
#include "refuse.h"
#include "residual_layers.h"
#include "sequence.h"
#include "sizes.h"
#include "tensor_view.h"
#include "token_positions.h"

namespace heed::nn {
namespace {

void CheckInput(const char* module, const at::Tensor& X, int64_t num_hiddens, int64_t offset) {
  heed::nn::CheckInput(module, X, num_hiddens);
  if (offset < 0) Refuse(module, ": offset: expected 0 or more, got ", offset);
}

void CheckSizes(const char* module, int64_t num_hiddens, int64_t max_len) {
  if (max_len < 1) Refuse(module, ": max_len: expected at least 1, got ", max_len);
  CheckSize(module, "num_hiddens", num_hiddens);
  CheckTable(module, "max_len", max_len, num_hiddens);
}

[[noreturn]] void ThrowTooLong(const char* module, int64_t steps, int64_t offset, int64_t max_len, const char* remedy) {
  Refuse(module, ": X has ", steps, " steps from offset ", offset, " on, which needs ", offset + steps,
         " positions, but max_len is ", max_len, "; ", remedy);
}

// Rows offset .. offset + steps - 1, the last row standing in for those the table lacks. [steps, width]
at::Tensor ClampedRows(const at::Tensor& table, int64_t offset, int64_t steps) {
  const at::Tensor rows = (at::arange(steps, table.options().dtype(at::kLong)) + offset).clamp_max(table.size(0) - 1);
  return table.index_select(0, rows);
}

at::Tensor SinusoidalRows(const SinusoidalOptions& options, int64_t first_position, int64_t steps, int64_t width) {
  at::Tensor table = at::empty({steps, width}, at::kFloat);
  if (steps > 0) SinusoidalTable(options, first_position, ViewOf<float, 2>(table));
  return table;
}

// Positions of a call without an offset.
void CheckListed(const char* module, const at::Tensor& positions, const at::Tensor& X, int64_t offset) {
  if (offset != 0) Refuse(module, ": offset: give it or positions, not both");
  CheckDense(c10::str(module, ": positions").c_str(), positions);
  CheckList(module, "positions", positions, X.size(0), X.size(1));
}

// The rows of a table that positions name; the last one stands in for those behind it where it may.
at::Tensor ListedRows(const at::Tensor& table, const at::Tensor& positions, bool clamped) {
  if (positions.scalar_type() != at::kLong) {
    Refuse("LearnedPositions: positions: expected int64, got ", positions.scalar_type());
  }
  const int64_t last = table.size(0) - 1;
  if (positions.numel() > 0) {
    const auto least = positions.min().item<int64_t>(), most = positions.max().item<int64_t>();
    if (least < 0 || (most > last && !clamped)) {
      Refuse("LearnedPositions: positions: expected 0..", last, ", got ", least, "..", most,
             "; raise max_len, or choose the length policy 'clamp'");
    }
  }
  std::vector<int64_t> shape = positions.sizes().vec();
  shape.push_back(table.size(1));
  return table.index_select(0, positions.clamp_max(last).reshape({-1})).view(shape);
}

// The rows of any positions, with one more dimension; in double precision where X has it.
at::Tensor SinusoidalRowsAt(SinusoidalOptions options, const at::Tensor& positions, const at::Tensor& X) {
  options.angles = Angles::kFloat64;
  const at::Tensor list = DensePositions("PositionalEncoding: positions", positions).to(at::kDouble).reshape({-1});
  const at::Tensor table = at::empty({list.size(0), X.size(2)}, X.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const auto fill = [&](auto element) {
    SinusoidalTable(options, ViewOf<const double, 1>(list), ViewOf<decltype(element), 2>(table));
  };
  if (list.size(0) > 0) table.scalar_type() == at::kDouble ? fill(double{}) : fill(float{});
  std::vector<int64_t> shape = positions.sizes().vec();
  shape.push_back(X.size(2));
  return table.view(shape);
}

}  // namespace

PositionalEncodingImpl::PositionalEncodingImpl(int64_t num_hiddens, double dropout, int64_t max_len, LengthPolicy length_policy,
                                               SinusoidalOptions table)
    : num_hiddens_(num_hiddens), max_len_(max_len), probability_(dropout), length_policy_(length_policy), options_(table) {
  CheckSizes("PositionalEncoding", num_hiddens, max_len);
  reset();
}

void PositionalEncodingImpl::reset() {
  table_ = SinusoidalRows(options_, 0, max_len_, num_hiddens_).unsqueeze(0);
  dropout_ = register_module("dropout", Dropout(probability_));
}

torch::Tensor PositionalEncodingImpl::forward(const torch::Tensor& X, int64_t offset, const torch::Tensor& positions) {
  CheckInput("PositionalEncoding", X, num_hiddens_, offset);
  const int64_t steps = X.size(1);
  at::Tensor rows;
  if (positions.defined()) {
    CheckListed("PositionalEncoding", positions, X, offset);
    rows = SinusoidalRowsAt(options_, positions, X);
  } else {
    rows = RowsOfSequence(steps, [&](int64_t first, int64_t count) { return RowsFrom(offset + first, count); });
  }
  // Rounded to a floating type, as the sum would be; never to whole numbers.
  return dropout_(X + rows.to(X.device(), X.is_floating_point() ? X.scalar_type() : rows.scalar_type()));
}

torch::Tensor PositionalEncodingImpl::RowsFrom(int64_t first, int64_t steps) const {
  if (steps <= max_len_ && first <= max_len_ - steps) return table_.squeeze(0).narrow(0, first, steps);
  if (length_policy_ == LengthPolicy::kExtend) return SinusoidalRows(options_, first, steps, num_hiddens_);
  if (length_policy_ == LengthPolicy::kClamp) return ClampedRows(table_.squeeze(0), first, steps);
  ThrowTooLong("PositionalEncoding", steps, first, max_len_, "raise max_len, or choose the length policy 'extend' or 'clamp'");
}

void PositionalEncodingImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  Cloneable::to(device, dtype, non_blocking);
  table_ = table_.to(device, TableType(table_, dtype), non_blocking);
}

void PositionalEncodingImpl::to(torch::Dtype dtype, bool non_blocking) {
  Cloneable::to(dtype, non_blocking);
  table_ = table_.to(TableType(table_, dtype), non_blocking);
}

void PositionalEncodingImpl::to(torch::Device device, bool non_blocking) {
  Cloneable::to(device, non_blocking);
  table_ = table_.to(device, non_blocking);
}

LearnedPositionsImpl::LearnedPositionsImpl(int64_t num_hiddens, double dropout, int64_t max_len, LengthPolicy length_policy)
    : num_hiddens_(num_hiddens), max_len_(max_len), probability_(dropout), length_policy_(length_policy) {
  CheckSizes("LearnedPositions", num_hiddens, max_len);
  if (length_policy == LengthPolicy::kExtend) {
    throw InvalidArgument("LearnedPositions: a learned table cannot be extended; choose the length policy 'error' or 'clamp'");
  }
  reset();
}

void LearnedPositionsImpl::reset() {
  weight = register_parameter("weight", torch::empty({max_len_, num_hiddens_}));
  torch::nn::init::normal_(weight, 0.0, 0.02);
  dropout_ = register_module("dropout", Dropout(probability_));
}

torch::Tensor LearnedPositionsImpl::forward(const torch::Tensor& X, int64_t offset, const torch::Tensor& positions) {
  CheckInput("LearnedPositions", X, num_hiddens_, offset);
  if (positions.defined()) {
    CheckListed("LearnedPositions", positions, X, offset);
    return dropout_(X + ListedRows(weight, positions, length_policy_ == LengthPolicy::kClamp));
  }
  const auto rows = [&](int64_t first, int64_t steps) {
    if (steps <= max_len_ && first <= max_len_ - steps) return weight.narrow(0, first, steps);
    if (length_policy_ == LengthPolicy::kClamp) return ClampedRows(weight, first, steps);
    ThrowTooLong("LearnedPositions", steps, first, max_len_, "raise max_len, or choose the length policy 'clamp'");
  };
  return dropout_(X + RowsOfSequence(X.size(1), [&](int64_t first, int64_t count) { return rows(offset + first, count); }));
}

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
  heed::nn::CheckInput("RandomFourier", X, width_);
  DensePositions("RandomFourier: positions", positions);
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
