// One layer each of convolution, recurrence and self-attention, written once for every scalar: on double they give values, on
// Counted the operations and depths of the same run, on Traced the positions each state was computed from.
#ifndef HEED_LAB_COMPARISON_LAYERS_H_
#define HEED_LAB_COMPARISON_LAYERS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lab/comparison/counted.h"

namespace heed::lab {

enum class LayerKind { kCentredConvolution, kCausalConvolution, kRecurrence, kSelfAttention };
inline constexpr LayerKind kAllLayers[] = {LayerKind::kCentredConvolution, LayerKind::kCausalConvolution,
                                           LayerKind::kRecurrence, LayerKind::kSelfAttention};

struct LayerShape {
  LayerKind kind;
  int64_t width;
  int64_t kernel = 3;  // of convolutions; odd when centred
  int64_t heads = 1;   // of self-attention; divides the width

  int64_t taps_before() const { return kind == LayerKind::kCausalConvolution ? kernel - 1 : (kernel - 1) / 2; }
  int64_t taps_after() const { return kernel - 1 - taps_before(); }
  // A position may depend on itself and earlier ones only.
  bool causal() const { return kind == LayerKind::kCausalConvolution || kind == LayerKind::kRecurrence; }
};

std::string NameOf(LayerKind kind);  // "convolution (centred)", "convolution (causal)", "recurrence", "self-attention"

// Matrices, row-major, without biases:
//   convolution      W [width (output), kernel, width (input)]
//   recurrence       W_x, W_h [width (output), width (input)]
//   self-attention   W_q, W_k, W_v, W_o [width (output), width (input)]
template <class Scalar>
using LayerWeights = std::vector<std::vector<Scalar>>;

std::vector<int64_t> WeightSizes(const LayerShape& layer);  // scalars of each matrix, in this order

// What a layer asks of its scalar, for double; counted.h has the same for instrumented scalars.
inline double Dot(const double* a, int64_t a_stride, const double* b, int64_t b_stride, int64_t length) {
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) sum += a[i * a_stride] * b[i * b_stride];
  return sum;
}
inline double Sum(std::span<const double> terms) {
  double sum = terms[0];
  for (double term : terms.subspan(1)) sum += term;
  return sum;
}
inline double Max(std::span<const double> terms) { return *std::max_element(terms.begin(), terms.end()); }
inline double Exp(double x) { return std::exp(x); }
inline double Tanh(double x) { return std::tanh(x); }
inline double NewState(double value, int64_t) { return value; }

// y_i = sum over taps t of W[:, t] x_{i + t - taps_before}; taps beyond the ends are left out, not multiplied by zero.
template <class Scalar>
std::vector<Scalar> Convolve(const LayerShape& layer, const LayerWeights<Scalar>& weights, const std::vector<Scalar>& x) {
  const int64_t width = layer.width, length = static_cast<int64_t>(x.size()) / width;
  std::vector<Scalar> y(x.size());
  for (int64_t i = 0; i < length; ++i) {
    const int64_t first = std::max<int64_t>(i - layer.taps_before(), 0);
    const int64_t last = std::min(i + layer.taps_after(), length - 1);
    const int64_t first_tap = first - (i - layer.taps_before());
    for (int64_t out = 0; out < width; ++out) {
      // The window's rows lie one after the other, as do the taps of one output, so the window is one inner product.
      const Scalar* taps = &weights[0][(out * layer.kernel + first_tap) * width];
      y[i * width + out] = NewState(Dot(taps, 1, &x[first * width], 1, (last - first + 1) * width), i);
    }
  }
  return y;
}

// h_i = tanh(W_x x_i + W_h h_{i-1}) from h_{-1} = 0, which is multiplied like every other state.
template <class Scalar>
std::vector<Scalar> Recur(const LayerShape& layer, const LayerWeights<Scalar>& weights, const std::vector<Scalar>& x) {
  const int64_t width = layer.width, length = static_cast<int64_t>(x.size()) / width;
  const std::vector<Scalar> zero(width);
  std::vector<Scalar> h(x.size());
  for (int64_t i = 0; i < length; ++i) {
    const Scalar* previous = i == 0 ? zero.data() : &h[(i - 1) * width];
    for (int64_t out = 0; out < width; ++out) {
      const Scalar from_input = Dot(&weights[0][out * width], 1, &x[i * width], 1, width);
      const Scalar from_state = Dot(&weights[1][out * width], 1, previous, 1, width);
      h[i * width + out] = NewState(Tanh(from_input + from_state), i);
    }
  }
  return h;
}

// y_i = W x_i for every position.
template <class Scalar>
std::vector<Scalar> Project(const std::vector<Scalar>& weight, const std::vector<Scalar>& x, int64_t width) {
  const StageScope<Scalar> stage(Stage::kProjections);
  std::vector<Scalar> y(x.size());
  for (int64_t row = 0; row < static_cast<int64_t>(x.size()); row += width) {
    for (int64_t out = 0; out < width; ++out) y[row + out] = Dot(&weight[out * width], 1, &x[row], 1, width);
  }
  return y;
}

// Weights of one query, softmax(scale * q . k_j) over all `length` keys, which lie `stride` scalars apart.
template <class Scalar>
std::vector<Scalar> AttentionWeights(const Scalar* query, const Scalar* keys, int64_t stride, int64_t length,
                                     int64_t head_width) {
  const Scalar scale(1 / std::sqrt(static_cast<double>(head_width)));
  std::vector<Scalar> weights(length);
  for (int64_t j = 0; j < length; ++j) weights[j] = Dot(query, 1, keys + j * stride, 1, head_width) * scale;
  const Scalar largest = Max(std::span<const Scalar>(weights));
  for (Scalar& weight : weights) weight = Exp(weight - largest);
  const Scalar sum = Sum(std::span<const Scalar>(weights));
  for (Scalar& weight : weights) weight = weight / sum;
  return weights;
}

// W_o applied to the heads' softmax(Q K^T / sqrt(head width)) V side by side; every position looks at every position.
template <class Scalar>
std::vector<Scalar> Attend(const LayerShape& layer, const LayerWeights<Scalar>& weights, const std::vector<Scalar>& x) {
  const int64_t width = layer.width, length = static_cast<int64_t>(x.size()) / width, head_width = width / layer.heads;
  const std::vector<Scalar> q = Project(weights[0], x, width), k = Project(weights[1], x, width),
                            v = Project(weights[2], x, width);
  std::vector<Scalar> mixed(x.size());
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t head = 0; head < width; head += head_width) {
      const std::vector<Scalar> looks = AttentionWeights(&q[i * width + head], &k[head], width, length, head_width);
      for (int64_t column = head; column < head + head_width; ++column) {
        mixed[i * width + column] = Dot(looks.data(), 1, &v[column], width, length);
      }
    }
  }
  std::vector<Scalar> y = Project(weights[3], mixed, width);
  for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) y[i] = NewState(y[i], i / width);
  return y;
}

// x and the result: [length, width], row-major.
template <class Scalar>
std::vector<Scalar> RunLayer(const LayerShape& layer, const LayerWeights<Scalar>& weights, const std::vector<Scalar>& x) {
  switch (layer.kind) {
    case LayerKind::kCentredConvolution:
    case LayerKind::kCausalConvolution:
      return Convolve(layer, weights, x);
    case LayerKind::kRecurrence:
      return Recur(layer, weights, x);
    case LayerKind::kSelfAttention:
      break;
  }
  return Attend(layer, weights, x);
}

}  // namespace heed::lab

#endif  // HEED_LAB_COMPARISON_LAYERS_H_
