#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include "bench/suites/contenders.h"
#include "bench/suites/torch_attention.h"
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

at::Tensor Lengths(int64_t total, int64_t batch) {
  at::Tensor lengths = at::empty({batch}, at::kLong);
  for (int64_t b = 0; b < batch; ++b) lengths.mutable_data_ptr<int64_t>()[b] = LengthOf(total, batch, b);
  return lengths;
}

// Threads and pass of the case are the caller's to heed.
class AttentionContenders : public BenchContenders {
 public:
  explicit AttentionContenders(const CallCase& c) : case_(c) {
    using enum CallCase::Bias;
    const Shape& shape = c.shape;
    const at::ScalarType type = TypeOf(c.type);
    const auto make = [&](at::IntArrayRef sizes, bool trains) { return at::randn(sizes).to(type).requires_grad_(trains); };
    inputs_.query = make({shape.batch, shape.q_heads, shape.q_len, shape.head_dim}, true);
    inputs_.key = make({shape.batch, shape.kv_heads, shape.kv_len, shape.head_dim}, true);
    inputs_.value = make({shape.batch, shape.kv_heads, shape.kv_len, shape.value_dim}, true);
    d_out_ = make({shape.batch, shape.q_heads, shape.q_len, shape.value_dim}, false);
    if (c.bias == kConstant || c.bias == kTrainable)
      inputs_.bias = make({1, shape.q_heads, shape.q_len, shape.kv_len}, c.bias == kTrainable);
    if (c.bias == kTrainableRelative) inputs_.table = make({shape.q_heads, 2 * std::max(shape.q_len, shape.kv_len) - 1}, true);
    if (c.mask) inputs_.mask = at::rand({shape.batch, 1, shape.q_len, shape.kv_len}).gt(0.25);
    if (c.key_lengths) key_lengths_ = Lengths(shape.kv_len, shape.batch);
    if (c.query_lengths) query_lengths_ = Lengths(shape.q_len, shape.batch);
    torch_.emplace(case_, inputs_);
    ways_ = torch_->Ways();
    way_ = ways_.front();
  }

  NamedTensors Run(BenchSide side, BenchPass pass) override {
    const c10::AutoGradMode mode(pass != BenchPass::kForward);
    const at::Tensor output = side == BenchSide::kHeed ? HeedOutput() : torch_->Output(way_);
    NamedTensors computed{{"output", output.detach()}};
    if (pass == BenchPass::kForward) return computed;
    output.backward(d_out_);
    for (auto& [name, input] : Inputs()) {
      computed.emplace_back("d_" + name, input.grad());
      input.mutable_grad().reset();
    }
    return computed;
  }

  NamedTensors Arrays(BenchSide /*side*/) override {
    NamedTensors arrays = Inputs();
    arrays.emplace_back("d_output", d_out_);
    return arrays;
  }

  std::string TorchPath(BenchPass pass) const override {
    // A bias that needs a gradient is refused by the fused path.
    const c10::AutoGradMode mode(pass != BenchPass::kForward);
    return torch_->Path(way_);
  }

  double Operations(BenchPass pass) const override {
    // The backward pass recomputes the scores: three products as wide as keys and two as wide as values.
    const auto key = static_cast<double>(case_.shape.head_dim), value = static_cast<double>(case_.shape.value_dim);
    const double multiply_adds = pass == BenchPass::kForward ? key + value : 4 * key + 3 * value;
    return 2 * multiply_adds * static_cast<double>(case_.shape.q_heads) * torch_->Pairs();
  }

  std::vector<std::string> TorchWays() const override {
    std::vector<std::string> names;
    names.reserve(ways_.size());
    for (const TorchWay& way : ways_) names.push_back(way.Name());
    return names;
  }
  void SetTorchWay(std::size_t place) override { way_ = ways_.at(place); }

 private:
  at::Tensor HeedOutput() const {
    nn::AttentionOptions options;
    options.causal(case_.causal).window(case_.window.left, case_.window.right).dropout(case_.dropout);
    if (key_lengths_.defined()) options.key_lengths(key_lengths_);
    if (query_lengths_.defined()) options.query_lengths(query_lengths_);
    if (inputs_.mask.defined()) options.mask(inputs_.mask);
    if (inputs_.bias.defined()) options.bias(inputs_.bias);
    if (inputs_.table.defined()) options.relative_bias(inputs_.table);
    return nn::attention(inputs_.query, inputs_.key, inputs_.value, options).output;
  }

  // Those with gradients.
  NamedTensors Inputs() const {
    NamedTensors inputs{{"query", inputs_.query}, {"key", inputs_.key}, {"value", inputs_.value}};
    if (inputs_.table.defined()) inputs.emplace_back("table", inputs_.table);
    if (case_.bias == CallCase::Bias::kTrainable) inputs.emplace_back("bias", inputs_.bias);
    return inputs;
  }

  CallCase case_;
  AttentionInputs inputs_;
  at::Tensor d_out_, key_lengths_, query_lengths_;  // lengths [B]
  std::optional<TorchAttention> torch_;
  std::vector<TorchWay> ways_;
  TorchWay way_;
};

}  // namespace

std::unique_ptr<BenchContenders> MakeAttentionContenders(const CallCase& c) { return std::make_unique<AttentionContenders>(c); }

}  // namespace heed::lab
