#include "heed/nn/transformer_decoder.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>

#include "heed/error.h"

namespace heed::nn {
namespace {

struct Sample {
  at::Tensor X = at::randn({3, 6, 8}, at::kDouble);
  at::Tensor memory = at::randn({3, 5, 10}, at::kDouble);
  at::Tensor memory_lens = at::tensor(std::vector<int64_t>{5, 2, 3});
};

TransformerDecoderBlockOptions Options(Norm norm) {
  PositionOptions position;
  position.scheme = PositionScheme::kRelativeBias;
  position.max_distance = 2;
  return TransformerDecoderBlockOptions(8, 12, 2).encoder_size(10).norm(norm).bias(true).position(position);
}

// Schemes that start at zero would hide where a query stands.
void Stir(const torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters())
    if (item.key().find("position.") != std::string::npos) torch::nn::init::normal_(item.value());
}

TransformerDecoderBlock Block(Norm norm) {
  TransformerDecoderBlock block(Options(norm));
  block->to(at::kDouble);
  block->eval();
  Stir(*block);
  return block;
}

TEST(TransformerDecoderBlockTest, IsSelfThenCrossThenFeedForward) {
  const Sample s;
  TransformerDecoderBlock block = Block(Norm::kPost);
  const at::Tensor causal_lens = at::arange(1, 7).expand({3, 6});
  block->attention1->options.causal(Causal::kNone);  // d2l masks by lengths instead
  const at::Tensor Y = block->addnorm1(s.X, block->attention1(s.X, s.X, s.X, causal_lens));
  const at::Tensor Z = block->addnorm2(Y, block->attention2(Y, s.memory, s.memory, s.memory_lens));
  const at::Tensor expected = block->addnorm3(Z, block->ffn(Z));
  block->attention1->options.causal(Causal::kBottomRight);
  EXPECT_TRUE(at::allclose(block(s.X, s.memory, s.memory_lens), expected, 0, 1e-12));
  EXPECT_EQ(TransformerDecoderBlock(8, 12, 2, 0.0)->named_children().keys(),
            (std::vector<std::string>{"attention1", "addnorm1", "attention2", "addnorm2", "ffn", "addnorm3"}));
}

TEST(TransformerDecoderBlockTest, EveryParameterLearns) {
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    const Sample s;
    TransformerDecoderBlock block = Block(norm);
    (block(s.X, s.memory, s.memory_lens) * at::randn({3, 6, 8}, at::kDouble)).sum().backward();
    for (const auto& item : block->named_parameters()) {
      // A bias of the keys moves all scores of a query alike.
      if (item.key().ends_with("W_k.bias")) continue;
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 1e-6) << item.key();
    }
  }
}

TEST(TransformerDecoderBlockTest, CachedStepsEqualTheWholePass) {
  const at::NoGradGuard no_grad;
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    const Sample s;
    TransformerDecoderBlock block = Block(norm);
    const at::Tensor whole = block(s.X, s.memory, s.memory_lens);
    DecoderBlockCache cache;
    std::vector<at::Tensor> steps = {block->forward(s.X.narrow(1, 0, 2), s.memory, s.memory_lens, {}, &cache)};
    for (int64_t i = 2; i < 6; ++i)
      steps.push_back(block->forward(s.X.narrow(1, i, 1), at::Tensor(), s.memory_lens, {}, &cache));
    EXPECT_TRUE(at::allclose(at::cat(steps, 1), whole, 0, 1e-12));
    EXPECT_EQ(cache.self.length(), 6);
    EXPECT_EQ(cache.cross.length(), 5);
  }
}

