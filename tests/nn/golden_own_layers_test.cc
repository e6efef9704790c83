// The attention layers that come with Flax, Keras, Paddle and PyTorch, loaded into heed's.
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "golden_cases.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/transformer_decoder.h"
#include "heed/nn/weights.h"

namespace heed::nn {
namespace {

// Self-attention without masks other than causality and padding of keys; what other cases of these layers add (dense masks,
// other widths, normalised queries) is not heed's layer.
std::vector<std::string> OwnLayerNames() {
  std::vector<std::string> names;
  const std::set<std::string> known{"flax_mha_self",         "flax_mha_nobias_causal_f32",   "flax_nnx_mha_self",
                                    "keras_mha_self",        "keras_mha_causal_nobias_f32",  "paddle_mha_self_pad",
                                    "torch_mha_packed_self", "torch_mha_seqfirst_causal_f32"};
  for (const std::string& name : GoldenNames()) {
    if (known.count(name) != 0) names.push_back(name);
  }
  return names;
}

// [B, Nq]: how many keys each query sees, from a mask that is a prefix in every row; undefined without a mask. True means
// "may look", except for PyTorch, where it means the opposite.
at::Tensor KeyLengths(const GoldenCase& golden, int64_t batch, int64_t steps) {
  const TensorMap masks = golden.WithPrefix("mask.");
  if (masks.empty()) return {};
  at::Tensor keep = masks.begin()->second;
  if (golden.framework() == Framework::kTorch) keep = keep.logical_not();
  if (masks.begin()->first == "key_padding_mask") keep = keep.unsqueeze(1);  // [B, Nk]
  if (keep.dim() == 4) keep = keep.squeeze(1);
  keep = keep.expand({batch, steps, steps});
  at::Tensor lengths = keep.sum(2);
  EXPECT_TRUE(at::equal(keep, at::arange(steps) < lengths.unsqueeze(2))) << "the mask is not a prefix";
  return lengths;
}

class GoldenOwnLayerTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOwnLayerTest, Agrees) {
  const GoldenCase golden(GetParam());
  const bool steps_first = golden.options.value("batch_first", true) == false;
  at::Tensor X = golden.At("input.X").clone().requires_grad_();
  const at::Tensor batched = steps_first ? X.transpose(0, 1) : X;
  const bool bias = golden.options.value("use_bias", golden.options.value("bias", true));
  MultiHeadAttention attention(
      MultiHeadAttentionOptions(batched.size(2), golden.options.at("num_heads")).bias(bias).keep_attention_weights(true));
  attention->to(X.scalar_type());
  load_weights(*attention, golden.WithPrefix("param."), golden.framework());
  if (golden.options.contains("scale")) {  // Keras rounds 1 / sqrt(head_dim) to float32
    const int64_t head_dim = batched.size(2) / attention->options.num_heads();
    const at::NoGradGuard no_grad;
    attention->W_q->weight.mul_(golden.options.at("scale").get<double>() * std::sqrt(static_cast<double>(head_dim)));
    if (bias) attention->W_q->bias.mul_(golden.options.at("scale").get<double>() * std::sqrt(head_dim));
  }
  if (golden.options.value("use_causal_mask", false)) attention->options.causal(Causal::kBottomRight);

  const at::Tensor output = attention(batched, batched, batched, KeyLengths(golden, batched.size(0), batched.size(1)));
  golden.ExpectClose(steps_first ? output.transpose(0, 1) : output, "output.Y", "output");
  if (golden.Has("output.attention_weights")) {
    const at::Tensor& weights = golden.At("output.attention_weights");
    golden.ExpectClose(attention->attention_weights().view(weights.sizes()), "output.attention_weights", "weights");
  }
  if (!golden.Has("grad_output.G")) return;
  const at::Tensor G = golden.At("grad_output.G");
  (output * (steps_first ? G.transpose(0, 1) : G)).sum().backward();
  golden.ExpectClose(X.grad(), "grad.input.X", "grad");
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenOwnLayerTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenOwnLayerTest, testing::ValuesIn(OwnLayerNames()), CaseName);

// A layer's tensors under one of its submodules' names.
TensorMap PartOf(const TensorMap& tensors, const std::string& prefix) {
  TensorMap part;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) part[name.substr(prefix.size())] = tensor;
  return part;
}

// d2l names the parts otherwise than PyTorch's layer does; each is loaded by itself.
void LoadDecoderLayer(TransformerDecoderBlockImpl& block, const TensorMap& parameters) {
  load_weights(*block.attention1, PartOf(parameters, "self_attn."), Framework::kTorch);
  load_weights(*block.attention2, PartOf(parameters, "multihead_attn."), Framework::kTorch);
  load_weights(*block.ffn->dense1, PartOf(parameters, "linear1."), Framework::kTorch);
  load_weights(*block.ffn->dense2, PartOf(parameters, "linear2."), Framework::kTorch);
  load_weights(*block.addnorm1->ln, PartOf(parameters, "norm1."), Framework::kTorch);
  load_weights(*block.addnorm2->ln, PartOf(parameters, "norm2."), Framework::kTorch);
  load_weights(*block.addnorm3->ln, PartOf(parameters, "norm3."), Framework::kTorch);
}

TEST(GoldenDecoderLayer, Agrees) {
  if (GoldenNames().empty()) GTEST_SKIP() << WhyNoGoldenCases();
  const GoldenCase golden("torch_declayer_post_relu");
  TransformerDecoderBlock block(TransformerDecoderBlockOptions(golden.options.at("d_model"),
                                                               golden.options.at("dim_feedforward"), golden.options.at("nhead"))
                                    .bias(true));
  block->to(at::kDouble);
  LoadDecoderLayer(*block, golden.WithPrefix("param."));
  at::Tensor X = golden.At("input.X").clone().requires_grad_();
  at::Tensor memory = golden.At("input.memory").clone().requires_grad_();
  const auto lengths = [&](const char* mask) { return golden.At(mask).logical_not().sum(1); };
  const at::Tensor output = block(X, memory, lengths("mask.memory_key_padding_mask"), lengths("mask.key_padding_mask"));
  golden.ExpectClose(output, "output.Y", "output");
  (output * golden.At("grad_output.G")).sum().backward();
  golden.ExpectClose(X.grad(), "grad.input.X", "grad");
  golden.ExpectClose(memory.grad(), "grad.input.memory", "grad");
  const at::Tensor in_proj = at::cat(
      {block->attention2->W_q->weight.grad(), block->attention2->W_k->weight.grad(), block->attention2->W_v->weight.grad()});
  golden.ExpectClose(in_proj, "grad.param.multihead_attn.in_proj_weight", "grad");
}

TEST(GoldenOwnLayers, AreEight) {
  if (GoldenNames().empty()) GTEST_SKIP() << WhyNoGoldenCases();
  EXPECT_EQ(OwnLayerNames().size(), 8u);
}

}  // namespace
}  // namespace heed::nn
