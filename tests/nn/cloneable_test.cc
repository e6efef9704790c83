// Copies of modules: what was shared stays shared, among the copies alone.
#include "heed/nn/cloneable.h"

#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "heed/nn/multi_head_attention.h"
#include "heed/nn/positions.h"
#include "heed/nn/transformer.h"

namespace heed::nn {
namespace {

constexpr int64_t kWidth = 8, kHeads = 2;

// Two layers with one scheme, as T5 has them.
class TwoLayersImpl : public Cloneable<TwoLayersImpl> {
 public:
  TwoLayersImpl() { reset(); }
  void reset() override {
    const auto options = MultiHeadAttentionOptions(kWidth, kHeads).position(T5Bias(kHeads)).scale(1.0);
    first = register_module("first", MultiHeadAttention(options));
    second = register_module("second", MultiHeadAttention(options));
  }
  at::Tensor forward(const at::Tensor& X) {
    const at::Tensor Y = first(X, X, X);
    return second(Y, Y, Y);
  }
  MultiHeadAttention first{nullptr}, second{nullptr};
};
TORCH_MODULE(TwoLayers);

at::Tensor WeightOf(const MultiHeadAttention& layer) { return std::dynamic_pointer_cast<T5BiasImpl>(layer->position)->weight; }

TEST(CloneableTest, ASharedSchemeStaysShared) {
  TwoLayers layers;
  at::NoGradGuard no_grad;
  WeightOf(layers->first).normal_();
  const at::Tensor X = at::randn({2, 5, kWidth}), before = layers(X);
  const auto copy = std::dynamic_pointer_cast<TwoLayersImpl>(layers->clone());
  EXPECT_EQ(copy->first->position, copy->second->position);
  EXPECT_TRUE(copy->named_parameters()["first.position.weight"].is_same(copy->named_parameters()["second.position.weight"]));
  EXPECT_TRUE(at::equal(copy->forward(X), before));
  // A change of the copy's table reaches both of its layers and none of the original's.
  WeightOf(copy->first).add_(1);
  EXPECT_TRUE(at::equal(WeightOf(copy->second), WeightOf(layers->first) + 1));
  EXPECT_TRUE(at::equal(layers(X), before));
}

TEST(CloneableTest, CopiesOfDifferentCallsShareNothing) {
  TwoLayers layers;
  const auto one = std::dynamic_pointer_cast<TwoLayersImpl>(layers->clone());
  const auto two = std::dynamic_pointer_cast<TwoLayersImpl>(layers->clone());
  EXPECT_NE(one->first->position, two->first->position);
  const auto apart = std::dynamic_pointer_cast<MultiHeadAttentionImpl>(layers->first->clone());
  EXPECT_NE(apart->position, layers->first->position);
  EXPECT_NE(apart->position, one->first->position);
}

TEST(CloneableTest, SchemesOfAnEncodersBlocksStayAsSharedAsTheyWere) {
  TransformerEncoder encoder(11, 3,
                             TransformerEncoderBlockOptions(kWidth, 16, kHeads).position({.scheme = PositionScheme::kT5}));
  const auto attention_of = [](TransformerEncoderImpl& of, std::size_t block) {
    return of.blks->ptr(block)->as<TransformerEncoderBlockImpl>()->attention;
  };
  MultiHeadAttention first = attention_of(*encoder, 0), second = attention_of(*encoder, 1);
  second->position = first->position;
  second->replace_module("position", std::dynamic_pointer_cast<T5BiasImpl>(first->position));
  const auto copy = std::dynamic_pointer_cast<TransformerEncoderImpl>(encoder->clone());
  EXPECT_EQ(attention_of(*copy, 0)->position, attention_of(*copy, 1)->position);
  EXPECT_NE(attention_of(*copy, 0)->position, attention_of(*copy, 2)->position);
  EXPECT_NE(attention_of(*copy, 0)->position, attention_of(*encoder, 0)->position);
  EXPECT_EQ(copy->named_parameters().keys(), encoder->named_parameters().keys());
}

TEST(CloneableTest, AScopeAroundTheCloneOfAnyContainer) {
  const auto options = MultiHeadAttentionOptions(kWidth, kHeads).position(T5Bias(kHeads));
  torch::nn::Sequential layers{MultiHeadAttention(options), MultiHeadAttention(options)};
  const CloneScope scope;
  const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(layers->clone());
  EXPECT_EQ(copy->ptr(0)->as<MultiHeadAttentionImpl>()->position, copy->ptr(1)->as<MultiHeadAttentionImpl>()->position);
}

TEST(AlibiTest, SlopesStayFloat32In16Bits) {
  for (const bool trainable : {false, true}) {
    MultiHeadAttention module(MultiHeadAttentionOptions(32, 16).position(Alibi(16, true, trainable)));
    const auto slopes = [&] { return std::dynamic_pointer_cast<AlibiImpl>(module->position)->slopes; };
    const at::Tensor before = slopes().detach().clone();
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      module->to(type);
      EXPECT_EQ(module->W_q->weight.scalar_type(), type);
      EXPECT_TRUE(at::equal(slopes(), before));
      module->to(at::kCPU, type);
      EXPECT_TRUE(at::equal(slopes(), before));
    }
    const at::Tensor X = at::randn({1, 3, 32}, at::kHalf);
    module(X, X, X).sum().backward();
    if (trainable) {
      EXPECT_EQ(slopes().grad().scalar_type(), at::kFloat);
      EXPECT_TRUE(slopes().grad().ne(0).all().item<bool>());
    }
    const auto copy = std::dynamic_pointer_cast<MultiHeadAttentionImpl>(module->clone());
    EXPECT_TRUE(at::equal(std::dynamic_pointer_cast<AlibiImpl>(copy->position)->slopes, before));
    module->to(at::kDouble);
    EXPECT_TRUE(at::equal(slopes().to(at::kFloat), before));
  }
}

}  // namespace
}  // namespace heed::nn
