// The functional form: derivatives with every option, masks, determinism, errors.
#include "heed/nn/attention.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "executor.h"
#include "gradient_check.h"
#include "heed/error.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

using testing::ExpectGradientsMatch;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

at::Tensor Ints(const std::vector<int64_t>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kLong).reshape(shape);
}

// softmax(scale * q k^T + bias) v, out of plain tensor operations.
at::Tensor Plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& allowed = {}) {
  const int64_t group = q.size(1) / k.size(1);
  at::Tensor scores = at::matmul(q, k.repeat_interleave(group, 1).transpose(-2, -1)) / std::sqrt(double(q.size(3)));
  if (allowed.defined()) scores = scores.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1), v.repeat_interleave(group, 1));
}

struct Inputs {
  at::Tensor q, k, v;
  explicit Inputs(int64_t batch = 2, int64_t q_heads = 2, int64_t kv_heads = 2, int64_t q_len = 5, int64_t kv_len = 5,
                  int64_t width = 4, int64_t value_width = 4) {
    at::manual_seed(7);
    q = Random({batch, q_heads, q_len, width});
    k = Random({batch, kv_heads, kv_len, width});
    v = Random({batch, kv_heads, kv_len, value_width});
  }
};

void CheckGradients(const Inputs& inputs, const AttentionOptions& options) {
  ExpectGradientsMatch([&](const std::vector<at::Tensor>& x) { return attention(x[0], x[1], x[2], options).output; },
                       {inputs.q, inputs.k, inputs.v});
}

TEST(AttentionTest, EqualsTheFormula) {
  const Inputs in(2, 4, 2, 5, 7, 3, 6);
  EXPECT_TRUE(at::allclose(attention(in.q, in.k, in.v).output, Plain(in.q, in.k, in.v), 0, 1e-12));
  const auto causal = attention(in.q, in.k, in.v, AttentionOptions().causal(true));
  EXPECT_TRUE(at::allclose(causal.output, Plain(in.q, in.k, in.v, at::ones({5, 7}, at::kBool).tril(2)), 0, 1e-12));
  const auto top_left = attention(in.q, in.k, in.v, AttentionOptions().causal(Causal::kTopLeft));
  EXPECT_TRUE(at::allclose(top_left.output, Plain(in.q, in.k, in.v, at::ones({5, 7}, at::kBool).tril(0)), 0, 1e-12));
}

