// Attention without recurrence against its formula, and what it refuses.
#include "heed/nn/decomposable_attention.h"

#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>

#include "gradient_check.h"
#include "heed/error.h"
#include "heed/nn/encoders.h"

namespace heed::nn {
namespace {

// In double, with biases that are not the zeros of the start.
DecomposableAttention Make(const DecomposableAttentionOptions& options) {
  at::manual_seed(31);
  DecomposableAttention layer(options);
  layer->to(at::kDouble);
  torch::nn::init::normal_(layer->position->relative_bias);
  layer->eval();
  return layer;
}

// The formula of the header with whole matrices of scores.
at::Tensor Naive(DecomposableAttentionImpl& layer, const at::Tensor& X, const at::Tensor& lengths) {
  const int64_t steps = X.size(1), heads = layer.options.heads(), reach = layer.options.max_distance();
  const at::Tensor F = layer.attend(X), place = at::arange(steps);
  const at::Tensor offset = place.unsqueeze(0) - place.unsqueeze(1);  // j - i
  std::vector<at::Tensor> aligned;
  for (int64_t h = 0; h < heads; ++h) {
    const at::Tensor f = F.chunk(heads, 2)[h], x = X.chunk(heads, 2)[h];
    const at::Tensor bias = layer.position->relative_bias[h].index({offset.clamp(-reach, reach) + reach});
    at::Tensor scores = f.matmul(f.transpose(1, 2)) + bias;
    const double hidden = -std::numeric_limits<double>::infinity();
    if (layer.options.causal() != Causal::kNone) scores = scores.masked_fill(offset.gt(0), hidden);
    if (lengths.defined()) scores = scores.masked_fill(place.ge(lengths.view({-1, 1, 1})), hidden);
    aligned.push_back(scores.softmax(-1).matmul(x));
  }
  return layer.compare(at::cat({X, at::cat(aligned, 2)}, 2));
}

TEST(DecomposableAttentionTest, IsItsFormula) {
  const at::Tensor X = at::randn({3, 9, 8}, at::kDouble), lengths = at::tensor(std::vector<int64_t>{9, 4, 1});
  for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
    for (const int64_t heads : {1, 4}) {
      for (const int64_t reach : {0, 3, 20}) {
        const auto options = DecomposableAttentionOptions(8, heads).max_distance(reach).causal(causal);
        DecomposableAttention layer = Make(options);
        EXPECT_TRUE(at::allclose(layer(X), Naive(*layer, X, {}), 0, 1e-12));
        EXPECT_TRUE(at::allclose(layer(X, lengths), Naive(*layer, X, lengths), 0, 1e-12));
      }
    }
  }
}

TEST(DecomposableAttentionTest, GradientsOfInputAndParameters) {
  DecomposableAttention layer = Make(DecomposableAttentionOptions(4, 2).max_distance(2).activation(Activation::kGelu));
  const at::Tensor X = at::randn({2, 4, 4}, at::kDouble).set_requires_grad(true), lengths = at::tensor({4, 2});
  std::vector<at::Tensor> leaves = {X};
  for (const at::Tensor& parameter : layer->parameters()) leaves.push_back(parameter);
  testing::ExpectLeafGradientsMatch([&] { return layer(X, lengths); }, leaves);
}

TEST(DecomposableEncoderTest, StepsEqualTheWholePass) {
  const at::NoGradGuard no_grad;
  for (const Norm norm : {Norm::kPre, Norm::kPost}) {
    DecomposableEncoder encoder(EncoderOptions(8).layers(2).heads(2).ffn_width(12).causal(true).norm(norm));
    encoder->to(at::kDouble);
    encoder->eval();
    for (auto& layer : encoder->attentions) torch::nn::init::normal_(layer->position->relative_bias);
    ASSERT_TRUE(encoder->CanStep());
    const at::Tensor X = at::randn({2, 7, 8}, at::kDouble);
    LayerCaches caches(2);
    const at::Tensor chunked = at::cat({encoder->step(X.slice(1, 0, 3), caches), encoder->step(X.slice(1, 3, 4), caches),
                                        encoder->step(X.slice(1, 4, 7), caches)},
                                       1);
    EXPECT_TRUE(at::allclose(chunked, encoder(X), 0, 1e-12));
    LayerCaches three(3);
    EXPECT_THROW(encoder->step(X, three), InvalidArgument);
  }
  EXPECT_FALSE(DecomposableEncoder(EncoderOptions(8))->CanStep());
}

TEST(DecomposableAttentionTest, RefusesByName) {
  const auto refused = [](const auto& f, const std::string& part) {
    try {
      f();
      ADD_FAILURE() << "nothing was thrown; expected " << part;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused([] { DecomposableAttention(DecomposableAttentionOptions(8, 3)); },
          "width (8) must be a positive multiple of heads (3)");
  refused([] { DecomposableAttention(DecomposableAttentionOptions(8, 2).max_distance(-1)); }, "max_distance");
  refused([] { DecomposableAttention(DecomposableAttentionOptions(8, 2).dropout(1.0)); }, "dropout");
  DecomposableAttention layer(DecomposableAttentionOptions(8, 2));
  refused([&] { layer(at::zeros({2, 3, 7})); }, "X: expected shape [batch, steps, 8], got [2, 3, 7]");
  refused([&] { layer(at::zeros({2, 3, 8}), at::ones({3})); }, "valid_lens: expected shape [2] or [2, 3], got [3]");
}

}  // namespace
}  // namespace heed::nn
