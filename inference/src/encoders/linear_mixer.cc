#include "encoders/linear_mixer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "heed/error.h"
#include "heed/gated_delta.h"
#include "heed/portable_math.h"
#include "heed/thread_workspace.h"
#include "parameter.h"

namespace heed {
namespace {

constexpr int64_t kTaps = 4;
constexpr float kEpsilon = 1e-5f, kShortest = 1e-6f;

float Silu(float x) { return x / (1.0f + portable::Exp(-x)); }

// Of -e^A softplus(x) and the like; x itself where e^-x would be lost.
float Softplus(float x) { return x > 20.0f ? x : static_cast<float>(portable::Log1p(double{portable::Exp(x)})); }

// Divides by the root of (sum of squares * weight + smallest), and multiplies by scale.
void Normalise(float* x, int64_t count, float weight, float smallest, float scale) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  const float factor = scale / std::sqrt(sum * weight + smallest);
  for (int64_t i = 0; i < count; ++i) x[i] *= factor;
}

}  // namespace

// What in_proj gave, [rows * steps, columns], of steps behind `first` others.
struct LinearMixer::Steps {
  View<float, 2> all;
  int64_t rows, steps;
  int64_t first = 0;
  const float* inputs = nullptr;  // what the convolution read last before them, [kTaps - 1, columns of v, k and q]
};

LinearMixer::LinearMixer(const EncoderOptions& options, int64_t hidden)
    : linear_(options.encoder == "linear"),
      retention_(options.encoder == "retention"),
      mamba_(options.encoder == "mamba2"),
      delta_(options.encoder == "gated-delta"),
      has_bias_(options.bias),
      heads_(options.heads),
      hidden_(hidden),
      gate_(linear_  ? 0
            : mamba_ ? 2 * hidden
                     : hidden),
      value_(mamba_ ? 2 * hidden : hidden),
      key_(mamba_ ? 2 * hidden / std::max<int64_t>(heads_, 1) : hidden),
      columns_(gate_ + value_ + 2 * key_ + (mamba_ ? heads_ : 0) + (delta_ ? 2 * heads_ : 0)),
      in_(options.width, columns_, options.bias),
      out_(value_, hidden, options.bias) {
  if (heads_ < 1 || hidden % heads_ != 0)
    throw InvalidArgument(options.encoder + ": heads (" + std::to_string(heads_) + ") must divide the " +
                          std::to_string(hidden) + " columns that read one way");
  const int64_t pairs = key_ / heads_ / 2;
  if (retention_ && pairs > 0) turns_ = ComputeRotaryFrequencies({.rotary_dim = 2 * pairs});
}

Parameters LinearMixer::parameters() {
  Parameters own;
  const int64_t mixed = value_ + 2 * key_;
  if (mamba_ || delta_) {
    own.list.push_back(KeptIn(conv_weight_, "conv_weight", {mixed, kTaps}));
    if (has_bias_) own.list.push_back(KeptIn(conv_bias_, "conv_bias", {mixed}));
    own.list.push_back(KeptIn(A_log_, "A_log", {heads_}));
    own.list.push_back(KeptIn(dt_bias_, "dt_bias", {heads_}));
  }
  if (mamba_) own.list.push_back(KeptIn(skip_, "D", {heads_}));
  if (!linear_) own.list.push_back(KeptIn(norm_, "norm_weight", {mamba_ ? value_ : hidden_ / heads_}));
  own.Add("in_proj", in_.parameters());
  own.Add("out_proj", out_.parameters());
  return own;
}

int64_t LinearMixer::StateNumbers() const { return (mamba_ ? heads_ : 1) * key_ * (value_ / heads_ + (linear_ ? 1 : 0)); }

int64_t LinearMixer::InputNumbers() const { return mamba_ || delta_ ? (kTaps - 1) * (value_ + 2 * key_) : 0; }

LinearState LinearMixer::NewState() const { return {StateNumbers(), InputNumbers()}; }

void LinearMixer::Begin(Steps& of, LinearState& state) const {
  if (of.rows != 1 || std::ssize(state.now_.state) != StateNumbers() || std::ssize(state.now_.inputs) != InputNumbers())
    throw InvalidArgument("caches: expected states of this encoder's sizes, for one row");
  state.Begin(of.steps);
  of.first = state.before_.length, of.inputs = state.before_.inputs.data();
}

void LinearMixer::KeepInputs(const Steps& of, float* inputs) const {
  const int64_t mixed = value_ + 2 * key_;
  for (int64_t kept = 0; kept < kTaps - 1; ++kept) {
    const int64_t step = of.steps - (kTaps - 1) + kept;
    std::copy_n(step < 0 ? of.inputs + (kTaps - 1 + step) * mixed : &of.all(step, gate_), mixed, inputs + kept * mixed);
  }
}

