// Attention by itself, in float64, against another implementation's outputs, log-sum-exp, weights and gradients.
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "golden_cases.h"
#include "heed/nn/attention.h"
#include "heed/positions.h"

namespace heed::nn {
namespace {

Causal CausalOf(const GoldenCase& golden) {
  const auto& causal = golden.options.at("causal");
  if (causal.is_null()) return Causal::kNone;
  return causal == "bottom_right" ? Causal::kBottomRight : Causal::kTopLeft;
}

at::Tensor LengthsOf(const GoldenCase& golden, const char* name) {
  if (!golden.options.contains(name)) return {};
  return at::tensor(golden.options.at(name).get<std::vector<int64_t>>());
}

class GoldenAttentionTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenAttentionTest, Agrees) {
  const GoldenCase golden(GetParam());
  AttentionOptions options;
  options.scale(golden.options.at("scale")).causal(CausalOf(golden)).return_weights(true);
  options.key_lengths(LengthsOf(golden, "key_lens")).query_lengths(LengthsOf(golden, "query_lens"));
  if (golden.options.contains("prefix_lens")) options.prefix_lengths(LengthsOf(golden, "prefix_lens"));
  if (!golden.options.at("window").is_null())
    options.window(golden.options.at("window").at("left"), golden.options.at("window").at("right"));
  if (!golden.options.at("softcap").is_null()) options.softcap(golden.options.at("softcap"));
  if (golden.options.contains("extra_mask")) options.mask(golden.At("mask.keep"));
  at::Tensor bias;
  if (golden.Has("input.bias")) {
    bias = golden.At("input.bias").clone().requires_grad_();
    options.bias(bias);
  }
  const at::Tensor Q = golden.At("input.Q").clone().requires_grad_();
  const at::Tensor K = golden.At("input.K").clone().requires_grad_();
  const at::Tensor V = golden.At("input.V").clone().requires_grad_();

  const AttentionOutput result = attention(Q, K, V, options);
  golden.ExpectClose(result.output, "output.O", "output");
  golden.ExpectClose(result.lse, "output.LSE", "output");
  golden.ExpectClose(result.weights, "output.P", "weights");

  (result.output * golden.At("grad_output.G")).sum().backward();
  golden.ExpectClose(Q.grad(), "grad.input.Q", "grad");
  golden.ExpectClose(K.grad(), "grad.input.K", "grad");
  golden.ExpectClose(V.grad(), "grad.input.V", "grad");
  if (bias.defined()) golden.ExpectClose(bias.grad(), "grad.input.bias", "grad");
}

// ALiBi's bias is a slope a head: the same numbers without the dense array.
TEST(GoldenAlibi, AgreesBySlopes) {
  if (GoldenNames().empty()) GTEST_SKIP() << WhyNoGoldenCases();
  const GoldenCase golden("attn_alibi_causal");
  const at::Tensor slopes = at::tensor(AlibiSlopes(golden.At("input.Q").size(1)), at::kDouble);
  const AttentionOutput result =
      attention(golden.At("input.Q"), golden.At("input.K"), golden.At("input.V"),
                AttentionOptions().scale(golden.options.at("scale")).causal(CausalOf(golden)).slopes(slopes));
  golden.ExpectClose(result.output, "output.O", "output");
  golden.ExpectClose(result.lse, "output.LSE", "output");
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenAttentionTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenAttentionTest, testing::ValuesIn(GoldenNames("attn_")),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

// So that no case is left out in silence: every case of the index is compared or named here.
TEST(GoldenCases, AreAllComparedOrNamed) {
  if (GoldenNames().empty()) GTEST_SKIP() << WhyNoGoldenCases();
  EXPECT_EQ(GoldenNames("attn_").size(), 17u);
  EXPECT_EQ(GoldenNames("d2l_", "_mha_").size(), 36u);  // seven in each of five frameworks, one of d2l 0.17.6
  EXPECT_EQ(GoldenNames("d2l_", "_pe_").size(), 15u);
  EXPECT_EQ(GoldenNames("d2l_", "_encblock").size(), 5u);
  EXPECT_EQ(GoldenNames("d2l_", "_encoder").size(), 5u);
  EXPECT_EQ(GoldenNames("d2l_").size(), 36u + 15u + 5u + 5u);
}

}  // namespace
}  // namespace heed::nn
