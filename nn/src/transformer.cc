#include "heed/nn/transformer.h"

#include <cmath>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "linear.h"
#include "refuse.h"
#include "residual_layers.h"

namespace heed::nn {
namespace {

MultiHeadAttentionOptions AttentionOf(const TransformerEncoderBlockOptions& options) {
  return MultiHeadAttentionOptions(options.num_hiddens(), options.num_heads())
      .dropout(options.dropout())
      .bias(options.bias())
      .causal(options.causal())
      .empty_row(options.empty_row())
      .position(options.position())
      .query_key_norm(options.query_key_norm())
      .keep_attention_weights(options.keep_attention_weights());
}

}  // namespace

AddNormImpl::AddNormImpl(int64_t width, double dropout, double eps) : width_(width), probability_(dropout), eps_(eps) {
  reset();
}

void AddNormImpl::reset() {
  dropout = register_module("dropout", Dropout(probability_));
  ln = register_module("ln", MakeLayerNorm(width_, eps_));
}

torch::Tensor AddNormImpl::forward(const torch::Tensor& X, const torch::Tensor& Y) { return ln(dropout(Y) + X); }

PositionWiseFFNImpl::PositionWiseFFNImpl(int64_t width, int64_t ffn_num_hiddens, Activation activation, int64_t input_width)
    : width_(width),
      ffn_num_hiddens_(ffn_num_hiddens),
      input_width_(input_width == 0 ? width : input_width),
      activation_(activation) {
  reset();
}

void PositionWiseFFNImpl::reset() {
  dense1 = register_module("dense1", torch::nn::Linear(input_width_, ffn_num_hiddens_));
  dense2 = register_module("dense2", torch::nn::Linear(ffn_num_hiddens_, width_));
}

torch::Tensor PositionWiseFFNImpl::forward(const torch::Tensor& X) {
  const at::Tensor hidden = Activate(linear(X, dense1->weight, dense1->bias), activation_);
  return linear(hidden, dense2->weight, dense2->bias);
}

torch::Tensor Activate(const torch::Tensor& X, Activation activation) {
  if (activation == Activation::kRelu) return at::relu(X);
  return at::gelu(X, activation == Activation::kGeluTanh ? "tanh" : "none");
}

TransformerEncoderBlockImpl::TransformerEncoderBlockImpl(TransformerEncoderBlockOptions options_)
    : options(std::move(options_)) {
  if (options.ffn_num_hiddens() < 0) {
    Refuse("TransformerEncoderBlock: ffn_num_hiddens must be 0 or more, got ", options.ffn_num_hiddens());
  }
  reset();
}

TransformerEncoderBlockImpl::TransformerEncoderBlockImpl(int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_heads,
                                                         double dropout, bool use_bias)
    : TransformerEncoderBlockImpl(
          TransformerEncoderBlockOptions(num_hiddens, ffn_num_hiddens, num_heads).dropout(dropout).bias(use_bias)) {}

void TransformerEncoderBlockImpl::reset() {
  const int64_t width = options.num_hiddens();
  attention = register_module("attention", MultiHeadAttention(AttentionOf(options)));
  addnorm1 = register_module("addnorm1", AddNorm(width, options.dropout(), options.layer_norm_eps()));
  if (options.ffn_num_hiddens() == 0) return;
  ffn = register_module("ffn", PositionWiseFFN(width, options.ffn_num_hiddens(), options.activation()));
  addnorm2 = register_module("addnorm2", AddNorm(width, options.dropout(), options.layer_norm_eps()));
}

torch::Tensor TransformerEncoderBlockImpl::forward(const torch::Tensor& X, const torch::Tensor& valid_lens,
                                                   KeyValueCache* cache, const StepPositions& positions,
                                                   const AttentionMasks& masks) {
  const auto attend = [&](const at::Tensor& Y) { return attention(Y, Y, Y, valid_lens, cache, positions, masks); };
  const at::Tensor Y = addnorm1->Residual(options.norm(), X, attend);
  return ffn ? addnorm2->Residual(options.norm(), Y, [&](const at::Tensor& Z) { return ffn(Z); }) : Y;
}

TransformerEncoderImpl::TransformerEncoderImpl(int64_t vocab_size, int64_t num_blks, TransformerEncoderBlockOptions block,
                                               int64_t max_len)
    : vocab_size_(vocab_size), num_blks_(num_blks), max_len_(max_len), block_(std::move(block)) {
  if (vocab_size < 1 || num_blks < 0) {
    Refuse("TransformerEncoder: expected vocab_size of at least 1 and num_blks of at least 0, got ", vocab_size, " and ",
           num_blks);
  }
  reset();
}

TransformerEncoderImpl::TransformerEncoderImpl(int64_t vocab_size, int64_t num_hiddens, int64_t ffn_num_hiddens,
                                               int64_t num_heads, int64_t num_blks, double dropout, bool use_bias)
    : TransformerEncoderImpl(
          vocab_size, num_blks,
          TransformerEncoderBlockOptions(num_hiddens, ffn_num_hiddens, num_heads).dropout(dropout).bias(use_bias)) {}

void TransformerEncoderImpl::reset() {
  embedding = register_module("embedding", torch::nn::Embedding(vocab_size_, block_.num_hiddens()));
  pos_encoding = register_module("pos_encoding", PositionalEncoding(block_.num_hiddens(), block_.dropout(), max_len_));
  blks = register_module("blks", MakeBlockList());
  for (int64_t i = 0; i < num_blks_; ++i) blks->push_back("block" + std::to_string(i), TransformerEncoderBlock(block_));
  if (block_.norm() == Norm::kPre) {
    final_norm = register_module("final_norm", MakeLayerNorm(block_.num_hiddens(), block_.layer_norm_eps()));
  }
}

torch::Tensor TransformerEncoderImpl::forward(const torch::Tensor& tokens, const torch::Tensor& valid_lens) {
  if (!tokens.defined() || tokens.dim() != 2) {
    Refuse("TransformerEncoder: tokens: expected shape [batch, steps], got ", ShapeText(tokens));
  }
  at::Tensor X = pos_encoding(embedding(tokens) * std::sqrt(static_cast<double>(block_.num_hiddens())));
  for (const auto& block : *blks) X = block.ptr()->as<TransformerEncoderBlockImpl>()->forward(X, valid_lens);
  return final_norm ? final_norm(X) : X;
}

std::vector<torch::Tensor> TransformerEncoderImpl::attention_weights() const {
  std::vector<torch::Tensor> weights;
  for (const auto& block : *blks) {
    const torch::Tensor& last = block.ptr()->as<TransformerEncoderBlockImpl>()->attention->attention_weights();
    if (last.defined()) weights.push_back(last);
  }
  return weights;
}

}  // namespace heed::nn