// From the last step to the first, so that each finds those before it as they were.
void LinearMixer::Convolve(const Steps& of) const {
  const int64_t mixed = value_ + 2 * key_;
  for (int64_t place = of.all.extent[0] - 1; place >= 0; --place) {
    float* const here = &of.all(place, gate_);
    const int64_t step = place % of.steps, before = std::min(of.first + step, kTaps - 1);
    const float* taps[kTaps] = {};
    for (int64_t back = 0; back <= before; ++back)
      taps[back] = back <= step ? here - back * of.all.stride[0] : of.inputs + (kTaps - 1 + step - back) * mixed;
    for (int64_t c = 0; c < mixed; ++c) {
      float sum = conv_bias_.empty() ? 0.0f : conv_bias_[c];
      for (int64_t back = 0; back <= before; ++back) sum += conv_weight_[c * kTaps + kTaps - 1 - back] * taps[back][c];
      here[c] = Silu(sum);
    }
  }
}

// Keys and queries by position, halves of a head's columns against each other.
void LinearMixer::Turn(const Steps& of, const EncoderCall& call) const {
  const int64_t width = key_ / heads_, pairs = width / 2;
  if (pairs == 0) return;
  const ModelWorkspace::Frame frame(call.workspace);
  const View<float, 2> cos = call.workspace.TakeRows(of.steps, pairs), sin = call.workspace.TakeRows(of.steps, pairs);
  RotaryTable(turns_, of.first, cos, sin);
  for (int64_t place = 0; place < of.all.extent[0]; ++place) {
    for (int64_t head = 0; head < 2 * heads_; ++head) {
      float* const x = &of.all(place, gate_ + value_ + head * width);
      for (int64_t c = 0; c < pairs; ++c) {
        const float real = x[c], other = x[c + pairs], by = cos(place % of.steps, c), across = sin(place % of.steps, c);
        x[c] = real * by - other * across, x[c + pairs] = other * by + real * across;
      }
    }
  }
}

void LinearMixer::Rates(const Steps& of, float* decay, float* weight) const {
  for (int64_t place = 0; place < of.all.extent[0]; ++place) {
    const float* const numbers = &of.all(place, gate_ + value_ + 2 * key_);
    for (int64_t h = 0; h < heads_; ++h) {
      const int64_t at = (place / of.steps * heads_ + h) * of.steps + place % of.steps;
      const float dt = Softplus(numbers[h] + dt_bias_[h]);
      decay[at] = -portable::Exp(A_log_[h]) * dt;
      weight[at] = mamba_ ? dt : portable::Logistic(numbers[heads_ + h]);
      if (!std::isnan(decay[at]) && !std::isnan(weight[at])) continue;
      // As decays they would be refused as arguments of a call; the values carry them to the answer.
      decay[at] = weight[at] = 0;
      const int64_t value = value_ / heads_;
      std::fill_n(&of.all(place, gate_ + h * value), value, std::numeric_limits<float>::quiet_NaN());
    }
  }
}

void LinearMixer::ShapeKeys(const Steps& of) const {
  const int64_t key = mamba_ ? key_ : key_ / heads_;
  const float scale = 1.0f / std::sqrt(static_cast<float>(key));
  for (int64_t place = 0; place < of.all.extent[0]; ++place) {
    float *const keys = &of.all(place, gate_ + value_), *const queries = keys + key_;
    if (linear_) {
      for (int64_t c = 0; c < 2 * key_; ++c) keys[c] = keys[c] > 0 ? keys[c] + 1 : portable::Exp(keys[c]);
    } else if (retention_) {
      for (int64_t c = 0; c < key_; ++c) keys[c] *= scale;
    } else if (delta_) {
      for (int64_t h = 0; h < heads_; ++h) {
        Normalise(keys + h * key, key, 1.0f, kShortest, 1.0f);
        Normalise(queries + h * key, key, 1.0f, kShortest, scale);
      }
    }
  }
}

void LinearMixer::NormAndGate(const Steps& of, View<float, 2> mixed) const {
  const int64_t width = mamba_ ? value_ : value_ / heads_;
  for (int64_t place = 0; place < mixed.extent[0]; ++place) {
    float* const y = &mixed(place, 0);
    const float* const gate = &of.all(place, 0);
    if (mamba_)
      for (int64_t c = 0; c < value_; ++c) y[c] *= Silu(gate[c]);
    for (int64_t first = 0; first < value_; first += width) {
      Normalise(y + first, width, 1.0f / static_cast<float>(width), kEpsilon, 1.0f);
      for (int64_t c = 0; c < width; ++c) y[first + c] *= norm_[c];
    }
    if (!mamba_)
      for (int64_t c = 0; c < value_; ++c) y[c] *= Silu(gate[c]);
  }
}

// One that is not finite would be refused as an argument of a call; the values carry it to the answer.
void LinearMixer::StatesBefore(const Steps& of, const std::vector<float>& before, float* states) const {
  const int64_t head = std::ssize(before) / heads_, value = value_ / heads_;
  std::ranges::copy(before, states);
  for (int64_t h = 0; h < heads_; ++h) {
    const std::span<float> own(states + h * head, static_cast<std::size_t>(head));
    if (std::ranges::all_of(own, [](float x) { return std::isfinite(x); })) continue;
    std::ranges::fill(own, 0.0f);
    for (int64_t place = 0; place < of.steps; ++place)
      std::fill_n(&of.all(place, gate_ + h * value), value, std::numeric_limits<float>::quiet_NaN());
  }
}

