// d2l's layers as five frameworks compute them: weights come in under the framework's own names and layouts; outputs, attention
// weights and gradients must agree within each case's tolerance.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "golden_cases.h"
#include "golden_modules.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/transformer.h"
#include "heed/nn/weights.h"

namespace heed::nn {
namespace {

class GoldenTest : public testing::TestWithParam<std::string> {};

// The case's input, to be differentiated if the case has its gradient.
at::Tensor Input(const GoldenCase& golden, const std::string& name) {
  at::Tensor input = golden.At("input." + name).clone();
  if (golden.Has("grad.input." + name)) input.requires_grad_();
  return input;
}

at::Tensor ValidLens(const GoldenCase& golden) {
  return golden.Has("mask.valid_lens") ? golden.At("mask.valid_lens") : at::Tensor();
}

class GoldenAttentionLayerTest : public GoldenTest {};

TEST_P(GoldenAttentionLayerTest, Agrees) {
  const GoldenCase golden(GetParam());
  MultiHeadAttention attention = AttentionOf(golden);
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

class GoldenBlockTest : public GoldenTest {};

TEST_P(GoldenBlockTest, Agrees) {
  const GoldenCase golden(GetParam());
  TransformerEncoderBlock block(BlockOptionsOf(golden));
  load_weights(*block, golden.WithPrefix("param."), golden.framework());
  const at::Tensor X = Input(golden, "X");
  const at::Tensor output = block(X, ValidLens(golden));
  golden.ExpectClose(output, "output.Y", "output");
  golden.ExpectClose(block->attention->attention_weights(), "output.attention_weights.0", "weights");
  ExpectGradients(golden, *block, output, {{"X", X}});
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenBlockTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenBlockTest, testing::ValuesIn(GoldenNames("d2l_", "_encblock")), CaseName);

class GoldenEncoderTest : public GoldenTest {};

TEST_P(GoldenEncoderTest, Agrees) {
  const GoldenCase golden(GetParam());
  const std::shared_ptr<torch::nn::Module> module = ModuleOf(golden);
  auto& encoder = *module->as<TransformerEncoder>();
  load_weights(encoder, golden.WithPrefix("param."), golden.framework());
  const at::Tensor output = encoder.forward(golden.At("input.tokens"), ValidLens(golden));
  golden.ExpectClose(output, "output.Y", "output");
  const std::vector<at::Tensor> weights = encoder.attention_weights();
  EXPECT_EQ(weights.size(), golden.WithPrefix("output.attention_weights.").size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    golden.ExpectClose(weights[i], "output.attention_weights." + std::to_string(i), "weights");
  }
  ExpectGradients(golden, encoder, output, {});
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
