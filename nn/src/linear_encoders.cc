#include "heed/nn/linear_encoders.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include "heed/error.h"
#include "heed/nn/linear_attention.h"
#include "refuse.h"
#include "residual_layers.h"
#include "sizes.h"

namespace heed::nn {
namespace {

constexpr int64_t kTaps = 4;        // of the convolution
constexpr double kEpsilon = 1e-5;   // of root mean squares
constexpr double kShortest = 1e-6;  // of the square of a key's length

// Columns of in_proj.
struct Columns {
  int64_t gate, value, key, numbers;  // key: of query and key each; numbers: of all heads, of kinds that convolve
};

Columns ColumnsOf(const std::string& kind, int64_t hidden, int64_t heads) {
  if (kind == "linear") return {0, hidden, hidden, 0};
  if (kind == "retention") return {hidden, hidden, hidden, 0};
  if (kind == "mamba2") return {2 * hidden, 2 * hidden, 2 * hidden / heads, heads};
  if (kind == "gated-delta") return {hidden, hidden, hidden, 2 * heads};
  Refuse("LinearMixer: kind: '", kind, "' is unknown; expected linear, retention, mamba2 or gated-delta");
}

// [batch, steps, columns] -> [batch, heads, steps, columns / heads]
at::Tensor ByHead(const at::Tensor& columns, int64_t heads) { return columns.unflatten(2, {heads, -1}).transpose(1, 2); }

// X may have more bits than the weight.
at::Tensor RootMeanSquare(const at::Tensor& X, const at::Tensor& weight) {
  return at::rms_norm(X, weight.sizes(), weight.to(X.scalar_type()), kEpsilon);
}

// That its tensors, where there are any, are those of a layer for steps like these.
void CheckState(const LinearState& state, const LinearMixerImpl& layer, const Columns& columns, const at::Tensor& projected) {
  const bool linear = layer.kind == "linear", shared = layer.kind == "mamba2";
  const auto check = [&](const char* name, const at::Tensor& kept, const std::vector<int64_t>& shape) {
    if (kept.defined() && (kept.sizes() != at::IntArrayRef(shape) || kept.scalar_type() != projected.scalar_type()))
      Refuse("LinearMixer: ", name, ": expected ", projected.scalar_type(), " ", at::IntArrayRef(shape), ", got ",
             kept.scalar_type(), " ", kept.sizes());
  };
  const int64_t batch = projected.size(0);
  check("state", state.state,
        {batch, layer.heads, shared ? columns.key : columns.key / layer.heads, columns.value / layer.heads + (linear ? 1 : 0)});
  check("state: inputs", state.inputs, {batch, kTaps - 1, columns.value + 2 * columns.key});
}

// The call begins with a state. A head's that is not finite would be refused as an argument; the values carry it on.
void GoOn(const at::Tensor& state, at::Tensor& value, LinearAttentionOptions& options) {
  options.initial_state = state;
  if (!state.defined() || std::isfinite(state.sum().item<double>())) return;
  const at::Tensor lost = state.isfinite().flatten(2).all(2).logical_not().view({state.size(0), state.size(1), 1, 1});
  options.initial_state = state.masked_fill(lost, 0);
  value = value.masked_fill(lost, std::numeric_limits<double>::quiet_NaN());
}

at::Tensor OfLengthOne(const at::Tensor& X) { return X * (X.square().sum(-1, /*keepdim=*/true) + kShortest).rsqrt(); }

}  // namespace

LinearMixerImpl::LinearMixerImpl(std::string kind_, int64_t input_size_, int64_t hidden_size_, int64_t heads_, bool bias_)
    : kind(std::move(kind_)), input_size(input_size_), hidden_size(hidden_size_), heads(heads_), bias(bias_) {
  if (input_size < 1 || hidden_size < 1 || heads < 1 || hidden_size % heads != 0)
    Refuse("LinearMixer: expected sizes of at least 1 and heads that divide hidden_size, got input_size ", input_size,
           ", hidden_size ", hidden_size, " and heads ", heads);
  reset();
}

void LinearMixerImpl::reset() {
  using torch::nn::LinearOptions;
  const Columns columns = ColumnsOf(kind, hidden_size, heads);
  const int64_t mixed = columns.value + 2 * columns.key, head_dim = hidden_size / heads;
  in_proj = register_module("in_proj",
                            torch::nn::Linear(LinearOptions(input_size, columns.gate + mixed + columns.numbers).bias(bias)));
  if (columns.numbers > 0) {
    const double bound = 1 / std::sqrt(static_cast<double>(kTaps));
    conv_weight = register_parameter("conv_weight", at::empty({mixed, kTaps}).uniform_(-bound, bound));
    if (bias) conv_bias = register_parameter("conv_bias", at::empty({mixed}).uniform_(-bound, bound));
    A_log = register_parameter("A_log", at::arange(1, heads + 1, at::kDouble).log().to(at::kFloat));
    const at::Tensor dt = at::linspace(std::log(1e-3), std::log(1e-1), heads, at::kDouble).exp();
    dt_bias = register_parameter("dt_bias", dt.expm1().log().to(at::kFloat));  // softplus of which is dt
  }
  if (kind == "mamba2") D = register_parameter("D", at::ones({heads}));
  if (columns.gate > 0)
    norm_weight = register_parameter("norm_weight", at::ones({kind == "mamba2" ? columns.value : head_dim}));
  if (kind == "retention" && head_dim > 1) rotary_ = Rotary(head_dim, RotaryOptions{.rotary_dim = head_dim / 2 * 2});
  out_proj = register_module("out_proj", torch::nn::Linear(LinearOptions(columns.value, hidden_size).bias(bias)));
}

// Four products, which no step needs padding for; PyTorch's convolution takes no fewer steps than taps.
at::Tensor LinearMixerImpl::Convolved(const at::Tensor& columns, at::Tensor* inputs) const {
  const at::Tensor padded =
      inputs && inputs->defined() ? at::cat({*inputs, columns}, 1) : at::constant_pad_nd(columns, {0, 0, kTaps - 1, 0});
  if (inputs) *inputs = padded.narrow(1, columns.size(1), kTaps - 1).clone();
  at::Tensor sum = conv_bias;
  for (int64_t tap = 0; tap < kTaps; ++tap) {
    const at::Tensor product = padded.narrow(1, tap, columns.size(1)) * conv_weight.select(1, tap);
    sum = sum.defined() ? sum + product : product;
  }
  return at::silu(sum);
}

torch::Tensor LinearMixerImpl::forward(const torch::Tensor& X, LinearState* state) {
  CheckInput("LinearMixer", X, input_size);
  const Columns columns = ColumnsOf(kind, hidden_size, heads);
  at::Tensor projected = in_proj(X);
  const at::ScalarType type = projected.scalar_type();
  // The squares of a root mean square leave what float16 holds, and sums over many steps need more digits than 16 bits have.
  if (IsNarrow(type)) projected = projected.to(at::kFloat);
  LinearState now = state ? *state : LinearState();
  if (state) CheckState(now, *this, columns, projected);
  const auto parts = projected.split_with_sizes({columns.gate, columns.value + 2 * columns.key, columns.numbers}, 2);
  const at::Tensor gate = at::silu(parts[0]),
                   mixed = columns.numbers > 0 ? Convolved(parts[1], state ? &now.inputs : nullptr) : parts[1];
  const auto by_kind = mixed.split_with_sizes({columns.value, columns.key, columns.key}, 2);
  const bool shared = kind == "mamba2";
  at::Tensor value = ByHead(by_kind[0], heads), key = ByHead(by_kind[1], shared ? 1 : heads),
             query = ByHead(by_kind[2], shared ? 1 : heads);
  const double scale = 1 / std::sqrt(static_cast<double>(key.size(3)));
  const at::Tensor numbers = parts[2].transpose(1, 2);
  LinearAttentionOptions options;
  at::Tensor dt, beta;
  if (columns.numbers > 0) {
    dt = at::softplus(numbers.narrow(1, 0, heads) + dt_bias.unsqueeze(1));
    const at::Tensor decay = -A_log.to(dt.scalar_type()).exp().unsqueeze(1) * dt;
    at::Tensor lost = decay.isnan();
    if (!shared) {
      beta = numbers.narrow(1, heads, heads).sigmoid();
      lost = lost | beta.isnan();
      beta = beta.masked_fill(lost, 0);
    }
    // A training that has left the finite numbers looks for NaN in outputs; as decays they would be refused as arguments.
    options.decay = decay.masked_fill(lost, 0);
    value = value.masked_fill(lost.unsqueeze(3), std::numeric_limits<double>::quiet_NaN());
  }
  GoOn(now.state, value, options);
  LinearAttentionResult result;
  if (kind == "linear") {
    options.normalise = true;
    result = linear_attention(at::elu(query) + 1, at::elu(key) + 1, value, options);
  } else if (kind == "retention") {
    const TokenPositions places(now.length);
    if (rotary_) query = rotary_->rotate_query(query, places), key = rotary_->rotate_key(key, places);
    const at::Tensor power = at::arange(heads, at::kDouble) + 5;
    options.decay = at::log1p(-at::exp2(-power)).to(query.scalar_type()).view({1, heads, 1});
    result = linear_attention(query, key * scale, value, options);
  } else if (kind == "mamba2") {
    const std::vector<int64_t> shape{X.size(0), heads, X.size(1), columns.key};
    result = linear_attention(query.expand(shape), key.expand(shape), value * dt.unsqueeze(3), options);
    result.output = result.output + D.view({heads, 1, 1}) * value;
  } else {
    result = gated_delta_rule(OfLengthOne(query) * scale, OfLengthOne(key), value, beta, options);
  }
  now.state = result.final_state;
  at::Tensor Y = result.output.transpose(1, 2);
  if (shared)
    Y = RootMeanSquare(Y.flatten(2) * gate, norm_weight);
  else
    Y = columns.gate > 0 ? RootMeanSquare(Y, norm_weight).flatten(2) * gate : Y.flatten(2);
  Y = out_proj(Y.to(type));
  if (!state) return Y;
  if (now.state.requires_grad() || (now.inputs.defined() && now.inputs.requires_grad()))
    throw InvalidArgument(
        "LinearMixer: state: expected no gradients to be recorded, because a state passes none on; decode under "
        "torch.no_grad() or torch::NoGradGuard, or train without a state");
  now.length += X.size(1);
  *state = std::move(now);
  return Y;
}

torch::Tensor LinearEncoderImpl::step(const torch::Tensor& X, LayerCaches& caches) {
  if (!CanStep()) return SequenceEncoder::step(X, caches);
  CheckInput("LinearEncoder", X, options.width());
  CheckCaches("LinearEncoder", caches, readers.size(), /*states=*/true);
  std::vector<LinearState> states;  // those of the caches once all layers have read
  for (std::size_t l = 0; l < readers.size(); ++l) states.push_back(caches.state(l));
  const at::Tensor Y = Layers(X, [&](std::size_t l, const at::Tensor& given) { return readers[l](given, &states[l]); });
  for (std::size_t l = 0; l < readers.size(); ++l) caches.state(l) = std::move(states[l]);
  return Y;
}

}  // namespace heed::nn
