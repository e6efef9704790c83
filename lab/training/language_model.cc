#include "lab/training/language_model.h"

#include <cmath>
#include <limits>
#include <utility>

#include <torch/nn/functional/loss.h>

#include "heed/nn/structured_attention.h"
#include "lab/training/initialisation.h"

namespace heed::lab {
namespace {

nn::EncoderOptions EncoderOptionsOf(const ModelOptions& model, nn::LengthPolicy beyond) {
  nn::PositionOptions position;
  position.scheme = nn::ParsePositionScheme(model.position);
  position.max_len = model.context;
  position.max_distance = RelativeDistance(model);
  if (position.scheme == nn::PositionScheme::kSinusoidal) position.length_policy = nn::LengthPolicy::kExtend;
  if (position.scheme == nn::PositionScheme::kLearned) position.length_policy = beyond;
  return nn::EncoderOptions(model.width)
      .layers(model.layers)
      .ffn_width(FeedForwardWidth(model))
      .dropout(model.dropout)
      .causal(model.objective == Objective::kCausal)
      .bias(model.bias)
      .heads(model.heads)
      .position(position)
      .query_key_norm(ParseQueryKeyNorm(model.query_key_norm))
      .kernel(model.kernel);
}

// Of embeddings, beside a sinusoidal encoding: Vaswani et al. 2017, section 3.4.
double InputScale(const ModelOptions& model) {
  return model.position == "sinusoidal" ? std::sqrt(static_cast<double>(model.width)) : 1.0;
}

}  // namespace

LanguageModelImpl::LanguageModelImpl(const ModelOptions& options, Vocabulary vocabulary, nn::LengthPolicy beyond)
    : options_(options), vocabulary_(std::move(vocabulary)), beyond_(beyond) {
  Validate(options_);
  const int64_t symbols = vocabulary_.size() + (options_.objective == Objective::kMasked ? 1 : 0);
  embedding_ = register_module("embedding", torch::nn::Embedding(symbols, options_.width));
  encoder_ = register_module("encoder", nn::MakeEncoder(options_.encoder, EncoderOptionsOf(options_, beyond_)));
  if (!options_.tied) {
    head_ =
        register_module("head", torch::nn::Linear(torch::nn::LinearOptions(options_.width, vocabulary_.size()).bias(false)));
  }
  InitialiseByWidth(*this, options_.width, EmbeddingDeviation(options_.width) / InputScale(options_));
  if (options_.precision == "float64") to(at::kDouble);
}

at::Tensor LanguageModelImpl::Embedded(const at::Tensor& tokens) {
  const at::Tensor X = embedding_->forward(tokens);
  const double scale = InputScale(options_);
  return scale == 1 ? X : X * scale;
}

at::Tensor LanguageModelImpl::forward(const at::Tensor& tokens) { return encoder_->forward(Embedded(tokens)); }

at::Tensor LanguageModelImpl::Step(const at::Tensor& tokens, nn::LayerCaches& caches) {
  return encoder_->step(Embedded(tokens), caches);
}

at::Tensor LanguageModelImpl::Logits(const at::Tensor& hidden) {
  if (head_) return head_->forward(hidden);
  return at::linear(hidden, embedding_->weight.narrow(0, 0, vocabulary_.size()));
}

at::Tensor LanguageModelImpl::Loss(const Batch& batch, double penalty) {
  at::Tensor hidden = forward(batch.inputs).flatten(0, 1);
  if (batch.rows.defined()) hidden = hidden.index_select(0, batch.rows);
  const at::Tensor logits = Logits(hidden);
  const at::Tensor loss =
      batch.targets.numel() == 0 ? logits.sum() : torch::nn::functional::cross_entropy(logits, batch.targets);
  return penalty > 0 ? loss + penalty * nn::AnnotationPenalty(*encoder_) : loss;
}

int64_t LanguageModelImpl::longest() const {
  const bool ends = options_.position == "learned" && beyond_ != nn::LengthPolicy::kClamp;
  return ends ? options_.context : std::numeric_limits<int64_t>::max();
}

}  // namespace heed::lab