TEST(AttentionTest, GradientsPlain) { CheckGradients(Inputs(), {}); }
TEST(AttentionTest, GradientsScale) { CheckGradients(Inputs(), AttentionOptions().scale(0.3)); }
TEST(AttentionTest, GradientsValueWidth) { CheckGradients(Inputs(1, 2, 2, 4, 6, 3, 5), {}); }
TEST(AttentionTest, GradientsGroupedHeads) { CheckGradients(Inputs(2, 4, 2, 3, 5), {}); }
TEST(AttentionTest, GradientsCausal) {
  CheckGradients(Inputs(), AttentionOptions().causal(true));
  CheckGradients(Inputs(1, 2, 1, 3, 6), AttentionOptions().causal(true));
  CheckGradients(Inputs(1, 2, 1, 6, 3), AttentionOptions().causal(true));
  CheckGradients(Inputs(1, 2, 1, 3, 6), AttentionOptions().causal(Causal::kTopLeft));
  CheckGradients(Inputs(1, 2, 1, 3, 6), AttentionOptions().causal(true).query_offset(1));
}
TEST(AttentionTest, GradientsKeyLengths) {
  CheckGradients(Inputs(), AttentionOptions().key_lengths(Ints({3, 0}, {2})));
  CheckGradients(Inputs(), AttentionOptions().key_lengths(Ints({3, 0}, {2})).empty_row(EmptyRow::kUniform));
  CheckGradients(Inputs(2, 2, 2, 3, 5), AttentionOptions().key_lengths(Ints({1, 5, 2, 0, 3, 4}, {2, 3})));
}
TEST(AttentionTest, GradientsQueryLengths) {
  CheckGradients(Inputs(), AttentionOptions().query_lengths(Ints({2, 5}, {2})).key_lengths(Ints({4, 5}, {2})));
}
TEST(AttentionTest, GradientsDropout) {
  CheckGradients(Inputs(), AttentionOptions().dropout(0.4).seed(11));
  CheckGradients(Inputs(), AttentionOptions().dropout(0.4).seed(-1).causal(true).batch_offset(3));
}
TEST(AttentionTest, GradientsRelativeBias) {
  for (const int64_t rows : {1, 2}) {
    const Inputs in(2, 2, 1, 4, 6);
    ExpectGradientsMatch(
        [](const std::vector<at::Tensor>& x) {
          return attention(x[0], x[1], x[2], AttentionOptions().causal(true).relative_bias(x[3])).output;
        },
        {in.q, in.k, in.v, Random({rows, 5})});
  }
}
// scale (q.(k + a) + k.e) and v + c, rows by the offset of the key from the query clipped to 2.
TEST(AttentionTest, ContentByOffset) {
  const Inputs in(2, 4, 2, 5, 7, 3, 6);
  const at::Tensor keys = Random({5, 3}), values = Random({5, 6}), queries = Random({5, 3});
  const at::Tensor rows = (at::arange(7) - at::arange(5).unsqueeze(1)).clamp(-2, 2) + 2;
  const auto of_pairs = [&](const at::Tensor& table) { return table.index({rows}); };  // [Nq, Nk, width]
  const at::Tensor k = in.k.repeat_interleave(2, 1), v = in.v.repeat_interleave(2, 1);
  const at::Tensor scores = (at::matmul(in.q, k.transpose(-2, -1)) + at::einsum("bhid,ijd->bhij", {in.q, of_pairs(keys)}) +
                             at::einsum("bhjd,ijd->bhij", {k, of_pairs(queries)})) /
                            std::sqrt(3.0);
  const at::Tensor weights = at::softmax(scores, -1);
  const at::Tensor expected = at::matmul(weights, v) + at::einsum("bhij,ijd->bhid", {weights, of_pairs(values)});
  const auto result = attention(in.q, in.k, in.v, AttentionOptions().content(keys, values, queries).return_weights(true));
  EXPECT_TRUE(at::allclose(result.output, expected, 0, 1e-12));
  EXPECT_TRUE(at::allclose(result.weights, weights, 0, 1e-12));
  ExpectGradientsMatch(
      [](const std::vector<at::Tensor>& x) {
        return attention(x[0], x[1], x[2], AttentionOptions().content(x[3], x[4], x[5]).softcap(3.0)).output;
      },
      {in.q, in.k, in.v, keys, values, queries});
}
TEST(AttentionTest, GradientsOfTheLogSumExp) {
  const Inputs in(2, 4, 2, 3, 5, 4, 6);
  ExpectGradientsMatch(
      [](const std::vector<at::Tensor>& x) {
        const auto options = AttentionOptions().causal(true).dropout(0.3).seed(1).relative_bias(x[3]);
        const AttentionOutput result = attention(x[0], x[1], x[2], options);
        return at::cat({result.output, result.lse.unsqueeze(-1)}, -1);
      },
      {in.q, in.k, in.v, Random({4, 5})});
  ExpectGradientsMatch([&](const std::vector<at::Tensor>& x) { return attention(x[0], x[1], in.v).lse; }, {in.q, in.k});
}
TEST(AttentionTest, GradientOfTheBiasAlone) {
  const Inputs in;
  ExpectGradientsMatch(
      [&](const std::vector<at::Tensor>& x) {
        return attention(in.q, in.k, in.v, AttentionOptions().relative_bias(x[0])).output;
      },
      {Random({2, 3})});
}
TEST(AttentionTest, GradientsOfViews) {
  at::manual_seed(3);
  ExpectGradientsMatch(
      [](const std::vector<at::Tensor>& x) {
        const at::Tensor q = x[0].transpose(1, 2);                            // heads inside the steps
        const at::Tensor k = x[1].expand({2, 2, 4, 3});                       // stride 0
        const at::Tensor v = x[2].flip(2).slice(3, 0, 6, 2).transpose(0, 1);  // stride 2, batch and heads swapped
        return attention(q, k, v).output;
      },
      {Random({2, 5, 2, 3}), Random({1, 2, 4, 3}), Random({2, 2, 4, 6})});
}
TEST(AttentionTest, ReadsLazilyNegatedTensors) {
  const Inputs in;
  const at::Tensor negated = at::imag(at::complex(at::zeros_like(in.v), in.v).conj());
  ASSERT_TRUE(negated.is_neg());
  EXPECT_TRUE(at::equal(attention(in.q, in.k, negated).output, attention(in.q, in.k, -in.v).output));
}

