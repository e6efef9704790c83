// A model of characters: embedding, sequence encoder, head.
#ifndef HEED_LAB_TRAINING_LANGUAGE_MODEL_H_
#define HEED_LAB_TRAINING_LANGUAGE_MODEL_H_

#include <cstdint>
#include <memory>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include "heed/nn/encoders.h"
#include "lab/data/batches.h"
#include "lab/data/text.h"
#include "lab/training/options.h"

namespace heed::lab {

// Starts by InitialiseByWidth, with embeddings that enter the first layer with EmbeddingDeviation; convolutions and recurrent
// cells keep LibTorch's start. All is drawn from PyTorch's default generator.
class LanguageModelImpl : public torch::nn::Module {
 public:
  // beyond: what a learned table does at steps behind its last row, kError or kClamp; the other schemes reach everywhere.
  // Throws InvalidArgument that names the option.
  LanguageModelImpl(const ModelOptions& options, Vocabulary vocabulary, nn::LengthPolicy beyond = nn::LengthPolicy::kError);

  // tokens int64 [batch, steps] -> [batch, steps, width].
  at::Tensor forward(const at::Tensor& tokens);
  // The same for tokens behind those of earlier calls with the same caches, where the encoder can step.
  at::Tensor Step(const at::Tensor& tokens, nn::LayerCaches& caches);
  bool CanStep() const { return encoder_->CanStep(); }
  // hidden [..., width] -> [..., vocabulary].
  at::Tensor Logits(const at::Tensor& hidden);
  // Mean cross-entropy over the batch's predictions, in nats; 0 without any. Above 0, `penalty` weighs what the encoder adds.
  at::Tensor Loss(const Batch& batch, double penalty = 0);

  const ModelOptions& options() const { return options_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The token behind which the masked objective hides characters: one past the vocabulary.
  int32_t mask_symbol() const { return static_cast<int32_t>(vocabulary_.size()); }
  // The most steps the encoder takes; a learned table ends at its context unless it is clamped.
  int64_t longest() const;

 private:
  at::Tensor Embedded(const at::Tensor& tokens);

  ModelOptions options_;
  Vocabulary vocabulary_;
  nn::LengthPolicy beyond_;
  torch::nn::Embedding embedding_{nullptr};  // [vocabulary + 1, width] with the masked objective, else [vocabulary, width]
  std::shared_ptr<nn::SequenceEncoder> encoder_;
  torch::nn::Linear head_{nullptr};  // absent when tied
};
TORCH_MODULE(LanguageModel);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_LANGUAGE_MODEL_H_
