// One model for sequences of tokens or of numbers: input adaptor, sequence encoder, head.
#ifndef HEED_LAB_TRAINING_SEQUENCE_MODEL_H_
#define HEED_LAB_TRAINING_SEQUENCE_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include "heed/nn/encoders.h"
#include "lab/options/fields.h"

namespace heed::lab {

struct SequenceModelOptions {
  std::string encoder = "attention";  // a name that nn::MakeEncoder knows
  std::string position = "none";      // of nn::PositionSchemeNames(); the other encoders take none only
  bool causal = false;                // step i sees steps 0..i only
  int64_t symbols = 0;                // inputs are tokens 0..symbols-1; 0: they are vectors of `features` numbers
  int64_t features = 0;
  int64_t outputs = 1;  // of the head: classes, or numbers
  bool pooled = false;  // the head reads the mean over a row's steps, else every step
  int64_t layers = 1, heads = 4, width = 32, ffn_width = 0;
  std::string query_key_norm = "none";  // a name that ParseQueryKeyNorm knows; of the attention encoder alone
  int64_t longest = 64;                 // rows of a learned table; offsets of other schemes are told apart up to here
};

// By their names in the settings of a kept model.
Fields FieldsOf(SequenceModelOptions& model);

// Options of the encoder within: pre-norm, projections with a bias; a sinusoidal encoding is computed to any length.
nn::EncoderOptions EncoderOptionsOf(const SequenceModelOptions& model);

// Starts by InitialiseByWidth, where tokens, and standardised numbers, enter the first layer with EmbeddingDeviation;
// convolutions and recurrent cells keep LibTorch's start. All is drawn from PyTorch's default generator.
class SequenceModelImpl : public torch::nn::Module {
 public:
  // Throws InvalidArgument that names the option.
  explicit SequenceModelImpl(SequenceModelOptions options);

  // X: int64 [batch, steps], or float [batch, steps, features]; valid_lens undefined or int64 [batch], at least 1 each.
  // times undefined or float64 [batch, steps]: where the steps stand for attention, see EncodeAt; other encoders take them in
  // their order alone. -> [batch, steps, outputs], or pooled [batch, outputs].
  at::Tensor forward(const at::Tensor& X, const at::Tensor& valid_lens = {}, const at::Tensor& times = {});

  const SequenceModelOptions& options() const { return options_; }
  // The most steps that it takes; a learned table ends.
  int64_t longest() const;

 private:
  SequenceModelOptions options_;
  torch::nn::Embedding embedding_{nullptr};  // of tokens
  torch::nn::Linear input_{nullptr};         // of numbers
  std::shared_ptr<nn::SequenceEncoder> encoder_;
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(SequenceModel);

int64_t ParameterCount(const torch::nn::Module& module);

// The encoder's forward pass, with its own parameters, where step i of row b stands at times[b, i]: sinusoidal encodings and
// rotations are those of the times, and ALiBi's distances are differences of times; a causal encoder sees the steps whose time
// is not later. Schemes that do not take times (heed/scheme_formulas.h) are given the steps' numbers. X [batch, steps, width],
// times float64 [batch, steps], valid_lens undefined or int64 [batch] -> [batch, steps, width].
at::Tensor EncodeAt(nn::AttentionEncoderImpl& encoder, const at::Tensor& X, const at::Tensor& times,
                    const at::Tensor& valid_lens = {});

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_SEQUENCE_MODEL_H_
