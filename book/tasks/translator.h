// An encoder and a Transformer decoder with cross-attention: one sequence of tokens written after another.
#ifndef HEED_BOOK_TASKS_TRANSLATOR_H_
#define HEED_BOOK_TASKS_TRANSLATOR_H_

#include <cstdint>
#include <memory>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

#include "heed/nn/encoders.h"
#include "heed/nn/transformer.h"
#include "heed/nn/transformer_decoder.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {

struct TranslatorOptions {
  SequenceModelOptions encoder;  // of tokens, not causal; `outputs` are the decoder's symbols
  int64_t longest_output = 64;   // steps that the decoder's own positions reach
};

// Pre-norm throughout. The decoder's blocks are those of nn::TransformerDecoder with sinusoidal positions of their own,
// whatever the encoder is; it is started by a symbol behind its alphabet.
class TranslatorImpl : public torch::nn::Module {
 public:
  explicit TranslatorImpl(TranslatorOptions options);

  // tokens int64 [batch, n], answer int64 [batch, m] -> logits [batch, m, outputs] of each step of the answer after those
  // before it.
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& answer);
  // int64 [batch, n]: n steps, each the most likely symbol after those that were written before it. For inference. Throws
  // Divergence where the scores of symbols are not finite.
  at::Tensor Write(const at::Tensor& tokens);
  int64_t longest() const;

 private:
  at::Tensor Encoded(const at::Tensor& tokens);
  at::Tensor StartSymbols(int64_t batch) const;  // [batch, 1]

  TranslatorOptions options_;
  nn::TransformerEncoder transformer_{nullptr};  // attention with sinusoidal positions
  torch::nn::Embedding embedding_{nullptr};      // the others
  std::shared_ptr<nn::SequenceEncoder> encoder_;
  nn::TransformerDecoder decoder_{nullptr};
};
TORCH_MODULE(Translator);

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_TRANSLATOR_H_
