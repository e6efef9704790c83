// The attention and Transformer layers that come with PyTorch, Flax, Keras and Paddle, and Hugging Face's attention, loaded
// into heed's: outputs, attention weights and gradients must agree within each case's tolerance.
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "golden_cases.h"
#include "golden_modules.h"
#include "heed/nn/encoders.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/transformer_decoder.h"
#include "heed/nn/weights.h"

namespace heed::nn {
namespace {

std::vector<std::string> Present(const std::set<std::string>& known) {
  std::vector<std::string> names;
  for (const std::string& name : GoldenNames()) {
    if (known.count(name) != 0) names.push_back(name);
  }
  return names;
}

// Self-attention without masks other than causality and padding of keys; what other cases of these layers add (dense masks,
// biases of the keys, normalised queries) is not heed's layer.
std::vector<std::string> AttentionNames() {
  return Present({"flax_mha_self", "flax_mha_nobias_causal_f32", "flax_nnx_mha_self", "keras_mha_self",
                  "keras_mha_causal_nobias_f32", "keras_gqa_basic", "paddle_mha_self_pad", "torch_mha_packed_self",
                  "torch_mha_seqfirst_causal_f32", "hf_t5_attention_enc", "hf_t5_attention_dec_causal",
                  "hf_bert_relative_key_a", "hf_bert_relative_key_query_a"});
}

std::vector<std::string> BlockNames() {
  return Present({"torch_enclayer_post_relu", "torch_enclayer_post_gelu_nobias", "torch_enclayer_pre_gelu",
                  "torch_enclayer_pre_relu_f32", "paddle_enclayer_post_relu"});
}

// [B, Nq]: how many keys each query sees, from a mask that is a prefix in every row; undefined without a mask. True means
// "may look", except for PyTorch, where it means the opposite.
at::Tensor KeyLengths(const GoldenCase& golden, const std::string& name, int64_t batch, int64_t steps) {
  if (!golden.Has(name)) return {};
  at::Tensor keep = golden.At(name);
  if (golden.framework() == Framework::kTorch) keep = keep.logical_not();
  if (name.ends_with("key_padding_mask")) keep = keep.unsqueeze(1);  // [B, Nk]
  if (keep.dim() == 4) keep = keep.squeeze(1);
  keep = keep.expand({batch, steps, keep.size(-1)});
  at::Tensor lengths = keep.sum(2);
  EXPECT_TRUE(at::equal(keep, at::arange(keep.size(2)) < lengths.unsqueeze(2))) << "the mask is not a prefix";
  return lengths;
}

at::Tensor KeyLengths(const GoldenCase& golden, int64_t batch, int64_t steps) {
  at::Tensor lengths;
  for (const auto& [name, mask] : golden.WithPrefix("mask.")) {
    const at::Tensor others = KeyLengths(golden, "mask." + name, batch, steps);
    lengths = lengths.defined() ? at::minimum(lengths, others) : others;
  }
  return lengths;
}

// Sequences lie [steps, batch, width] in some cases.
struct Sequences {
  explicit Sequences(const GoldenCase& golden) : steps_first(!golden.options.value("batch_first", true)) {
    X = golden.At("input.X").clone().requires_grad_();
    batched = steps_first ? X.transpose(0, 1) : X;
  }
  at::Tensor AsGiven(const at::Tensor& output) const { return steps_first ? output.transpose(0, 1) : output; }
  bool steps_first;
  at::Tensor X, batched;
};

class GoldenOwnAttentionTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOwnAttentionTest, Agrees) {
  const GoldenCase golden(GetParam());
  const Sequences sequences(golden);
  const at::Tensor& X = sequences.batched;
  MultiHeadAttention attention(std::dynamic_pointer_cast<MultiHeadAttentionImpl>(ModuleOf(golden)));
  load_weights(*attention, CheckpointOf(golden), golden.framework());
  const at::Tensor output = sequences.AsGiven(attention->forward(X, X, X, KeyLengths(golden, X.size(0), X.size(1))));
  golden.ExpectClose(output, "output.Y", "output");
  if (golden.Has("output.attention_weights")) {
    const at::Tensor& weights = golden.At("output.attention_weights");
    golden.ExpectClose(attention->attention_weights().view(weights.sizes()), "output.attention_weights", "weights");
  }
  if (golden.options.value("position_embedding_type", "") == "relative_key_query") return;  // one table there, two here
  ExpectGradients(golden, *attention, output, {{"X", sequences.X}});
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenOwnAttentionTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenOwnAttentionTest, testing::ValuesIn(AttentionNames()), CaseName);

class GoldenOwnBlockTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOwnBlockTest, Agrees) {
  const GoldenCase golden(GetParam());
  const Sequences sequences(golden);
  const at::Tensor& X = sequences.batched;
  TransformerEncoderBlock block(std::dynamic_pointer_cast<TransformerEncoderBlockImpl>(ModuleOf(golden)));
  load_weights(*block, CheckpointOf(golden), golden.framework());
  const at::Tensor output = sequences.AsGiven(block->forward(X, KeyLengths(golden, X.size(0), X.size(1))));
  golden.ExpectClose(output, "output.Y", "output");
  ExpectGradients(golden, *block, output, {{"X", sequences.X}});
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenOwnBlockTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenOwnBlockTest, testing::ValuesIn(BlockNames()), CaseName);

TEST(GoldenOwnStack, Agrees) {
  if (GoldenNames().empty()) GTEST_SKIP() << WhyNoGoldenCases();
  const GoldenCase golden("torch_encoder_stack2_pre");
  AttentionEncoder stack(std::dynamic_pointer_cast<AttentionEncoderImpl>(ModuleOf(golden)));
  load_weights(*stack, CheckpointOf(golden), golden.framework());
  const at::Tensor X = golden.At("input.X").clone().requires_grad_();
  const at::Tensor lengths = golden.At("mask.key_padding_mask").logical_not().sum(1);
  const at::Tensor output = stack->forward(X, lengths);
  // Of padded steps heed's encoder makes zeros before the first layer, PyTorch's goes on with what they hold.
  const at::Tensor there = (at::arange(X.size(1)) < lengths.unsqueeze(1)).unsqueeze(2);
  golden.ExpectClose(output * there, golden.At("output.Y") * there, "output.Y", "output");
}

TEST(GoldenDecoderLayer, Agrees) {
  if (GoldenNames().empty()) GTEST_SKIP() << WhyNoGoldenCases();
  const GoldenCase golden("torch_declayer_post_relu");
  TransformerDecoderBlock block(std::dynamic_pointer_cast<TransformerDecoderBlockImpl>(ModuleOf(golden)));
  load_weights(*block, CheckpointOf(golden), golden.framework());
  at::Tensor X = golden.At("input.X").clone().requires_grad_();
  at::Tensor memory = golden.At("input.memory").clone().requires_grad_();
  const auto lengths = [&](const char* mask) { return golden.At(mask).logical_not().sum(1); };
  const at::Tensor output =
      block->forward(X, memory, lengths("mask.memory_key_padding_mask"), lengths("mask.key_padding_mask"));
  golden.ExpectClose(output, "output.Y", "output");
  ExpectGradients(golden, *block, output, {{"X", X}, {"memory", memory}});
}

TEST(GoldenOwnLayers, AreAllCompared) {
  if (GoldenNames().empty()) GTEST_SKIP() << WhyNoGoldenCases();
  EXPECT_EQ(AttentionNames().size(), 13u);
  EXPECT_EQ(BlockNames().size(), 5u);
}

}  // namespace
}  // namespace heed::nn