TEST(AttentionTest, LengthsOfAnyStride) {
  const Inputs in;
  const at::Tensor every_other = Ints({3, 9, 1, 9}, {4}).slice(0, 0, 4, 2);
  EXPECT_TRUE(at::equal(attention(in.q, in.k, in.v, AttentionOptions().key_lengths(every_other)).output,
                        attention(in.q, in.k, in.v, AttentionOptions().key_lengths(Ints({3, 1}, {2}))).output));
  const at::Tensor columns = Ints({1, 2, 3, 4, 5, 5, 4, 3, 2, 1}, {5, 2}).t();
  EXPECT_TRUE(at::equal(attention(in.q, in.k, in.v, AttentionOptions().key_lengths(columns)).output,
                        attention(in.q, in.k, in.v, AttentionOptions().key_lengths(columns.contiguous())).output));
}

// Gradients of what is marked, with a graph of their own.
std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& inputs, const std::vector<bool>& marked) {
  std::vector<at::Tensor> x, leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    x.push_back(inputs[i].clone().set_requires_grad(marked[i]));
    if (marked[i]) leaves.push_back(x[i]);
  }
  const AttentionOutput result = attention(
      x[0], x[1], x[2], AttentionOptions().causal(true).bias(x[3]).relative_bias(x[4]).slopes(x[5]).content(x[6], x[7], x[8]));
  return torch::autograd::grad({result.output, result.lse}, leaves, {at::cos(result.output), at::sin(result.lse)},
                               /*retain_graph=*/false, /*create_graph=*/true);
}

// How many results of the backward pass have a graph with this one.
std::size_t Computed(const at::Tensor& gradient) {
  std::size_t computed = 0;
  for (uint32_t r = 0; r < gradient.grad_fn()->num_inputs(); ++r)
    computed += gradient.grad_fn()->input_metadata(r).was_default_constructed() ? 0 : 1;
  return computed;
}

// Whether the gradient of an input is one that it has beside other choices. Those of content vectors, the last inputs, are sums
// over all heads, in an order that the dense bias decides where its gradient is wanted; the others have the same bits.
bool IsSame(const at::Tensor& gradient, const at::Tensor& other, std::size_t input) {
  if (input < 6) return at::equal(gradient, other);
  const double rounding = gradient.scalar_type() == at::kDouble ? 1e-12 : 1e-4;
  return at::allclose(gradient, other, rounding, rounding);
}

TEST(AttentionTest, WhatIsFrozenIsNotComputedAndChangesNoBit) {
  at::manual_seed(7);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::ScalarType tables = type == at::kDouble ? at::kDouble : at::kFloat;
    const std::vector<at::Tensor> inputs{
        at::randn({2, 4, 40, 8}, type), at::randn({2, 2, 70, 8}, type), at::randn({2, 2, 70, 6}, type),
        at::randn({4, 40, 70}, tables), at::randn({4, 5}, tables),      at::randn({4}, tables),
        at::randn({7, 8}, tables),      at::randn({7, 6}, tables),      at::randn({7, 8}, tables)};
    const std::vector<at::Tensor> all = GradientsOf(inputs, std::vector<bool>(inputs.size(), true));
    ASSERT_EQ(Computed(all.front()), inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<bool> only(inputs.size(), false), frozen(inputs.size(), true);
      only[i] = true;
      frozen[i] = false;
      const at::Tensor alone = GradientsOf(inputs, only).front();
      EXPECT_TRUE(IsSame(alone, all[i], i)) << "only input " << i << " of " << at::toString(type);
      EXPECT_EQ(Computed(alone), 1U);
      std::vector<at::Tensor> others = GradientsOf(inputs, frozen);
      EXPECT_EQ(Computed(others.front()), inputs.size() - 1);
      others.insert(others.begin() + static_cast<std::ptrdiff_t>(i), all[i]);
      for (std::size_t other = 0; other < inputs.size(); ++other)
        EXPECT_TRUE(IsSame(others[other], all[other], other))
            << other << " beside frozen " << i << " of " << at::toString(type);
    }
  }
}

TEST(AttentionTest, DropoutDrawsFromTorchsGenerator) {
  const Inputs in;
  const auto draw = [&] { return attention(in.q, in.k, in.v, AttentionOptions().dropout(0.5)).output; };
  at::manual_seed(5);
  const at::Tensor first = draw(), second = draw();
  at::manual_seed(5);
  EXPECT_TRUE(at::equal(draw(), first));
  EXPECT_FALSE(at::equal(first, second));
}

