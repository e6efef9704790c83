// Modules of ranks that share sequences, which are threads here, beside the same modules in one process.
#include "heed/nn/sequence_part.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "heed/error.h"
#include "heed/nn/cache.h"
#include "heed/nn/dropout.h"
#include "heed/nn/encoders.h"
#include "tests/nn/refusal.h"
#include "tests/nn/thread_group.h"

namespace heed::nn::distributed {
namespace {

constexpr int64_t kBatch = 2, kSteps = 24, kFeatures = 24, kHeads = 4;

// The same at every call, whichever thread calls.
std::shared_ptr<SequenceEncoder> MakeSame(const std::string& name, const std::string& position, bool causal) {
  static std::mutex default_generator;
  const std::lock_guard<std::mutex> lock(default_generator);
  torch::manual_seed(3);
  EncoderOptions options(kFeatures);
  options.layers(2).ffn_width(20).heads(kHeads).causal(causal);
  options.position().scheme = ParsePositionScheme(position);
  options.position().max_distance = 20;
  options.position().max_len = kSteps;
  auto encoder = MakeEncoder(name, options);
  encoder->to(at::kDouble);
  const at::NoGradGuard no_grad;  // tables that start at zero would hide what positions do
  for (const at::Tensor& parameter : encoder->parameters()) parameter.add_(0.2 * at::randn_like(parameter));
  return encoder;
}

struct Found {
  at::Tensor Y, d_X;
  std::vector<at::Tensor> d_parameters;
};

Found Computed(SequenceEncoder& encoder, at::Tensor X, const at::Tensor& weights,
               const std::function<at::Tensor(const at::Tensor&)>& forward) {
  X = X.detach().clone().requires_grad_();
  const at::Tensor Y = forward(X);
  (Y * weights).sum().backward();
  Found found{Y.detach(), X.grad(), {}};
  for (const at::Tensor& parameter : encoder.parameters())
    found.d_parameters.push_back(parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter));
  return found;
}

void ExpectClose(const at::Tensor& found, const at::Tensor& expected, const std::string& where) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << where;
  if (expected.numel() == 0) return;
  const double scale = 1 + expected.abs().max().item<double>();
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-11 * scale) << where;
}

void ExpectAsInOneProcess(const std::string& name, const std::string& position, bool causal, int ranks, Layout layout,
                          const at::Tensor& lengths = {}) {
  const auto alone = MakeSame(name, position, causal);
  const at::Tensor X = at::randn({kBatch, kSteps, kFeatures}, at::kDouble), weights = at::randn_like(X);
  const Found expected = Computed(*alone, X, weights, [&](const at::Tensor& x) { return alone->forward(x, lengths); });
  std::mutex adding;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& gradient : expected.d_parameters) sums.push_back(at::zeros_like(gradient));
  ExpectNothingThrown(Together(ranks, [&](const Group& group, int rank) {
    const std::string where = c10::str(name, " ", position, causal ? " causal" : "", ", rank ", rank, " of ", ranks);
    const auto encoder = MakeSame(name, position, causal);
    std::vector<at::Tensor> own;
    {
      const SequencePart part(group, kSteps, {.layout = layout});
      for (const at::Tensor& whole : {X, weights, expected.Y, expected.d_X}) own.push_back(part.of(whole, 1));
    }
    const Found found = Computed(*encoder, own[0], own[1], [&](const at::Tensor& x) {
      const SequencePart part(group, kSteps, {.layout = layout});
      return encoder->forward(x, lengths);
    });
    ExpectClose(found.Y, own[2], where);
    ExpectClose(found.d_X, own[3], where);
    const std::lock_guard<std::mutex> lock(adding);
    for (std::size_t p = 0; p < sums.size(); ++p) sums[p] += found.d_parameters[p];
  }));
  for (std::size_t p = 0; p < sums.size(); ++p)
    ExpectClose(sums[p], expected.d_parameters[p], c10::str(name, " ", position, " ", p));
}

TEST(SequencePartTest, EveryPositionIsAsInOneProcess) {
  int count = 0;
  for (const std::string& position : PositionSchemeNames()) {
    for (const bool causal : {true, false}) {
      if (!causal && NeedsCausal(ParsePositionScheme(position))) continue;
      const int ranks = position == "cope" ? 2 : 2 + count++ % 3;
      ExpectAsInOneProcess("attention", position, causal, ranks, causal ? Layout::kZigzag : Layout::kContiguous);
    }
  }
}

TEST(SequencePartTest, DecomposableAttentionIsAsInOneProcess) {
  ExpectAsInOneProcess("decomposable", "none", true, 3, Layout::kZigzag);
  ExpectAsInOneProcess("decomposable", "none", false, 4, Layout::kContiguous);
}

