// Linear attention and the gated delta rule as differentiable functions of tensors.
#include "heed/nn/linear_attention.h"

#include <cstdint>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradient_check.h"
#include "tests/nn/random_tensor.h"
#include "tests/nn/refusal.h"

namespace heed::nn {
namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kSteps = 5, kDim = 3, kColumns = 4;

at::Tensor Decays() { return -Random({kBatch, kHeads, kSteps}).abs(); }
std::vector<at::Tensor> Numbers() {
  return {Random({kBatch, kHeads, kSteps, kDim}),     Random({kBatch, kHeads, kSteps, kDim}),
          Random({kBatch, kHeads, kSteps, kColumns}), Decays(),
          Random({kBatch, kHeads, kDim, kColumns}),   Random({kBatch, kHeads, kSteps})};
}

LinearAttentionResult OfBoth(const std::vector<at::Tensor>& x, bool delta) {
  LinearAttentionOptions options;
  options.decay = x[3], options.initial_state = x[4];
  return delta ? gated_delta_rule(x[0], x[1], x[2], x[5], options) : linear_attention(x[0], x[1], x[2], options);
}

// The definition, step by step.
LinearAttentionResult Recurrence(const std::vector<at::Tensor>& x, bool delta) {
  at::Tensor state = x[4];
  std::vector<at::Tensor> outputs;
  for (int64_t t = 0; t < kSteps; ++t) {
    const auto column = [&](const at::Tensor& rows) { return rows.select(2, t).unsqueeze(-1); };
    state = state * column(x[3]).exp().unsqueeze(-1);
    at::Tensor added = column(x[2]);
    if (delta) added = column(x[5]).unsqueeze(-1) * (added - state.transpose(2, 3).matmul(column(x[1])));
    state = state + column(x[1]).matmul(added.transpose(2, 3));
    outputs.push_back(state.transpose(2, 3).matmul(column(x[0])).squeeze(-1));
  }
  return {at::stack(outputs, 2), state};
}

TEST(LinearAttentionTensorsTest, EqualsTheRecurrenceAndHasItsDerivatives) {
  at::manual_seed(1);
  for (const bool delta : {false, true}) {
    std::vector<at::Tensor> x = Numbers();
    const LinearAttentionResult ours = OfBoth(x, delta), expected = Recurrence(x, delta);
    EXPECT_TRUE(at::allclose(ours.output, expected.output, 0, 1e-12));
    EXPECT_TRUE(at::allclose(ours.final_state, expected.final_state, 0, 1e-12));
    if (!delta) x.pop_back();
    testing::ExpectGradientsMatch(
        [&](const std::vector<at::Tensor>& given) {
          const LinearAttentionResult result = OfBoth(given, delta);
          return at::cat({result.output.flatten(), result.final_state.flatten()});
        },
        x);
  }
}

TEST(LinearAttentionTensorsTest, NarrowTensorsAreRoundedOnce) {
  at::manual_seed(2);
  std::vector<at::Tensor> x = Numbers();
  for (at::Tensor& tensor : x) tensor = tensor.to(at::kBFloat16);
  const LinearAttentionResult narrow = OfBoth(x, true);
  for (at::Tensor& tensor : x) tensor = tensor.to(at::kFloat);
  const LinearAttentionResult wide = OfBoth(x, true);
  EXPECT_TRUE(at::equal(narrow.output, wide.output.to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(narrow.final_state, wide.final_state));
}

TEST(LinearAttentionTensorsTest, RefusesByName) {
  const std::vector<at::Tensor> x = Numbers();
  const auto spoilt = [&](std::size_t which, const at::Tensor& by) {
    std::vector<at::Tensor> given = x;
    given[which] = by;
    return [=] { OfBoth(given, true); };
  };
  ExpectRefused(spoilt(1, Random({kBatch, kHeads, kSteps, 1})), "key: expected the shape of query");
  ExpectRefused(spoilt(2, x[2].to(at::kFloat)), "value: expected Double, the type of query");
  ExpectRefused(spoilt(3, x[3].neg()), "decay: expected log decays of at most 0");
  ExpectRefused(spoilt(4, at::full_like(x[4], std::numeric_limits<double>::quiet_NaN())), "initial_state: expected finite");
  ExpectRefused(spoilt(5, at::Tensor()), "beta: the gated delta rule needs it");
  ExpectRefused(spoilt(0, at::Tensor()), "query: ");
}

}  // namespace
}  // namespace heed::nn