void LinearMixer::Mix(const LinearInputs<float>& in, const LinearOutputs<float>& to, Executor& executor) const {
  LinearOptions options;
  options.normalise = linear_;
  if (!to.final_state.present() || to.final_state.data != in.initial_state.data)
    return (delta_ ? GatedDeltaForward<float> : LinearAttentionForward<float>)(options, in, to, ThreadWorkspace(), executor);
  const auto by_head = [this](auto all) {
    return View<std::remove_pointer_t<decltype(all.data)>, 3>{all.data, {1, heads_, all.extent[3]}, {0, all.stride[1], 1}};
  };
  LinearStep<float> step;
  step.q = by_head(in.q), step.k = by_head(in.k), step.v = by_head(in.v);
  if (in.decay.present()) step.decay = View<const float, 2>::Contiguous(in.decay.data, {1, heads_});
  if (delta_) step.beta = View<const float, 2>::Contiguous(in.beta.data, {1, heads_});
  if (delta_) return GatedDeltaStep(step, to.final_state, by_head(to.out), executor);
  LinearAttentionStep(step, to.final_state, by_head(to.out), executor, linear_);
}

void LinearMixer::Forward(View<float, 3> X, View<float, 3> Y, const EncoderCall& call, LinearState* state) const {
  ModelWorkspace& workspace = call.workspace;
  const ModelWorkspace::Frame frame(workspace);
  const int64_t rows = X.extent[0], steps = X.extent[1], all = rows * steps, value = value_ / heads_,
                key = mamba_ ? key_ : key_ / heads_;
  Steps of{workspace.TakeRows(all, columns_), rows, steps};
  const View<float, 2> mixed = workspace.TakeRows(all, value_), weighed = workspace.TakeRows(mamba_ ? all : 0, value_);
  float* const decay = workspace.Take<float>(std::max(all, int64_t{1}) * heads_);
  float* const weight = workspace.Take<float>(all * heads_);
  if (state != nullptr) Begin(of, *state);
  in_.Forward(AllRows(X), of.all, call.executor);
  if (state != nullptr && !state->now_.inputs.empty()) KeepInputs(of, state->now_.inputs.data());
  if (mamba_ || delta_) Convolve(of), Rates(of, decay, weight);
  if (retention_) {
    Turn(of, call);
    for (int64_t h = 0; h < heads_; ++h)
      decay[h] = static_cast<float>(portable::Log1p(-portable::Exp2(-5.0 - static_cast<double>(h))));
  }
  LinearInputs<float> inputs;
  LinearOutputs<float> outputs;
  if (state != nullptr) {
    // One step changes the states in place.
    const std::array<int64_t, 4> shape{1, heads_, key, value + (linear_ ? 1 : 0)};
    std::vector<float>& now = state->now_.state;
    float* const before = steps == 1 ? now.data() : workspace.Take<float>(std::ssize(now));
    StatesBefore(of, state->before_.state, before);
    inputs.initial_state = View<const float, 4>::Contiguous(before, shape);
    outputs.final_state = View<float, 4>::Contiguous(now.data(), shape);
  }
  ShapeKeys(of);
  for (int64_t place = 0; place < weighed.extent[0]; ++place)
    for (int64_t c = 0; c < value_; ++c)
      weighed(place, c) = weight[(place / steps * heads_ + c / value) * steps + place % steps] * of.all(place, gate_ + c);
  const auto by_head = [&](float* first, int64_t width, int64_t head_stride, int64_t row_stride) {
    return View<float, 4>{first, {rows, heads_, steps, width}, {steps * row_stride, head_stride, row_stride, 1}};
  };
  const auto of_steps = [&](float* numbers) { return View<const float, 3>::Contiguous(numbers, {rows, heads_, steps}); };
  float* const first = of.all.data + gate_;
  inputs.v = mamba_ ? by_head(weighed.data, value, value, value_) : by_head(first, value, value, columns_);
  inputs.k = by_head(first + value_, key, mamba_ ? 0 : key, columns_);
  inputs.q = by_head(first + value_ + key_, key, mamba_ ? 0 : key, columns_);
  if (retention_) inputs.decay = View<const float, 3>::Contiguous(decay, {1, heads_, 1});
  if (mamba_ || delta_) inputs.decay = of_steps(decay);
  if (delta_) inputs.beta = of_steps(weight);
  outputs.out = by_head(mixed.data, value, value, value_);
  if (linear_) outputs.sums = View<float, 3>::Contiguous(weight, {rows, heads_, steps});
  Mix(inputs, outputs, call.executor);
  for (int64_t place = 0; place < weighed.extent[0]; ++place)
    for (int64_t c = 0; c < value_; ++c) mixed(place, c) += skip_[c / value] * of.all(place, gate_ + c);
  if (!linear_) NormAndGate(of, mixed);
  out_.Forward(View<const float, 3>::Contiguous(mixed.data, {rows, steps, value_}), Y, call.executor);
}

}  // namespace heed
