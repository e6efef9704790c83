#include "heed/nn/window_biases.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include "refuse.h"
#include "sizes.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

constexpr int64_t kMostOffsets = int64_t{1} << 24;  // of a window: far beyond any, and its table fits in memory

// The differences of two rows (columns) of a window, from -(count - 1) on, over the largest that was trained on, and
// logarithmically; a window of one row has no difference.
at::Tensor LogarithmicDifferences(int64_t count, int64_t pretrained) {
  const at::Tensor differences = at::arange(1 - count, count, at::kDouble) * 8.0 / std::max<int64_t>(1, pretrained - 1);
  return differences.sign() * at::log2(1.0 + differences.abs()) / 3.0;
}

}  // namespace

WindowPosition::WindowPosition(const char* name, int64_t heads, WindowShape window)
    : name_(name), heads_(heads), window_(window) {
  const bool sized = window.height >= 1 && window.width >= 1 && window.height <= kMostOffsets && window.width <= kMostOffsets;
  if (heads < 1 || !sized || offsets() > kMostOffsets) {
    Refuse(name, ": expected heads > 0 and a window of at least 1 x 1 and at most 2^24 differences, got ", heads, " and ",
           window.height, " x ", window.width);
  }
  CheckSize(name, "heads", heads);
  CheckTable(name, "window", offsets(), heads);
}

TokenPositions WindowPosition::place(const TokenPositions& positions, int64_t steps) const {
  const auto* list = std::get_if<at::Tensor>(&positions);
  at::Tensor row, column;
  if (list != nullptr && list->scalar_type() != at::kLong)
    Refuse(name_, ": positions: expected int64, whole numbers within the window, got ", at::toString(list->scalar_type()));
  if (list != nullptr && list->dim() == 3) {
    row = list->select(2, 0);
    column = list->select(2, 1);
  } else {
    const int64_t first = list == nullptr ? std::get<int64_t>(positions) : 0;
    const at::Tensor token = list == nullptr ? at::arange(first, first + steps, at::kLong) : *list;
    row = at::div(token, window_.width, "floor");
    column = token - row * window_.width;
  }
  const auto within = [](const at::Tensor& index, int64_t count) {
    return index.numel() == 0 || (index.min().item<int64_t>() >= 0 && index.max().item<int64_t>() < count);
  };
  if (!within(row, window_.height) || !within(column, window_.width))
    Refuse(name_, ": positions: expected tokens within the window of ", window_.height, " x ", window_.width);
  return row * (2 * window_.width - 1) + column;
}

AttentionTensors WindowPosition::tensors() const {
  // Rows go by query - key, columns here by key - query.
  return {.relative_bias = table().flip(0).t()};
}

SwinBiasImpl::SwinBiasImpl(int64_t heads, WindowShape window) : WindowPosition("SwinBias", heads, window) { reset(); }

void SwinBiasImpl::reset() {
  weight = register_parameter("weight", at::empty({offsets(), heads()}));
  const at::NoGradGuard no_grad;
  weight.normal_(0.0, 0.02).clamp_(-2.0, 2.0);
}

SwinV2BiasImpl::SwinV2BiasImpl(int64_t heads, WindowShape window, int64_t hidden, WindowShape pretrained_window)
    : WindowPosition("SwinV2Bias", heads, window), hidden_(hidden), pretrained_(pretrained_window) {
  CheckSize("SwinV2Bias", "hidden", hidden);
  CheckTable("SwinV2Bias", "hidden", hidden, std::max(heads, offsets()));
  if (pretrained_.height == 0 && pretrained_.width == 0) pretrained_ = window;
  if (pretrained_.height < 1 || pretrained_.width < 1)
    Refuse("SwinV2Bias: pretrained_window: expected at least 1 x 1, got ", pretrained_.height, " x ", pretrained_.width);
  const at::Tensor rows = LogarithmicDifferences(window.height, pretrained_.height);
  const at::Tensor columns = LogarithmicDifferences(window.width, pretrained_.width);
  differences_ = at::stack(at::meshgrid({rows, columns}, "ij"), 2).view({-1, 2});
  reset();
}

void SwinV2BiasImpl::reset() {
  const auto uniform = [this](const char* name, at::IntArrayRef shape, double inputs) {
    const double bound = 1 / std::sqrt(inputs);
    return torch::nn::init::uniform_(register_parameter(name, at::empty(shape)), -bound, bound);
  };
  first_weight = uniform("first_weight", {hidden_, 2}, 2);
  first_bias = uniform("first_bias", {hidden_}, 2);
  second_weight = uniform("second_weight", {heads(), hidden_}, static_cast<double>(hidden_));
}

at::Tensor SwinV2BiasImpl::table() const {
  // Numbers of 16 bits are computed with in float32.
  const at::ScalarType type = first_weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor units = at::linear(differences_.to(type), first_weight.to(type), first_bias.to(type)).relu();
  return 16.0 * at::linear(units, second_weight.to(type)).sigmoid();
}

}  // namespace heed::nn
