// d2l's layers as five frameworks compute them: weights come in under the framework's own names and layouts; outputs, attention
// weights and gradients must agree within each case's tolerance.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "golden_cases.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/transformer.h"
#include "heed/nn/weights.h"

namespace heed::nn {
namespace {

class GoldenTest : public testing::TestWithParam<std::string> {};
// d2l 1.0.3 and 0.17.6 set masked scores to -1e6: a query without keys sees all of them alike.
EmptyRow EmptyRowOf(const GoldenCase& golden) {
  return golden.options.at("mask_policy").get<std::string>().starts_with("d2l_1_0") ? EmptyRow::kUniform : EmptyRow::kZero;
}

// The case's input, to be differentiated if the case has its gradient.
at::Tensor Input(const GoldenCase& golden, const std::string& name) {
  at::Tensor input = golden.At("input." + name).clone();
  if (golden.Has("grad.input." + name)) input.requires_grad_();
  return input;
}

at::Tensor ValidLens(const GoldenCase& golden) {
  return golden.Has("mask.valid_lens") ? golden.At("mask.valid_lens") : at::Tensor();
}

// Gradients of sum(output * G), those of the parameters under the framework's names and in its layouts.
void ExpectGradients(const GoldenCase& golden, torch::nn::Module& module, const at::Tensor& output,
                     const std::vector<std::pair<std::string, at::Tensor>>& inputs) {
  if (!golden.Has("grad_output.G")) return;
  (output * golden.At("grad_output.G")).sum().backward();
  for (const auto& [name, input] : inputs) {
    if (golden.Has("grad.input." + name)) golden.ExpectClose(input.grad(), "grad.input." + name, "grad");
  }
  {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : module.parameters()) parameter.copy_(parameter.grad());
  }
  const TensorMap gradients = export_weights(module, golden.framework());
  EXPECT_EQ(gradients.size(), golden.WithPrefix("grad.param.").size());
  for (const auto& [name, gradient] : gradients) golden.ExpectClose(gradient, "grad.param." + name, "grad");
}

MultiHeadAttention MakeAttention(const GoldenCase& golden) {
  const auto& options = golden.options;
  const int64_t num_hiddens = options.at("num_hiddens"), num_heads = options.at("num_heads");
  const bool self = golden.Has("input.X"), bias = options.at("bias");
  const int64_t query_size = golden.At(self ? "input.X" : "input.queries").size(2);
  const int64_t key_size = golden.At(self ? "input.X" : "input.keys").size(2);
  const int64_t value_size = golden.At(self ? "input.X" : "input.values").size(2);
  if (golden.manifest.at("framework").at("d2l") == "0.17.6" && golden.framework() == Framework::kTorch) {
    MultiHeadAttention attention(key_size, query_size, value_size, num_hiddens, num_heads, /*dropout=*/0.0, bias);
    attention->options.empty_row(EmptyRowOf(golden)).keep_attention_weights(true);
    return attention;
  }
  return MultiHeadAttention(MultiHeadAttentionOptions(num_hiddens, num_heads)
                                .bias(bias)
                                .query_size(query_size)
                                .key_size(key_size)
                                .value_size(value_size)
                                .empty_row(EmptyRowOf(golden))
                                .keep_attention_weights(true));
}

class GoldenAttentionLayerTest : public GoldenTest {};

TEST_P(GoldenAttentionLayerTest, Agrees) {
  const GoldenCase golden(GetParam());
  MultiHeadAttention attention = MakeAttention(golden);
  load_weights(*attention, golden.WithPrefix("param."), golden.framework());
  std::vector<std::pair<std::string, at::Tensor>> inputs;
  if (golden.Has("input.X")) {
    inputs = {{"X", Input(golden, "X")}};
  } else {
    for (const char* name : {"queries", "keys", "values"}) inputs.emplace_back(name, Input(golden, name));
  }
  const at::Tensor output =
      attention(inputs.front().second, inputs[inputs.size() / 2].second, inputs.back().second, ValidLens(golden));
  golden.ExpectClose(output, "output.Y", "output");
  golden.ExpectClose(attention->attention_weights(), "output.attention_weights", "weights");
  ExpectGradients(golden, *attention, output, inputs);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenAttentionLayerTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenAttentionLayerTest, testing::ValuesIn(GoldenNames("d2l_", "_mha_")), CaseName);

class GoldenEncodingTest : public GoldenTest {};

TEST_P(GoldenEncodingTest, Agrees) {
  const GoldenCase golden(GetParam());
  PositionalEncoding encoding(golden.options.at("num_hiddens").get<int64_t>(), /*dropout=*/0.0,
                              golden.options.at("max_len").get<int64_t>());
  const at::Tensor rows = golden.Has("index.rows") ? golden.At("index.rows") : at::arange(golden.At("output.P").size(0));
  golden.ExpectClose(encoding->P()[0].index_select(0, rows), "output.P", "output");
  const at::Tensor X = golden.At("input.X");
  if (!golden.Has("index.rows")) golden.ExpectClose(encoding(X), "output.XplusP", "output");
  std::vector<at::Tensor> steps;
  for (int64_t i = 0; i < rows.numel(); ++i) steps.push_back(encoding(X.narrow(1, i, 1), rows[i].item<int64_t>()));
  golden.ExpectClose(at::cat(steps, 1), "output.XplusP", "output");
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenEncodingTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenEncodingTest, testing::ValuesIn(GoldenNames("d2l_", "_pe_")), CaseName);

TransformerEncoderBlockOptions BlockOptions(const GoldenCase& golden) {
  const auto& options = golden.options;
  EXPECT_EQ(options.at("norm"), "post");
  EXPECT_EQ(options.at("activation"), "relu");
  return TransformerEncoderBlockOptions(options.at("num_hiddens"), options.at("ffn_num_hiddens"), options.at("num_heads"))
      .bias(options.at("attention_bias"))
      .layer_norm_eps(options.at("layer_norm_eps"))
      .empty_row(EmptyRowOf(golden))
      .keep_attention_weights(true);
}

class GoldenBlockTest : public GoldenTest {};

TEST_P(GoldenBlockTest, Agrees) {
  const GoldenCase golden(GetParam());
  TransformerEncoderBlock block(BlockOptions(golden));
  load_weights(*block, golden.WithPrefix("param."), golden.framework());
  const at::Tensor X = Input(golden, "X");
  const at::Tensor output = block(X, ValidLens(golden));
  golden.ExpectClose(output, "output.Y", "output");
  golden.ExpectClose(block->attention->attention_weights(), "output.attention_weights.0", "weights");
  ExpectGradients(golden, *block, output, {{"X", X}});
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenBlockTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenBlockTest, testing::ValuesIn(GoldenNames("d2l_", "_encblock")), CaseName);

TransformerEncoder MakeEncoder(const GoldenCase& golden) {
  return TransformerEncoder(golden.options.at("vocab_size").get<int64_t>(), golden.options.at("num_blks").get<int64_t>(),
                            BlockOptions(golden));
}

class GoldenEncoderTest : public GoldenTest {};

TEST_P(GoldenEncoderTest, Agrees) {
  const GoldenCase golden(GetParam());
  TransformerEncoder encoder = MakeEncoder(golden);
  load_weights(*encoder, golden.WithPrefix("param."), golden.framework());
  const at::Tensor output = encoder(golden.At("input.tokens"), ValidLens(golden));
  golden.ExpectClose(output, "output.Y", "output");
  const std::vector<at::Tensor> weights = encoder->attention_weights();
  EXPECT_EQ(weights.size(), golden.WithPrefix("output.attention_weights.").size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    golden.ExpectClose(weights[i], "output.attention_weights." + std::to_string(i), "weights");
  }
  ExpectGradients(golden, *encoder, output, {});
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenEncoderTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenEncoderTest, testing::ValuesIn(GoldenNames("d2l_", "_encoder")), CaseName);

std::vector<std::string> NamesWithParameters() {
  std::vector<std::string> names;
  for (const char* part : {"_mha_", "_encblock", "_encoder"}) {
    for (const std::string& name : GoldenNames("d2l_", part)) names.push_back(name);
  }
  return names;
}

std::shared_ptr<torch::nn::Module> ModuleOf(const GoldenCase& golden) {
  const std::string kind = golden.manifest.at("kind");
  if (kind == "d2l.MultiHeadAttention") return MakeAttention(golden).ptr();
  if (kind == "d2l.TransformerEncoderBlock") return TransformerEncoderBlock(BlockOptions(golden)).ptr();
  return MakeEncoder(golden).ptr();
}

class GoldenSpellingTest : public GoldenTest {};

TEST_P(GoldenSpellingTest, EveryNameOfAParameterLeadsToIt) {
  const GoldenCase golden(GetParam());
  const TensorMap native = golden.WithPrefix("param.");
  for (const char* spelling : {"native_name", "variable_path", "h5_path", "gluon_full_name"}) {
    TensorMap tensors;
    for (const auto& [name, tensor] : native) {
      const auto& entry = golden.manifest.at("tensors").at("param." + name);
      if (entry.contains(spelling)) tensors[entry.at(spelling)] = tensor;
    }
    if (tensors.empty()) continue;
    ASSERT_EQ(tensors.size(), native.size()) << spelling;
    const std::shared_ptr<torch::nn::Module> module = ModuleOf(golden);
    load_weights(*module, tensors, golden.framework());
    const TensorMap exported = export_weights(*module, golden.framework());
    ASSERT_EQ(exported.size(), native.size());
    for (const auto& [name, tensor] : native) EXPECT_TRUE(at::equal(exported.at(name), tensor)) << spelling << " " << name;
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenSpellingTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenSpellingTest, testing::ValuesIn(NamesWithParameters()), CaseName);

}  // namespace
}  // namespace heed::nn