TEST(TransformerDecoderBlockTest, RefusesByName) {
  EXPECT_THROW(TransformerDecoderBlock(TransformerDecoderBlockOptions(8, -1, 2)), InvalidArgument);
  EXPECT_THROW(TransformerDecoderBlock(TransformerDecoderBlockOptions(8, 12, 3)), InvalidArgument);
  const Sample s;
  EXPECT_THROW(Block(Norm::kPost)(s.X, s.X), InvalidArgument);
  DecoderBlockCache cache;
  EXPECT_THROW(Block(Norm::kPost)->forward(s.X, s.X, {}, {}, &cache), InvalidArgument);
  EXPECT_EQ(cache.self.length(), 0);
}

struct Sentence {
  at::Tensor tokens = at::randint(11, {3, 6}, at::kLong);
  at::Tensor memory = at::randn({3, 5, 10}, at::kDouble);
  at::Tensor memory_lens = at::tensor(std::vector<int64_t>{5, 2, 3});
};

TransformerDecoder Decoder(Norm norm) {
  TransformerDecoder decoder(11, 2, Options(norm).keep_attention_weights(true));
  decoder->to(at::kDouble);
  decoder->eval();
  Stir(*decoder);
  return decoder;
}

TEST(TransformerDecoderTest, CachedStepsEqualTheWholePass) {
  const at::NoGradGuard no_grad;
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    const Sentence s;
    TransformerDecoder decoder = Decoder(norm);
    const at::Tensor whole = decoder(s.tokens, s.memory, s.memory_lens);
    EXPECT_EQ(whole.sizes(), at::IntArrayRef({3, 6, 11}));
    EXPECT_EQ(decoder->attention_weights().size(), 4u);
    EXPECT_EQ(decoder->attention_weights()[1].sizes(), at::IntArrayRef({6, 6, 5}));
    DecoderCache cache;
    std::vector<at::Tensor> steps;
    for (int64_t i = 0; i < 6; ++i)
      steps.push_back(decoder->forward(s.tokens.narrow(1, i, 1), s.memory, s.memory_lens, {}, &cache));
    EXPECT_TRUE(at::allclose(at::cat(steps, 1), whole, 0, 1e-12));
    cache.truncate(4);
    EXPECT_TRUE(at::allclose(decoder->forward(s.tokens.narrow(1, 4, 2), s.memory, s.memory_lens, {}, &cache),
                             whole.narrow(1, 4, 2), 0, 1e-12));
  }
}

TEST(TransformerDecoderTest, BeamsAreReordered) {
  const at::NoGradGuard no_grad;
  const Sentence s;
  TransformerDecoder decoder = Decoder(Norm::kPost);
  const at::Tensor rows = at::tensor(std::vector<int64_t>{2, 2});
  DecoderCache cache;
  decoder->forward(s.tokens.narrow(1, 0, 5), s.memory, s.memory_lens, {}, &cache);
  cache.reorder(rows);
  const at::Tensor last =
      decoder->forward(s.tokens.narrow(1, 5, 1).index_select(0, rows), {}, s.memory_lens.index_select(0, rows), {}, &cache);
  const at::Tensor whole = decoder(s.tokens, s.memory, s.memory_lens);
  EXPECT_TRUE(at::allclose(last, whole.narrow(1, 5, 1).index_select(0, rows), 0, 1e-12));
}

TEST(TransformerDecoderTest, ClonesAndRefuses) {
  const Sentence s;
  TransformerDecoder decoder = Decoder(Norm::kPre);
  const auto copy = std::dynamic_pointer_cast<TransformerDecoderImpl>(decoder->clone());
  EXPECT_TRUE(at::equal(copy->forward(s.tokens, s.memory), decoder(s.tokens, s.memory)));
  EXPECT_EQ(copy->named_parameters().keys(), decoder->named_parameters().keys());
  EXPECT_THROW(TransformerDecoder(0, 1, Options(Norm::kPre)), InvalidArgument);
  EXPECT_THROW(decoder(s.tokens[0], s.memory), InvalidArgument);
  DecoderCache of_another;
  of_another.blocks.resize(3);
  EXPECT_THROW(decoder->forward(s.tokens, s.memory, {}, {}, &of_another), InvalidArgument);
}

}  // namespace
}  // namespace heed::nn
