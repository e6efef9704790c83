// Attention over ranks, which are threads here, beside attention in one process.
#include "heed/nn/distributed.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "heed/error.h"
#include "heed/nn/positions.h"
#include "heed/score_program.h"
#include "tests/nn/refusal.h"
#include "tests/nn/thread_group.h"

namespace heed::nn::distributed {
namespace {

using std::chrono::milliseconds;

at::Tensor Numbers(int64_t seed, at::IntArrayRef shape) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(static_cast<uint64_t>(seed));
  return at::randn(shape, generator, at::kDouble);
}

at::Tensor Ints(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

constexpr int64_t kTokens = 24, kHeads = 12, kKeyHeads = 12, kWidth = 8;

// A scheme of one's own that turns by trained rates.
struct TrainedTurnImpl : torch::nn::Cloneable<TrainedTurnImpl>, AttentionPosition {
  TrainedTurnImpl() { reset(); }
  void reset() override { rates = register_parameter("rates", at::full({kWidth / 2}, 0.3, at::kDouble)); }
  bool turns_once() const override { return true; }
  at::Tensor rotate_query(const at::Tensor& query, const TokenPositions& positions) const override {
    return Turn(query, positions);
  }
  at::Tensor rotate_key(const at::Tensor& key, const TokenPositions& positions) const override { return Turn(key, positions); }
  at::Tensor rates;

 private:
  at::Tensor Turn(const at::Tensor& x, const TokenPositions& positions) const {
    const auto* first = std::get_if<int64_t>(&positions);
    const at::Tensor places =
        first != nullptr ? at::arange(x.size(2), at::kDouble) + *first : std::get<at::Tensor>(positions).to(at::kDouble);
    const at::Tensor angle = places.unsqueeze(-1) * rates;
    const std::vector<at::Tensor> halves = x.chunk(2, 3);
    return at::cat({halves[0] * angle.cos() - halves[1] * angle.sin(), halves[0] * angle.sin() + halves[1] * angle.cos()}, 3);
  }
};
TORCH_MODULE(TrainedTurn);

// Options, and what they train.
struct Trained {
  AttentionOptions options;
  std::vector<at::Tensor> leaves;
};

template <class Holder>
Trained OfScheme(Holder scheme, bool causal = false) {
  scheme->to(at::kDouble);
  Trained made{AttentionOptions().causal(causal).position(scheme), scheme->parameters()};
  const at::NoGradGuard no_grad;
  for (std::size_t p = 0; p < made.leaves.size(); ++p)
    made.leaves[p].copy_(0.3 * Numbers(40 + static_cast<int64_t>(p), made.leaves[p].sizes()));
  return made;
}

struct Case {
  const char* name;
  std::function<Trained()> make;
};

Trained OfBias() {
  const at::Tensor bias = Numbers(11, {1, kHeads, kTokens, kTokens}).requires_grad_();
  return {AttentionOptions().bias(bias), {bias}};
}

// Some rows so far from 0 that a log-sum-exp does not hold its own rounding.
Trained OfFarBias() {
  const at::Tensor row = at::arange(kTokens).unsqueeze(1), key = at::arange(kTokens);
  const at::Tensor levels = at::tensor({-1.2345678e300, -1.2345679e300}, at::kDouble);
  const at::Tensor far = levels.index({((row + key) % 7 < 3).to(at::kLong)});
  const at::Tensor bias = at::where(row % 3 == 0, Numbers(15, {1, kHeads, kTokens, kTokens}), far).requires_grad_();
  return {AttentionOptions().bias(bias), {bias}};
}

Trained OfProgram() {
  using namespace heed::program;
  const at::Tensor rates = (0.3 * Numbers(7, {kHeads, kTokens})).requires_grad_();
  const ScoreProgram program(Score() + Captured(0)(Head(), Key()) * 0.5 - 0.01 * (Query() - Key()) + 0.1 * Batch());
  const MaskProgram mask(Remainder(Query() + 2 * Key() + Head(), 5) != 0);
  return {AttentionOptions().score(program, {rates}).mask_program(mask), {rates}};
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases{
      {"plain", [] { return Trained{}; }},
      {"causal",
       [] {
         return Trained{AttentionOptions().causal(true), {}};
       }},
      {"window",
       [] {
         return Trained{AttentionOptions().causal(true).window(5, -1), {}};
       }},
      {"lengths",
       [] {
         return Trained{AttentionOptions().key_lengths(Ints({7, 20})).query_lengths(Ints({24, 9})), {}};
       }},
      {"positions",
       [] {
         return Trained{AttentionOptions().causal(true).query_positions(at::arange(kTokens) * 2 % 17).key_offset(2), {}};
       }},
      {"dropout",
       [] {
         return Trained{AttentionOptions().dropout(0.3).seed(11).batch_offset(2), {}};
       }},
      {"mask",
       [] {
         return Trained{AttentionOptions().mask(Numbers(13, {2, 1, kTokens, kTokens}) > -0.5), {}};
       }},
      {"bias", OfBias},
      {"far bias", OfFarBias},
      {"program", OfProgram},
      {"alibi", [] { return OfScheme(Alibi(kHeads, true, /*trainable=*/true)); }},
      {"relative", [] { return OfScheme(RelativeBias(kHeads, 5), /*causal=*/true); }},
      {"shaw", [] { return OfScheme(Shaw(kWidth, 4)); }},
      {"rotary", [] { return OfScheme(Rotary(kWidth), /*causal=*/true); }},
      {"xpos", [] { return OfScheme(XPos(kWidth), /*causal=*/true); }},
      {"trained turn", [] { return OfScheme(TrainedTurn()); }},
      {"swin",
       [] {
         const at::Tensor at = at::arange(kTokens);
         const at::Tensor places = at::stack({at.div(6, "floor"), at % 6}, -1).unsqueeze(0);
         Trained made = OfScheme(SwinBias(kHeads, 6));
         made.options.query_positions(places).key_positions(places);
         return made;
       }},
  };
  return cases;
}

struct Results {
  at::Tensor output, lse;
  std::vector<at::Tensor> gradients;  // of query, key, value and what is trained
};

Results Attended(const std::vector<at::Tensor>& operands, const std::vector<at::Tensor>& trained, const at::Tensor& weights,
                 const std::function<AttentionOutput()>& attend) {
  const AttentionOutput result = attend();
  const at::Tensor loss =
      (result.output * weights).sum() + result.lse.where(result.lse.isfinite(), at::zeros({}, at::kDouble)).sum();
  std::vector<at::Tensor> leaves = operands;
  leaves.insert(leaves.end(), trained.begin(), trained.end());
  return {result.output.detach(), result.lse.detach(), torch::autograd::grad({loss}, leaves)};
}

std::vector<at::Tensor> Operands(int64_t batch, at::ScalarType type = at::kDouble) {
  return {Numbers(1, {batch, kHeads, kTokens, kWidth}).to(type), Numbers(2, {batch, kKeyHeads, kTokens, kWidth}).to(type),
          Numbers(3, {batch, kKeyHeads, kTokens, kWidth}).to(type)};
}

at::Tensor PartOf(const at::Tensor& whole, Layout layout, int rank, int ranks) {
  if (layout == Layout::kZigzag) return zigzag_part(whole, 2, rank, ranks);
  return whole.narrow(2, rank * whole.size(2) / ranks, whole.size(2) / ranks);
}

void ExpectNear(const at::Tensor& ours, const at::Tensor& theirs, double tolerance, const std::string& where) {
  ASSERT_EQ(ours.sizes(), theirs.sizes()) << where;
  EXPECT_TRUE(at::allclose(ours, theirs, 0, tolerance)) << where << ": " << (ours - theirs).abs().max().item<double>();
}

// That ranks find what one process finds, and send what the plan says.
void ExpectAsInOneProcess(const Case& of, int ranks, Method method, Layout layout) {
  const std::vector<at::Tensor> whole = Operands(2);
  const at::Tensor weights = Numbers(4, whole[0].sizes());
  std::vector<at::Tensor> leaves = whole;
  for (at::Tensor& leaf : leaves) leaf = leaf.clone().requires_grad_();
  const Trained alone = of.make();
  const Results expected = Attended(leaves, alone.leaves, weights,
                                    [&] { return heed::nn::attention(leaves[0], leaves[1], leaves[2], alone.options); });
  std::atomic<int64_t> planned{0};
  const int64_t before = sent_bytes();
  ExpectNothingThrown(Together(ranks, [&](const Group& group, int rank) {
    const std::string where = c10::str(of.name, ", rank ", rank, " of ", ranks);
    const Trained own = of.make();
    std::vector<at::Tensor> parts;
    parts.reserve(whole.size());
    for (const at::Tensor& operand : whole) parts.push_back(PartOf(operand, layout, rank, ranks).clone().requires_grad_());
    const Choice choice{method, layout};
    const Results found = Attended(parts, own.leaves, PartOf(weights, layout, rank, ranks), [&] {
      return distributed::attention(parts[0], parts[1], parts[2], group, own.options, choice);
    });
    const Plan plan = distributed::plan(parts[0], parts[1], parts[2], group, own.options, choice);
    planned += plan.forward_bytes[static_cast<std::size_t>(rank)] + plan.backward_bytes[static_cast<std::size_t>(rank)];
    ExpectNear(found.output, PartOf(expected.output, layout, rank, ranks), 1e-12, where);
    ExpectNear(found.lse, PartOf(expected.lse, layout, rank, ranks), 1e-12, where);
    for (std::size_t g = 0; g < found.gradients.size(); ++g) {
      const at::Tensor& gradient = expected.gradients[g];
      ExpectNear(found.gradients[g], g < 3 ? PartOf(gradient, layout, rank, ranks) : gradient, 1e-12, c10::str(where, ", ", g));
    }
  }));
  EXPECT_EQ(sent_bytes() - before, planned) << of.name;
}

TEST(DistributedTest, EveryOptionIsAsInOneProcess) {
  int count = 0;
  for (const Case& of : Cases()) {
    for (const Method method : {Method::kRing, Method::kAllToAll}) {
      ++count;
      ExpectAsInOneProcess(of, 1 + count % 4, method, count % 3 == 0 ? Layout::kZigzag : Layout::kContiguous);
    }
  }
}

TEST(DistributedTest, ARotationThatDependsOnTheLengthKnowsTheWholeText) {
  const Case of{"dynamic", [] {
                  RotaryOptions options;
                  options.scaling = DynamicScaling{.factor = 2.0, .original_length = 7};
                  return OfScheme(Rotary(kWidth, options), /*causal=*/true);
                }};
  ExpectAsInOneProcess(of, 3, Method::kRing, Layout::kContiguous);
}

TEST(DistributedTest, PackedSequencesAreCutAnywhere) {
  const at::Tensor offsets = Ints({0, 5, 5, 6, 14, 19, 24});
  const std::vector<at::Tensor> whole = Operands(1);
  for (const Method method : {Method::kRing, Method::kAllToAll}) {
    const AttentionOptions options = AttentionOptions().packed(offsets, offsets).causal(true);
    const AttentionOutput expected = heed::nn::attention(whole[0], whole[1], whole[2], options);
    ExpectNothingThrown(Together(3, [&](const Group& group, int rank) {
      const auto part = [&](const at::Tensor& of) { return PartOf(of, Layout::kContiguous, rank, 3); };
      const AttentionOutput found =
          distributed::attention(part(whole[0]), part(whole[1]), part(whole[2]), group, options, {.method = method});
      ExpectNear(found.output, part(expected.output), 1e-12, "packed");
      ExpectNear(found.lse, part(expected.lse), 1e-12, "packed");
    }));
  }
}

TEST(DistributedTest, StatisticsAreThoseOfTheWhole) {
  const std::vector<at::Tensor> whole = Operands(2);
  const AttentionOptions options = AttentionOptions().causal(true).return_statistics(true);
  const at::Tensor expected = heed::nn::attention(whole[0], whole[1], whole[2], options).statistics;
  for (const Method method : {Method::kRing, Method::kAllToAll}) {
    ExpectNothingThrown(Together(3, [&](const Group& group, int rank) {
      const auto part = [&](const at::Tensor& of) { return PartOf(of, Layout::kContiguous, rank, 3); };
      const AttentionOutput found =
          distributed::attention(part(whole[0]), part(whole[1]), part(whole[2]), group, options, {.method = method});
      ExpectNear(found.statistics, expected.narrow(3, rank * kTokens / 3, kTokens / 3), 1e-12, "statistics");
    }));
  }
}

// Of float32, where log(n) is lost beside 1e30; the gradients of one process are exact in it (a walk along the keys).
TEST(DistributedTest, FarRowsHaveGradientsInFloat32) {
  const std::vector<at::Tensor> whole = Operands(2, at::kFloat);
  const at::Tensor row = at::arange(kTokens).unsqueeze(1), key = at::arange(kTokens);
  const at::Tensor bias = at::where((row + key) % 5 < 2, -3.3e30, -3.4e30).to(at::kFloat);
  const AttentionOptions options = AttentionOptions().bias(bias);
  const auto gradients = [&](const std::vector<at::Tensor>& of, const std::function<AttentionOutput()>& attend) {
    return torch::autograd::grad({attend().output.square().sum()}, of);
  };
  std::vector<at::Tensor> leaves = whole;
  for (at::Tensor& leaf : leaves) leaf = leaf.clone().requires_grad_();
  const auto expected = gradients(leaves, [&] { return heed::nn::attention(leaves[0], leaves[1], leaves[2], options); });
  EXPECT_GT(expected[2].abs().max().item<double>(), 0.01);
  ExpectNothingThrown(Together(3, [&](const Group& group, int rank) {
    std::vector<at::Tensor> parts;
    parts.reserve(whole.size());
    for (const at::Tensor& operand : whole)
      parts.push_back(PartOf(operand, Layout::kContiguous, rank, 3).clone().requires_grad_());
    const auto found = gradients(
        parts, [&] { return distributed::attention(parts[0], parts[1], parts[2], group, options, {.method = Method::kRing}); });
    for (std::size_t g = 0; g < 3; ++g)
      ExpectNear(found[g], PartOf(expected[g], Layout::kContiguous, rank, 3), 4e-6, c10::str("float32, ", g));
  }));
}

TEST(DistributedTest, ZigzagAndBack) {
  const at::Tensor whole = Numbers(5, {3, 32, 2});
  const std::vector<int64_t> lengths{0, 20, 3, 9};
  ExpectNothingThrown(Together(4, [&](const Group& group, int rank) {
    const at::Tensor own = whole.split_with_sizes(lengths, 1)[static_cast<std::size_t>(rank)].clone().requires_grad_();
    const at::Tensor moved = zigzag(own, 1, group), back = unzigzag(moved, -2, group);
    EXPECT_TRUE(at::equal(moved, zigzag_part(whole, 1, rank, 4)));
    EXPECT_TRUE(at::equal(back, whole.narrow(1, 8 * rank, 8)));
    const at::Tensor gradient = torch::autograd::grad({(back * back).sum()}, {own})[0];
    EXPECT_TRUE(at::equal(gradient, 2 * own));
  }));
  ExpectRefused([&] { zigzag_part(whole, 0, 0, 4); }, "multiple of 8, two parts a rank, got 3");
  ExpectRefused([&] { zigzag_part(whole, 1, 4, 4); }, "rank: expected a number in 0..3, got 4");
}

TEST(DistributedTest, EveryRankNamesTheDifference) {
  const at::Tensor x = at::zeros({1, 2, 4, kWidth});
  const std::vector<std::string> thrown = Together(3, [&](const Group& group, int rank) {
    const AttentionOptions options = AttentionOptions().dropout(rank == 1 ? 0.2 : 0.1).seed(1);
    EXPECT_THROW(distributed::attention(x, x, x, group, options), InvalidArgument);
    distributed::attention(x, x, x, group, options);
  });
  for (const std::string& text : thrown) {
    EXPECT_EQ(text, "heed::nn::distributed::attention: the ranks disagree: dropout: ranks 0, 2 have 0.1; rank 1 has 0.2");
  }
}

// A scheme whose tables are not there.
struct WithoutTablesImpl : torch::nn::Cloneable<WithoutTablesImpl>, AttentionPosition {
  void reset() override {}
  AttentionTensors tensors() const override { throw Error("there is no table here"); }
};
TORCH_MODULE(WithoutTables);

TEST(DistributedTest, WhatASchemeDoesIsCompared) {
  const at::Tensor x = at::ones({1, 6, 4, kWidth});
  struct Case {
    AttentionOptions one, other;
    std::string expected;
  };
  const auto with = [](const auto& scheme) { return AttentionOptions().position(scheme); };
  const Case cases[] = {
      {with(Alibi(6)), with(Alibi(5)), "refused on other ranks: rank 1: "},
      {with(Alibi(6)), with(Alibi(6, /*symmetric=*/false)), "symmetric: rank 0 has true; rank 1 has false"},
      {with(Rotary(kWidth)), with(Rotary(kWidth, RotaryOptions{.base = 500})), "rotation of a token: rank 0 has "},
      {with(Rotary(kWidth)), with(Rotary(kWidth, RotaryOptions{}, RotaryLayout::kInterleaved)), "rotation of a token: "},
      {with(RelativeBias(6, 4)), with(RelativeBias(6, 5)), "relative_bias: rank 0 has float32 [6, 9]"},
      {with(RelativeBias(6, 4)), with(WithoutTables()), "refused on other ranks: rank 1: there is no table here"},
  };
  for (const Case& of : cases) {
    const std::vector<std::string> thrown = Together(2, [&](const Group& group, int rank) {
      distributed::attention(x, x, x, group, of.one);
      EXPECT_ANY_THROW(distributed::attention(x, x, x, group, rank == 0 ? of.one : of.other));
      distributed::attention(x, x, x, group, rank == 0 ? of.one : of.other);
    });
    EXPECT_NE(thrown[0].find(of.expected), std::string::npos) << thrown[0];
    EXPECT_NE(thrown[1], "");
  }
}

TEST(DistributedTest, ARankThatRefusesTellsTheOthers) {
  const at::Tensor x = at::zeros({1, 2, 4, kWidth});
  const std::vector<std::string> thrown = Together(2, [&](const Group& group, int rank) {
    distributed::attention(x, x, rank == 1 ? at::zeros({1, 2, 3, kWidth}) : x, group);
  });
  EXPECT_NE(thrown[0].find("refused on other ranks: rank 1: InvalidArgument: v: expected"), std::string::npos) << thrown[0];
  EXPECT_EQ(thrown[1].find("v: expected"), 0U) << thrown[1];
}

TEST(DistributedTest, ARankThatDoesNotComeIsNamedWithinTheTimeOut) {
  const at::Tensor x = at::zeros({1, 2, 4, kWidth});
  std::atomic<bool> over{false};
  const std::vector<std::string> thrown = Together(
      2,
      [&](const Group& group, int rank) {
        if (rank == 1) {
          while (!over) std::this_thread::sleep_for(milliseconds(10));
          return;
        }
        try {
          distributed::attention(x, x, x, group);
        } catch (...) {
          over = true;
          throw;
        }
        over = true;
      },
      milliseconds(500));
  EXPECT_EQ(
      thrown[0].find("heed::nn::distributed::attention: rank 0 of 2 waited for rank 1, whose arguments are compared before "
                     "anything is computed: "),
      0U)
      << thrown[0];
}

TEST(DistributedTest, WhatCannotBeIsRefused) {
  const at::Tensor x = at::zeros({1, 2, 4, kWidth});
  ExpectRefused([&] { distributed::attention(x, x, x, {}); }, "group: expected a process group of LibTorch, got none");
  const auto refusal = [&](const AttentionOptions& options, Choice choice) {
    return Together(2, [&](const Group& group, int) { distributed::plan(x, x, x, group, options, choice); })[0];
  };
  EXPECT_EQ(refusal(AttentionOptions().empty_row(EmptyRow::kUniform), {.method = Method::kRing}),
            "method: 'ring' is not possible: empty_row='uniform' is a mean over values of all ranks");
  EXPECT_EQ(refusal(AttentionOptions().return_weights(true), {}),
            "return_weights: not returned by heed::nn::distributed: they are of the size of all scores");
  EXPECT_NE(refusal(AttentionOptions().key_lengths(Ints({9})), {}).find("key_lengths: expected values in 0..8, got 9"),
            std::string::npos);
  EXPECT_EQ(refusal(AttentionOptions().sinks(at::zeros({1, 2, 8})), {}),
            "sinks: expected one a head, [2], for a sequence over several ranks, got [1, 2, 8]");
}

TEST(DistributedTest, SecondDerivativesThrow) {
  for (const Method method : {Method::kRing, Method::kAllToAll}) {
    for (const std::string& text : Together(2, [&](const Group& group, int) {
           const at::Tensor x = at::randn({1, 2, 4, kWidth}).requires_grad_();
           const at::Tensor output = distributed::attention(x, x, x, group, {}, {.method = method}).output;
           const at::Tensor gradient = torch::autograd::grad({output.square().sum()}, {x}, {}, true, /*create_graph=*/true)[0];
           torch::autograd::grad({gradient.sum()}, {x});
         })) {
      EXPECT_NE(text.find("only first derivatives"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace heed::nn::distributed