TEST(SequencePartTest, LengthsAreThoseOfTheWhole) {
  const at::Tensor lengths = at::tensor({5, 17}, at::kLong);
  for (const char* encoder : {"attention", "decomposable"}) {
    ExpectAsInOneProcess(encoder, "none", false, 4, Layout::kContiguous, lengths);
    ExpectAsInOneProcess(encoder, "none", true, 2, Layout::kZigzag, lengths);
  }
}

// 24 tokens leave some of 5 ranks with fewer than others; of 30, six have none.
TEST(SequencePartTest, PartsMayBeUnevenAndEmpty) {
  for (const char* position : {"learned", "sinusoidal", "alibi"}) {
    ExpectAsInOneProcess("attention", position, true, 5, Layout::kContiguous);
  }
  ExpectAsInOneProcess("attention", "learned", true, 30, Layout::kContiguous);
}

TEST(SequencePartTest, ElementsAreDroppedAsWithinTheWhole) {
  constexpr int kRanks = 3;
  std::vector<Group> groups(kRanks);
  ExpectNothingThrown(Together(kRanks, [&](const Group& group, int rank) { groups[static_cast<std::size_t>(rank)] = group; }));
  const at::Tensor X = at::randn({5, kSteps, 7}, at::kDouble), weights = at::randn_like(X);
  const auto dropped = [](const at::Tensor& x, const at::Tensor& w) {
    torch::manual_seed(2);  // every rank draws as one process does
    const at::Tensor leaf = x.clone().requires_grad_();
    const at::Tensor Y = drop_elements(leaf, 0.4, /*training=*/true);
    return at::stack({Y.detach(), torch::autograd::grad({(Y * w).sum()}, {leaf})[0]});
  };
  const at::Tensor whole = dropped(X, weights);
  for (const Layout layout : {Layout::kZigzag, Layout::kContiguous}) {
    for (const Group& group : groups) {
      for (const int64_t first_row : {0, 3}) {
        const SequencePart part(group, kSteps, {.layout = layout});
        const FirstBatchRow row(first_row);
        const auto own = [&](const at::Tensor& x) { return part.of(x.narrow(x.dim() - 3, first_row, 2), x.dim() - 2); };
        EXPECT_TRUE(at::equal(dropped(own(X), own(weights)), own(whole)));
        EXPECT_TRUE(at::equal(part.of(at::arange(kSteps), 0), part.tokens()));
      }
    }
  }
  EXPECT_TRUE(at::equal(dropped(X, weights), whole));
}

TEST(SequencePartTest, WhatCannotBeIsRefusedByName) {
  const at::Tensor X = at::zeros({1, 3, kFeatures}, at::kDouble);
  ExpectNothingThrown(Together(2, [&](const Group& group, int) {
    const SequencePart part(group, 6);
    for (const auto& [name, text] :
         {std::pair{"gru", "RecurrentEncoder: not within a SequencePart: a step is computed of others"},
          {"gru-attention", "RecurrentAttentionEncoder: not within a SequencePart: a step is computed of others"},
          {"dilated", "ConvolutionEncoder: not within a SequencePart: a step is computed of others"}}) {
      const auto encoder = MakeSame(name, "none", true);
      ExpectRefused([&] { encoder->forward(X); }, text);
    }
    MultiHeadAttention attention(kFeatures, kHeads, 0.0);
    attention->to(at::kDouble);
    KeyValueCache cache;
    ExpectRefused([&] { attention(X, X, X, at::Tensor(), &cache); }, "MultiHeadAttention: not within a SequencePart: a cache");
    ExpectRefused([&] { attention(X.narrow(1, 0, 2), X, X); }, "SequencePart: expected the 3 tokens that rank ");
    ExpectRefused([&] { drop_elements(at::zeros({6}), 0.5, true); }, "SequencePart: expected X [batch, tokens, ..]");
    ExpectRefused([&] { drop_elements(at::zeros({1, 3}, at::kBFloat16), 0.5, true); }, "Dropout: not within a SequencePart");
    ExpectRefused([&] { SequencePart(group, 6); }, "SequencePart: this thread already has one");
    ExpectRefused([&] { part.of(X, 1); }, "SequencePart: expected 6 tokens along dimension 1");
  }));
  ExpectNothingThrown(Together(2, [&](const Group& group, int) {
    ExpectRefused([&] { SequencePart(group, 6, {.layout = Layout::kZigzag}); }, "multiple of 4, two parts a rank, got 6");
    ExpectRefused([&] { SequencePart(group, -1); }, "SequencePart: steps: expected 0 or more, got -1");
  }));
  ExpectRefused([] { SequencePart({}, 6); }, "SequencePart: group: expected a process group of LibTorch, got none");
}

}  // namespace
}  // namespace heed::nn::distributed