TEST(AttentionTest, WeightsReproduceTheOutput) {
  const Inputs in(2, 4, 2, 5, 7, 3, 6);
  const at::Tensor lengths = Ints({3, 0}, {2});
  for (const EmptyRow empty : {EmptyRow::kZero, EmptyRow::kUniform}) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
      const auto options = AttentionOptions().causal(causal).key_lengths(lengths).empty_row(empty).key_offset(2);
      const auto result = attention(
          in.q, in.k, in.v,
          AttentionOptions(options).relative_bias(Random({4, 5})).query_lengths(Ints({5, 4}, {2})).return_weights(true));
      EXPECT_EQ(result.weights.sizes(), at::IntArrayRef({2, 4, 5, 7}));
      EXPECT_TRUE(at::allclose(at::matmul(result.weights, in.v.repeat_interleave(2, 1)), result.output, 0, 1e-12));
      const at::Tensor rows = result.weights.sum(-1);
      const bool top_left_blind = causal == Causal::kTopLeft;  // keys begin at position 2, so queries 0 and 1 see none
      if (!top_left_blind) {
        EXPECT_TRUE(at::allclose(rows[0], at::ones_like(rows[0]), 0, 1e-12));
      }
      const double empty_row_sum = empty == EmptyRow::kUniform ? 4.0 * 4 : 0.0;  // 4 heads, 4 queries within their length
      EXPECT_NEAR(rows[1].sum().item<double>(), empty_row_sum, 1e-12);
    }
  }
}

TEST(AttentionTest, WeightsOfChosenHeadsAndRows) {
  const Inputs in(2, 4, 2, 5, 7, 3, 6);
  const auto options = AttentionOptions().key_lengths(Ints({3, 7}, {2}));
  const auto weights = [&](const AttentionOptions& call) { return attention(in.q, in.k, in.v, call).weights; };
  const at::Tensor all = weights(AttentionOptions(options).return_weights(true));
  const at::Tensor heads = Ints({3, 0, 3}, {3}), rows = Ints({4, 1}, {2});
  EXPECT_TRUE(at::equal(weights(AttentionOptions(options).return_weights_of(heads, rows)),
                        all.index_select(1, heads).index_select(2, rows)));
  EXPECT_TRUE(at::equal(weights(AttentionOptions(options).return_weights_of(heads)), all.index_select(1, heads)));
  EXPECT_TRUE(at::equal(weights(AttentionOptions(options).return_weights_of({}, rows)), all.index_select(2, rows)));
  EXPECT_THROW(weights(AttentionOptions(options).return_weights_of(Ints({4}, {1}))), InvalidArgument);
  EXPECT_THROW(weights(AttentionOptions(options).return_weights_of({}, Ints({-1}, {1}))), InvalidArgument);
  EXPECT_THROW(weights(AttentionOptions(options).return_weights_of(heads.to(at::kInt))), InvalidArgument);
}

TEST(AttentionTest, EmptyRows) {
  const Inputs in;
  const auto options = AttentionOptions().key_lengths(Ints({0, 5}, {2}));
  const auto zero = attention(in.q, in.k, in.v, options);
  EXPECT_TRUE(at::equal(zero.output[0], at::zeros_like(zero.output[0])));
  EXPECT_TRUE(at::isneginf(zero.lse[0]).all().item<bool>());
  const auto uniform = attention(in.q, in.k, in.v, AttentionOptions(options).empty_row(EmptyRow::kUniform));
  EXPECT_TRUE(at::allclose(uniform.output[0], in.v[0].mean(-2, true).expand_as(uniform.output[0]), 0, 1e-12));
  EXPECT_TRUE(at::equal(zero.output[1], uniform.output[1]));
}

TEST(AttentionTest, NotANumberBehindAMaskStaysThere) {
  Inputs in;
  const auto options = AttentionOptions().key_lengths(Ints({3, 3}, {2}));
  Inputs poisoned;
  poisoned.k.slice(2, 3).fill_(kNaN);
  poisoned.v.slice(2, 3).fill_(kNaN);
  for (at::Tensor* tensor : {&poisoned.q, &poisoned.k, &poisoned.v, &in.q, &in.k, &in.v}) tensor->set_requires_grad(true);
  const at::Tensor clean = attention(in.q, in.k, in.v, options).output;
  const at::Tensor other = attention(poisoned.q, poisoned.k, poisoned.v, options).output;
  EXPECT_TRUE(at::equal(clean, other));
  clean.sum().backward();
  other.sum().backward();
  EXPECT_TRUE(at::equal(in.q.grad(), poisoned.q.grad()));
  EXPECT_TRUE(at::equal(in.k.grad(), poisoned.k.grad()));
  EXPECT_TRUE(at::equal(in.v.grad(), poisoned.v.grad()));
}

