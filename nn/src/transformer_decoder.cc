#include "heed/nn/transformer_decoder.h"

#include <cmath>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "refuse.h"
#include "residual_layers.h"

namespace heed::nn {
namespace {

// What both attentions of a block have in common.
MultiHeadAttentionOptions AttentionOf(const TransformerDecoderBlockOptions& options) {
  return MultiHeadAttentionOptions(options.num_hiddens(), options.num_heads())
      .dropout(options.dropout())
      .bias(options.bias())
      .empty_row(options.empty_row())
      .query_key_norm(options.query_key_norm())
      .keep_attention_weights(options.keep_attention_weights());
}

}  // namespace

TransformerDecoderBlockImpl::TransformerDecoderBlockImpl(TransformerDecoderBlockOptions options_)
    : options(std::move(options_)) {
  if (options.encoder_size() == 0) options.encoder_size(options.num_hiddens());
  if (options.ffn_num_hiddens() < 0) {
    Refuse("TransformerDecoderBlock: ffn_num_hiddens must be 0 or more, got ", options.ffn_num_hiddens());
  }
  reset();
}

TransformerDecoderBlockImpl::TransformerDecoderBlockImpl(int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_heads,
                                                         double dropout, bool use_bias)
    : TransformerDecoderBlockImpl(
          TransformerDecoderBlockOptions(num_hiddens, ffn_num_hiddens, num_heads).dropout(dropout).bias(use_bias)) {}

void TransformerDecoderBlockImpl::reset() {
  const int64_t width = options.num_hiddens();
  const auto norm = [&](const char* name) {
    return register_module(name, AddNorm(width, options.dropout(), options.layer_norm_eps()));
  };
  attention1 = register_module(
      "attention1", MultiHeadAttention(AttentionOf(options).causal(Causal::kBottomRight).position(options.position())));
  addnorm1 = norm("addnorm1");
  attention2 = register_module(
      "attention2",
      MultiHeadAttention(AttentionOf(options).key_size(options.encoder_size()).value_size(options.encoder_size())));
  addnorm2 = norm("addnorm2");
  if (options.ffn_num_hiddens() == 0) return;
  ffn = register_module("ffn", PositionWiseFFN(width, options.ffn_num_hiddens(), options.activation()));
  addnorm3 = norm("addnorm3");
}

torch::Tensor TransformerDecoderBlockImpl::CrossAttention(const torch::Tensor& Y, const torch::Tensor& encoder_outputs,
                                                          const torch::Tensor& encoder_valid_lens, DecoderBlockCache* cache) {
  if (cache == nullptr) return attention2(Y, encoder_outputs, encoder_outputs, encoder_valid_lens);
  return attention2->attend(Y, cache->cross, encoder_valid_lens);
}

torch::Tensor TransformerDecoderBlockImpl::forward(const torch::Tensor& X, const torch::Tensor& encoder_outputs,
                                                   const torch::Tensor& encoder_valid_lens, const torch::Tensor& valid_lens,
                                                   DecoderBlockCache* cache) {
  // First of all: encoder outputs that do not fit are refused before the steps are in the cache.
  if (cache != nullptr && !cache->cross.keys().defined()) attention2->append(encoder_outputs, encoder_outputs, cache->cross);
  const auto self_attention = [&](const at::Tensor& Y) {
    return attention1(Y, Y, Y, valid_lens, cache != nullptr ? &cache->self : nullptr);
  };
  const auto cross_attention = [&](const at::Tensor& Y) {
    return CrossAttention(Y, encoder_outputs, encoder_valid_lens, cache);
  };
  const at::Tensor Y = addnorm1->Residual(options.norm(), X, self_attention);
  const at::Tensor Z = addnorm2->Residual(options.norm(), Y, cross_attention);
  return ffn ? addnorm3->Residual(options.norm(), Z, [&](const at::Tensor& input) { return ffn(input); }) : Z;
}

void DecoderCache::truncate(int64_t length) {
  for (DecoderBlockCache& block : blocks) block.self.truncate(length);
}

void DecoderCache::reorder(const torch::Tensor& rows) {
  for (DecoderBlockCache& block : blocks) {
    block.self.reorder(rows);
    block.cross.reorder(rows);
  }
}

TransformerDecoderImpl::TransformerDecoderImpl(int64_t vocab_size, int64_t num_blks, TransformerDecoderBlockOptions block,
                                               int64_t max_len)
    : vocab_size_(vocab_size), num_blks_(num_blks), max_len_(max_len), block_(std::move(block)) {
  if (vocab_size < 1 || num_blks < 0) {
    Refuse("TransformerDecoder: expected vocab_size of at least 1 and num_blks of at least 0, got ", vocab_size, " and ",
           num_blks);
  }
  reset();
}

TransformerDecoderImpl::TransformerDecoderImpl(int64_t vocab_size, int64_t num_hiddens, int64_t ffn_num_hiddens,
                                               int64_t num_heads, int64_t num_blks, double dropout, bool use_bias)
    : TransformerDecoderImpl(
          vocab_size, num_blks,
          TransformerDecoderBlockOptions(num_hiddens, ffn_num_hiddens, num_heads).dropout(dropout).bias(use_bias)) {}

void TransformerDecoderImpl::reset() {
  const int64_t width = block_.num_hiddens();
  embedding = register_module("embedding", torch::nn::Embedding(vocab_size_, width));
  pos_encoding = register_module("pos_encoding", PositionalEncoding(width, block_.dropout(), max_len_));
  blks = register_module("blks", MakeBlockList());
  for (int64_t i = 0; i < num_blks_; ++i) blks->push_back("block" + std::to_string(i), TransformerDecoderBlock(block_));
  if (block_.norm() == Norm::kPre) {
    final_norm = register_module("final_norm", MakeLayerNorm(width, block_.layer_norm_eps()));
  }
  dense = register_module("dense", torch::nn::Linear(width, vocab_size_));
}

torch::Tensor TransformerDecoderImpl::forward(const torch::Tensor& tokens, const torch::Tensor& encoder_outputs,
                                              const torch::Tensor& encoder_valid_lens, const torch::Tensor& valid_lens,
                                              DecoderCache* cache) {
  if (!tokens.defined() || tokens.dim() != 2) {
    Refuse("TransformerDecoder: tokens: expected shape [batch, steps], got ", ShapeText(tokens));
  }
  if (cache != nullptr && cache->blocks.empty()) cache->blocks.resize(num_blks_);
  if (cache != nullptr && static_cast<int64_t>(cache->blocks.size()) != num_blks_) {
    Refuse("TransformerDecoder: cache: expected one for ", num_blks_, " blocks, got ", cache->blocks.size());
  }
  at::Tensor X = embedding(tokens) * std::sqrt(static_cast<double>(block_.num_hiddens()));
  X = pos_encoding(X, cache != nullptr ? cache->length() : 0);
  for (int64_t i = 0; i < num_blks_; ++i) {
    auto* block = blks->ptr(i)->as<TransformerDecoderBlockImpl>();
    X = block->forward(X, encoder_outputs, encoder_valid_lens, valid_lens, cache != nullptr ? &cache->blocks[i] : nullptr);
  }
  return dense(final_norm ? final_norm(X) : X);
}

std::vector<torch::Tensor> TransformerDecoderImpl::attention_weights() const {
  std::vector<torch::Tensor> weights;
  for (const auto& child : *blks) {
    const auto* block = child.ptr()->as<TransformerDecoderBlockImpl>();
    for (const MultiHeadAttention& attention : {block->attention1, block->attention2}) {
      if (attention->attention_weights().defined()) weights.push_back(attention->attention_weights());
    }
  }
  return weights;
}

}  // namespace heed::nn
