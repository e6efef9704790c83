// Score and mask programs over tensors and in modules: the formula, gradients of captured tensors, errors.
#include "heed/score_program.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "gradient_check.h"
#include "heed/nn/attention.h"
#include "heed/nn/multi_head_attention.h"
#include "refusal.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

using namespace heed::program;

// Chi et al. 2022, KERPLE's logarithmic form: score - rate[h] log(1 + width[h] |i - j|).
ScoreProgram LogKernel() {
  const Captured rate(0), width(1);
  return ScoreProgram(Score() - rate(Head()) * Log1p(width(Head()) * Abs(Query() - Key())));
}

MaskProgram Documents() {
  const Captured of = Captured::Whole(0);
  return MaskProgram((of(Query()) == of(Key())) & (Key() <= Query()));
}

struct ProgramSample {
  ProgramSample() {
    at::manual_seed(11);
    q = Random({2, 2, 6, 4});
    k = Random({2, 2, 6, 4});
    v = Random({2, 2, 6, 3});
    rate = at::rand({2}, at::kDouble) + 0.1;
    width = at::rand({2}, at::kDouble) + 0.1;
  }
  at::Tensor q, k, v, rate, width, documents = at::tensor(std::vector<int64_t>{0, 0, 0, 1, 1, 1});

  at::Tensor Bias() const {
    const at::Tensor offsets = at::arange(6, at::kDouble).reshape({6, 1}) - at::arange(6, at::kDouble);
    return -rate.reshape({2, 1, 1}) * at::log1p(width.reshape({2, 1, 1}) * offsets.abs());
  }
  at::Tensor Seen() const { return documents.reshape({6, 1}).eq(documents).logical_and(at::ones({6, 6}, at::kBool).tril()); }
  at::Tensor Expected() const {
    const at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) / 2.0 + Bias();
    return at::matmul(at::softmax(scores.masked_fill(~Seen(), -std::numeric_limits<double>::infinity()), -1), v);
  }
};

TEST(NnScoreProgramTest, EqualsTheFormula) {
  const ProgramSample s;
  const auto options = AttentionOptions().score(LogKernel(), {s.rate, s.width}).mask_program(Documents(), {s.documents});
  EXPECT_TRUE(at::allclose(attention(s.q, s.k, s.v, options).output, s.Expected(), 0, 1e-12));
  const auto of_views =
      AttentionOptions()
          .score(LogKernel(), {at::stack({s.rate, s.rate}, 1).select(1, 1), s.width.to(at::kFloat).to(at::kDouble)})
          .mask_program(Documents(), {s.documents.to(at::kInt)});
  EXPECT_TRUE(at::allclose(attention(s.q, s.k, s.v, of_views).output, s.Expected(), 0, 1e-6));
}

TEST(NnScoreProgramTest, GradientsReachWhatIsCaptured) {
  const ProgramSample s;
  testing::ExpectGradientsMatch(
      [&](const std::vector<at::Tensor>& x) {
        const auto options = AttentionOptions().score(LogKernel(), {x[3], x[4]}).mask_program(Documents(), {s.documents});
        return attention(x[0], x[1], x[2], options).output;
      },
      {s.q, s.k, s.v, s.rate, s.width});
}

TEST(NnScoreProgramTest, ServesModules) {
  const ProgramSample s;
  MultiHeadAttention module{MultiHeadAttentionOptions(8, 2)};
  module->to(at::kDouble);
  const at::Tensor X = Random({2, 6, 8});
  const AttentionMasks by_program{
      .score = LogKernel(), .score_tables = {s.rate, s.width}, .mask_program = Documents(), .mask_tables = {s.documents}};
  const AttentionMasks dense{.mask = s.Seen(), .bias = s.Bias()};
  const auto run = [&](const AttentionMasks& masks) { return module->forward(X, X, X, {}, nullptr, {}, masks); };
  EXPECT_TRUE(at::allclose(run(by_program), run(dense), 0, 1e-12));
  s.rate.set_requires_grad(true);
  const auto gradient = [&](const AttentionMasks& masks) {
    return torch::autograd::grad({run(masks).square().sum()}, {s.rate})[0];
  };
  EXPECT_TRUE(at::allclose(gradient(by_program), gradient({.mask = s.Seen(), .bias = s.Bias()}), 0, 1e-12));
}

TEST(NnScoreProgramTest, RefusesTablesThatDoNotFit) {
  const ProgramSample s;
  const auto refuses = [&](const std::vector<at::Tensor>& tables, const std::vector<std::string>& parts) {
    ExpectRefused([&] { attention(s.q, s.k, s.v, AttentionOptions().score(LogKernel(), tables)); }, parts);
  };
  refuses({s.rate}, {"score.tables", "expected 2 tables, got 1"});
  refuses({s.rate, s.documents}, {"score.tables[1]", "real numbers, got whole numbers"});
  refuses({s.rate, at::ones({2, 2}, at::kDouble)}, {"score.tables[1]", "[1, 1, 2, 2]"});
  refuses({s.rate, at::ones({1, 1, 1, 1, 2}, at::kDouble)}, {"score.tables[1]", "at most 4 dimensions"});
  refuses({s.rate, s.width.to(at::kComplexDouble)}, {"score.tables[1]", "ComplexDouble"});
  refuses({s.rate, s.width.to(at::kMeta)}, {"score.tables[1]", "meta"});
  ExpectRefused([&] { AttentionOptions().score_text("score;add 0 7"); }, {"program", "an earlier instruction"});
  ExpectRefused([&] { AttentionOptions().mask_text("score"); }, {"mask", "a boolean"});
  AttentionOptions wrong;
  wrong.score_text(LogKernel().Text()).score_extents({0, 1, 1, 1, 2, 0, 1, 1});
  ExpectRefused([&] { attention(s.q, s.k, s.v, wrong); }, {"score_extents", "a kind and four extents"});
  wrong.score_extents({0, 1, 1, 1, 2, 0, 1, 1, 1, std::numeric_limits<int64_t>::max()});
  ExpectRefused([&] { attention(s.q, s.k, s.v, wrong); }, "extents");
}

}  // namespace
}  // namespace heed::nn