// In the type of its own: of float64 it lies outside of what the float32 call computes in.
TEST(AttentionTest, TheLowestBiasOfAnyTypeIsFinite) {
  const at::Tensor q = at::randn({1, 2, 3, 8}), k = at::randn({1, 2, 5, 8}), v = at::randn({1, 2, 5, 4});
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const double lowest = type == at::kDouble ? std::numeric_limits<double>::lowest() : -3.3e38;
    const at::Tensor bias = at::full({3, 5}, lowest, type);
    const at::Tensor out = attention(q, k, v, AttentionOptions().bias(bias)).output;
    EXPECT_TRUE(at::allclose(out, v.mean(2, true).expand_as(out), 1e-5, 1e-6)) << type;
  }
}

// A bias [B, H, Nk, Nq] that was turned is copied; each of its numbers has a gradient of its own, those that share memory too.
TEST(AttentionTest, ATurnedBiasHasTheGradientsOfItsCopy) {
  const Inputs in;
  const at::Tensor turned = Random({1, 2, 5, 5}).transpose(2, 3).expand({2, 2, 5, 5}), weight = Random({2, 2, 5, 4});
  std::vector<at::Tensor> outputs, gradients;
  for (const at::Tensor& bias : {turned.detach(), turned.clone(at::MemoryFormat::Contiguous)}) {
    bias.set_requires_grad(true);
    outputs.push_back(attention(in.q, in.k, in.v, AttentionOptions().bias(bias)).output);
    gradients.push_back(torch::autograd::grad({(outputs.back() * weight).sum()}, {bias})[0]);
  }
  EXPECT_TRUE(at::equal(outputs[0], outputs[1]));
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
}

TEST(AttentionTest, EmptyExtents) {
  EXPECT_EQ(attention(Random({0, 2, 3, 4}), Random({0, 2, 5, 4}), Random({0, 2, 5, 4})).output.numel(), 0);
  const at::Tensor q = Random({1, 2, 3, 4}).set_requires_grad(true);
  const at::Tensor output = attention(q, Random({1, 2, 0, 4}), Random({1, 2, 0, 6})).output;
  EXPECT_TRUE(at::equal(output, at::zeros({1, 2, 3, 6}, at::kDouble)));
  output.sum().backward();
  EXPECT_TRUE(at::equal(q.grad(), at::zeros_like(q)));
}

// Output and all gradients for the dtype's own rounding, so that equality below is of bits.
std::vector<at::Tensor> All(const Inputs& in, const AttentionOptions& options, at::ScalarType type = at::kFloat,
                            int backward_threads = 0) {
  const at::Tensor q = in.q.to(type).detach().set_requires_grad(true), k = in.k.to(type).detach().set_requires_grad(true);
  const at::Tensor v = in.v.to(type).detach().set_requires_grad(true);
  const at::Tensor bias =
      (at::arange(17, at::kDouble) / 17).to(type).expand({in.q.size(1), 17}).clone().set_requires_grad(true);
  const auto result = attention(q, k, v, AttentionOptions(options).relative_bias(bias));
  if (backward_threads > 0) at::set_num_threads(backward_threads);
  result.output.square().sum().backward();
  return {result.output.detach(), result.lse, q.grad(), k.grad(), v.grad(), bias.grad()};
}

TEST(AttentionTest, ThreadsDoNotChangeABit) {
  const Inputs in(2, 3, 3, 300, 300, 32, 32);
  const auto options = AttentionOptions().causal(true).dropout(0.2).seed(1);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = All(in, options);
  at::set_num_threads(2);
  const auto two = All(in, options);
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], two[i])) << i;
}

TEST(AttentionTest, ThreadsThatChangeBeforeTheBackwardPassDoNotChangeABit) {
  const Inputs in(1, 2, 1, 300, 300, 32, 32);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = All(in, {});
  for (const auto& [forward, backward] : {std::pair(1, 4), std::pair(4, 1), std::pair(3, 2)}) {
    at::set_num_threads(forward);
    const auto other = All(in, {}, at::kFloat, backward);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], other[i])) << i;
  }
  at::set_num_threads(before);
}

