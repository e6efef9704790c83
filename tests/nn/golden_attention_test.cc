// Attention by itself, in float64, against another implementation's outputs, log-sum-exp, weights and gradients.
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "golden_cases.h"
#include "heed/nn/attention.h"

namespace heed::nn {
namespace {

// What these cases need is not among the options: dense masks and biases, windows, prefixes, soft-caps.
const std::set<std::string>& NotExpressible() {
  static const std::set<std::string> names{"attn_bias_batch_broadcast", "attn_dv_ne_dk_bias",
                                           "attn_empty_rows_mask",      "attn_prefix_lm",
                                           "attn_sliding_window",       "attn_softcap30_bias"};
  return names;
}

std::vector<std::string> Expressible() {
  std::vector<std::string> names;
  for (const std::string& name : GoldenNames("attn_")) {
    if (NotExpressible().count(name) == 0) names.push_back(name);
  }
  return names;
}

// [1, H, Nq, Nk] along its diagonals -> [H, 2M+1], M the longest distance; `combine` adds up what a diagonal holds (a
// gradient) or takes any of its equal entries (a bias).
enum class Diagonal { kSum, kFirst };
at::Tensor Diagonals(const at::Tensor& bias, Diagonal combine) {
  const int64_t q_len = bias.size(2), kv_len = bias.size(3), reach = std::max(q_len, kv_len) - 1;
  at::Tensor table = at::zeros({bias.size(1), 2 * reach + 1}, bias.options());
  for (int64_t delta = 1 - q_len; delta < kv_len; ++delta) {
    const at::Tensor diagonal = bias[0].diagonal(delta, 1, 2);
    table.select(1, delta + reach).copy_(combine == Diagonal::kSum ? diagonal.sum(1) : diagonal.select(1, 0));
  }
  return table;
}

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
  at::Tensor table;
  if (golden.Has("input.bias")) {
    table = Diagonals(golden.At("input.bias"), Diagonal::kFirst).requires_grad_();
    options.relative_bias(table);
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
  if (table.defined()) {
    golden.ExpectClose(table.grad(), Diagonals(golden.At("grad.input.bias"), Diagonal::kSum), "grad.input.bias", "grad");
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenAttentionTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenAttentionTest, testing::ValuesIn(Expressible()),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

// So that no case is left out in silence: every case of the index is compared or named here.
TEST(GoldenCases, AreAllComparedOrNamed) {
  if (GoldenNames().empty()) GTEST_SKIP() << WhyNoGoldenCases();
  EXPECT_EQ(Expressible().size(), 11u);
  EXPECT_EQ(GoldenNames("attn_").size(), Expressible().size() + NotExpressible().size());
  EXPECT_EQ(GoldenNames("d2l_", "_mha_").size(), 36u);  // seven in each of five frameworks, one of d2l 0.17.6
  EXPECT_EQ(GoldenNames("d2l_", "_pe_").size(), 15u);
  EXPECT_EQ(GoldenNames("d2l_", "_encblock").size(), 5u);
  EXPECT_EQ(GoldenNames("d2l_", "_encoder").size(), 5u);
  EXPECT_EQ(GoldenNames("d2l_").size(), 36u + 15u + 5u + 5u);
}

}  // namespace
}  // namespace heed::nn
