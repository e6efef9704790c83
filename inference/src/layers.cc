#include "heed/layers.h"

#include <cmath>
#include <span>
#include <string>

#include "heed/error.h"
#include "heed/portable_math.h"
#include "heed/shape_text.h"
#include "parameter.h"

namespace heed {
namespace {

// Widths and numbers of tokens: low enough that no product of two of them overflows.
constexpr int64_t kMostWidth = int64_t{1} << 30;

void CheckSizes(const char* layer, int64_t a, int64_t b) {
  for (const int64_t size : {a, b}) {
    if (size < 1 || size > kMostWidth) {
      throw InvalidArgument(std::string(layer) + ": expected sizes of 1 to 2^30, got " + std::to_string(size));
    }
  }
}

template <class Views>
void CheckShape(const char* layer, const char* name, const Views& view, const decltype(view.extent)& expected) {
  if (view.extent != expected) {
    throw InvalidArgument(std::string(layer) + ": " + name + ": expected " + ShapeText(expected) + ", got " +
                          ShapeText(view.extent));
  }
  if (view.size() > 0 && !view.present()) throw InvalidArgument(std::string(layer) + ": " + name + ": no memory behind it");
}

[[noreturn]] void NotLoaded(const char* layer) {
  throw InvalidArgument(std::string(layer) + ": its weights were not loaded; LoadWeights fills the parameters of a model");
}

// Rows of all batches as one array, where strides allow it.
template <class T>
bool Joined(const View<T, 3>& x, View<T, 2>& rows) {
  const bool one = x.extent[0] == 1 || x.stride[0] == x.extent[1] * x.stride[1];
  rows = {x.data, {x.extent[0] * x.extent[1], x.extent[2]}, {x.stride[1], x.stride[2]}};
  return one;
}

template <class T>
View<T, 2> BatchRow(const View<T, 3>& x, int64_t b) {
  return {x.data + b * x.stride[0], {x.extent[1], x.extent[2]}, {x.stride[1], x.stride[2]}};
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, bool bias) : in_(in), out_(out), has_bias_(bias) { CheckSizes("Linear", in, out); }

Parameters Linear::parameters() {
  Parameters own;
  own.list.push_back(PackedIn(weight_, "weight", out_, in_));
  if (has_bias_) own.list.push_back(KeptIn(bias_, "bias", {out_}));
  return own;
}

void Linear::CheckLoaded() const {
  if (weight_.out() != out_ || (has_bias_ && bias_.empty())) NotLoaded("Linear");
}

void Linear::Forward(View<const float, 2> x, View<float, 2> y, Executor& executor) const {
  CheckLoaded();
  weight_.Multiply(x, BiasOf(bias_), y, executor);
}

void Linear::Forward(View<const float, 3> x, View<float, 3> y, Executor& executor) const {
  CheckLoaded();
  CheckShape("Linear", "x", x, {x.extent[0], x.extent[1], in_});
  CheckShape("Linear", "y", y, {x.extent[0], x.extent[1], out_});
  View<const float, 2> x_rows;
  View<float, 2> y_rows;
  if (Joined(x, x_rows) && Joined(y, y_rows)) return Forward(x_rows, y_rows, executor);
  for (int64_t b = 0; b < x.extent[0]; ++b) Forward(BatchRow(x, b), BatchRow(y, b), executor);
}

LayerNorm::LayerNorm(int64_t width, double eps) : width_(width), eps_(eps) {
  CheckSizes("LayerNorm", width, 1);
  if (!(eps >= 0.0)) throw InvalidArgument("LayerNorm: eps: expected a number of at least 0, got " + std::to_string(eps));
}

Parameters LayerNorm::parameters() {
  Parameters own;
  own.list = {KeptIn(weight_, "weight", {width_}), KeptIn(bias_, "bias", {width_})};
  return own;
}

void LayerNorm::Forward(View<const float, 2> x, View<float, 2> y) const {
  if (weight_.empty() || bias_.empty()) NotLoaded("LayerNorm");
  CheckShape("LayerNorm", "x", x, {x.extent[0], width_});
  CheckShape("LayerNorm", "y", y, {x.extent[0], width_});
  const auto count = static_cast<double>(width_);
  for (int64_t r = 0; r < x.extent[0]; ++r) {
    double sum = 0.0, squares = 0.0;
    for (int64_t c = 0; c < width_; ++c) sum += x(r, c);
    const double mean = sum / count;
    for (int64_t c = 0; c < width_; ++c) squares += (x(r, c) - mean) * (x(r, c) - mean);
    const double factor = 1.0 / std::sqrt(squares / count + eps_);
    for (int64_t c = 0; c < width_; ++c) y(r, c) = static_cast<float>((x(r, c) - mean) * factor * weight_[c] + bias_[c]);
  }
}

Embedding::Embedding(int64_t tokens, int64_t width) : tokens_(tokens), width_(width) { CheckSizes("Embedding", tokens, width); }

Parameters Embedding::parameters() {
  Parameters own;
  own.list = {KeptIn(weight_, "weight", {tokens_, width_})};
  return own;
}

View<const float, 2> Embedding::weight() const {
  return weight_.empty() ? View<const float, 2>() : View<const float, 2>::Contiguous(weight_.data(), {tokens_, width_});
}

void Embedding::Forward(View<const int32_t, 1> tokens, float scale, View<float, 2> y) const {
  if (weight_.empty()) NotLoaded("Embedding");
  CheckShape("Embedding", "tokens", tokens, {tokens.extent[0]});
  CheckShape("Embedding", "y", y, {tokens.extent[0], width_});
  for (int64_t r = 0; r < tokens.extent[0]; ++r) {
    if (tokens(r) < 0 || tokens(r) >= tokens_) {
      throw InvalidArgument("Embedding: tokens: expected numbers in 0.." + std::to_string(tokens_ - 1) + ", got " +
                            std::to_string(tokens(r)));
    }
  }
  for (int64_t r = 0; r < tokens.extent[0]; ++r) {
    const float* row = weight_.data() + tokens(r) * width_;
    for (int64_t c = 0; c < width_; ++c) y(r, c) = scale * row[c];
  }
}

float Activate(float x, Activation activation) {
  if (activation == Activation::kRelu) return x > 0.0f || std::isnan(x) ? x : 0.0f;
  if (activation == Activation::kGelu) return 0.5f * x * (1.0f + portable::Erf(x * 0.70710678118654752f));
  constexpr float kSqrtTwoOverPi = 0.79788456080286536f;  // Hendrycks and Gimpel 2016, section 2
  return 0.5f * x * (1.0f + portable::Tanh(kSqrtTwoOverPi * (x + 0.044715f * x * x * x)));
}

PositionWiseFFN::PositionWiseFFN(int64_t width, int64_t hiddens, Activation activation, int64_t input_width)
    : dense1_(input_width == 0 ? width : input_width, hiddens), dense2_(hiddens, width), activation_(activation) {}

Parameters PositionWiseFFN::parameters() {
  Parameters own;
  own.Add("dense1", dense1_.parameters());
  own.Add("dense2", dense2_.parameters());
  return own;
}

void PositionWiseFFN::Forward(View<const float, 2> x, View<float, 2> y, ModelWorkspace& workspace, Executor& executor) const {
  CheckShape("PositionWiseFFN", "x", x, {x.extent[0], dense1_.in()});
  CheckShape("PositionWiseFFN", "y", y, {x.extent[0], dense2_.out()});
  const ModelWorkspace::Frame frame(workspace);
  const View<float, 2> hidden = workspace.TakeRows(x.extent[0], dense1_.out());
  dense1_.Forward(x, hidden, executor);
  for (float& number : std::span(hidden.data, static_cast<std::size_t>(hidden.size()))) number = Activate(number, activation_);
  dense2_.Forward(hidden, y, executor);
}

void PositionWiseFFN::Forward(View<const float, 2> x, View<float, 2> y, Executor& executor) const {
  ModelWorkspace workspace;
  Forward(x, y, workspace, executor);
}

}  // namespace heed