TEST(AttentionTest, ABatchRowAloneEqualsTheRowInABatch) {
  const Inputs in(3, 2, 2, 70, 70, 16, 16);
  const at::Tensor lengths = Ints({70, 33, 50}, {3});
  const auto batch = All(in, AttentionOptions().causal(true).dropout(0.2).seed(1).key_lengths(lengths));
  Inputs row = in;
  row.q = in.q.slice(0, 1, 2);
  row.k = in.k.slice(0, 1, 2);
  row.v = in.v.slice(0, 1, 2);
  const auto alone =
      All(row, AttentionOptions().causal(true).dropout(0.2).seed(1).batch_offset(1).key_lengths(lengths.slice(0, 1, 2)));
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(at::equal(batch[i].slice(0, 1, 2), alone[i])) << i;
}

TEST(AttentionTest, OutputLiesInMemoryAsTheQueriesDo) {
  const Inputs in;
  EXPECT_TRUE(attention(in.q, in.k, in.v).output.is_contiguous());
  const at::Tensor inside = in.q.transpose(1, 2).contiguous().transpose(1, 2);
  EXPECT_TRUE(attention(inside, in.k, in.v).output.transpose(1, 2).is_contiguous());
}

TEST(TorchExecutorTest, UsesAsManyThreadsAsTorch) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  TorchExecutor executor;
  EXPECT_EQ(executor.concurrency(), 2);
  // Two tasks that wait for each other end only if they run at the same time.
  std::atomic<int> arrived{0};
  std::atomic<bool> met{true};
  executor.ParallelFor(2, [&](int64_t) {
    ++arrived;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2 && met) {
      if (std::chrono::steady_clock::now() > deadline) met = false;
      std::this_thread::yield();
    }
  });
  EXPECT_TRUE(met);
  at::set_num_threads(1);
  EXPECT_EQ(TorchExecutor().concurrency(), 1);
  at::set_num_threads(before);
}

std::string ErrorOf(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options = {}) {
  try {
    attention(q, k, v, options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(AttentionTest, ErrorsNameTheArgumentAndTheShapes) {
  const Inputs in;
  const auto contains = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  };
  contains(ErrorOf(in.q[0], in.k, in.v), {"query", "[2, 5, 4]", "4 dimensions"});
  contains(ErrorOf(in.q, {}, in.v), {"key", "undefined"});
  contains(ErrorOf(in.q, in.k, in.v.to(at::kFloat)), {"value", "Double", "Float"});
  contains(ErrorOf(in.q.to(at::kBFloat16), in.k, in.v), {"key", "BFloat16", "Double"});
  contains(ErrorOf(in.q.to(at::kInt), in.k, in.v), {"query", "bfloat16 or float16", "Int"});
  contains(ErrorOf(in.q.to(at::kMeta), in.k, in.v), {"query", "CPU", "meta"});
  contains(ErrorOf(in.q, in.k.to_sparse(), in.v), {"key", "strided"});
  contains(ErrorOf(in.q, Random({2, 2, 5, 3}), in.v), {"[2, 2, 5, 4]", "[2, 2, 5, 3]"});
  contains(ErrorOf(in.q, in.k, Random({2, 2, 6, 4})), {"[2, 2, 6, 4]"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().key_lengths(at::tensor({3.0, 2.0}))),
           {"key_lengths", "int64", "Double"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().key_lengths(Ints({6, 1}, {2}))), {"key_lengths", "0..5", "6"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().key_lengths(Ints({1, 2, 3}, {3}))), {"key_lengths"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().query_lengths(Ints({1, 2}, {2, 1}))), {"query_lengths", "[batch]"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().relative_bias(Random({3, 5}))), {"relative_bias", "[3, 5]"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().relative_bias(Random({2, 4}))), {"relative_bias", "2M+1"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().content({}, {}, Random({3, 9}))), {"content_bias.queries", "[3, 9]"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().content({}, {}, Random({9}))), {"content_queries", "[9]"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().relative_bias(Ints({1, 2, 3}, {1, 3}))), {"relative_bias", "floating"});
  contains(ErrorOf(in.q, in.k, in.v, AttentionOptions().dropout(1.0).seed(1)), {"dropout", "[0, 1)"});
}

}  // namespace
}  // namespace heed::nn
