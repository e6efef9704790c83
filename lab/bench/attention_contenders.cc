#include "lab/bench/attention_contenders.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/GradMode.h>

#include "heed/nn/attention.h"

namespace heed::lab {
namespace {

at::ScalarType TypeOf(BenchType type) {
  switch (type) {
    case BenchType::kFloat:
      return at::kFloat;
    case BenchType::kBFloat16:
      return at::kBFloat16;
    case BenchType::kHalf:
      return at::kHalf;
    case BenchType::kDouble:
      break;
  }
  return at::kDouble;
}

}  // namespace

AttentionContenders::AttentionContenders(const BenchCase& c) : case_(c) {
  const auto make = [&](int64_t heads, int64_t length) {
    return at::randn({c.batch, heads, length, c.head_dim}).to(TypeOf(c.type)).requires_grad_(true);
  };
  q_ = make(c.q_heads, c.Queries());
  k_ = make(c.kv_heads, c.length);
  v_ = make(c.kv_heads, c.length);
  d_out_ = at::randn_like(q_);
  dropout_ = c.option == BenchOption::kDropout || c.option == BenchOption::kCausalDropout ? 0.1 : 0.0;
  causal_ = c.option == BenchOption::kCausal || c.option == BenchOption::kCausalDropout;
  const at::Tensor steps = at::arange(c.length);
  if (c.option == BenchOption::kRelativeBias) {
    table_ = at::randn({c.q_heads, 2 * c.length - 1}).requires_grad_(true);
    offsets_ = steps.unsqueeze(0) - steps.unsqueeze(1) + (c.length - 1);
  }
  if (c.option == BenchOption::kKeyLengths || c.option == BenchOption::kBothLengths) {
    const int64_t shortest = c.length / 8;
    lengths_ = at::linspace(shortest, c.length, c.batch).to(at::kLong);
    const at::Tensor visible = steps.unsqueeze(0) < lengths_.unsqueeze(1);  // [B, n]
    mask_ = visible.unsqueeze(1).unsqueeze(2);
    if (c.option == BenchOption::kBothLengths) mask_ = mask_.logical_and(visible.unsqueeze(1).unsqueeze(3));
  }
}

NamedTensors AttentionContenders::Inputs() const {
  NamedTensors inputs{{"query", q_}, {"key", k_}, {"value", v_}};
  if (table_.defined()) inputs.emplace_back("table", table_);
  return inputs;
}

NamedTensors AttentionContenders::Arrays(BenchSide) {
  NamedTensors arrays = Inputs();
  arrays.emplace_back("d_output", d_out_);
  return arrays;
}

NamedTensors AttentionContenders::Run(BenchSide side, BenchPass pass) {
  const c10::AutoGradMode mode(pass != BenchPass::kForward);
  const at::Tensor output = side == BenchSide::kHeed ? HeedOutput() : TorchOutput();
  NamedTensors computed{{"output", output.detach()}};
  if (pass == BenchPass::kForward) return computed;
  output.backward(d_out_);
  for (auto& [name, input] : Inputs()) {
    computed.emplace_back("d_" + name, input.grad());
    input.mutable_grad().reset();
  }
  return computed;
}

at::Tensor AttentionContenders::HeedOutput() const {
  nn::AttentionOptions options;
  options.causal(causal_).dropout(dropout_);
  if (lengths_.defined()) options.key_lengths(lengths_);
  if (case_.option == BenchOption::kBothLengths) options.query_lengths(lengths_);
  if (table_.defined()) options.relative_bias(table_);
  return nn::attention(q_, k_, v_, options).output;
}

// The dense matrix that LibTorch needs, built in every call because its table trains.
at::Tensor AttentionContenders::TorchBias() const {
  if (!table_.defined()) return mask_;
  return table_.index_select(1, offsets_.flatten()).view({1, case_.q_heads, case_.length, case_.length});
}

at::Tensor AttentionContenders::TorchOutput() const {
  const at::Tensor bias = TorchBias();
  const bool grouped = case_.q_heads != case_.kv_heads;
  return at::scaled_dot_product_attention(q_, k_, v_, bias.defined() ? std::optional(bias) : std::nullopt, dropout_, causal_,
                                          std::nullopt, grouped);
}

std::string AttentionContenders::TorchPath(BenchPass pass) const {
  // A bias that needs a gradient is refused by the fused path.
  const c10::AutoGradMode mode(pass != BenchPass::kForward);
  const at::Tensor bias = TorchBias();
  const bool grouped = case_.q_heads != case_.kv_heads;
  const int64_t choice = at::_fused_sdp_choice(q_, k_, v_, bias.defined() ? std::optional(bias) : std::nullopt, dropout_,
                                               causal_, std::nullopt, grouped);
  return choice == 1 ? "flash" : "math";
}

double AttentionContenders::Operations(BenchPass pass) const {
  const auto n = static_cast<double>(case_.length);
  double pairs = static_cast<double>(case_.batch * case_.Queries()) * n;
  if (causal_) pairs = static_cast<double>(case_.batch) * n * (n + 1) / 2;
  if (lengths_.defined()) {
    pairs = 0;
    for (int64_t b = 0; b < case_.batch; ++b) {
      const auto length = static_cast<double>(lengths_[b].item<int64_t>());
      pairs += length * (case_.option == BenchOption::kBothLengths ? length : n);
    }
  }
  // The backward pass recomputes the scores: five products to the forward pass's two.
  return (pass == BenchPass::kForward ? 4.0 : 14.0) * static_cast<double>(case_.q_heads * case_.head_dim) * pairs;
}

}  // namespace heed::lab
