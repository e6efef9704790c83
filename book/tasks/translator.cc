#include "book/tasks/translator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lab/training/fit.h"
#include "lab/training/initialisation.h"
#include "lab/training/options.h"

namespace heed::lab {
namespace {

// What the blocks of both sides have in common.
template <class Block>
Block BlockOptions(const SequenceModelOptions& model, int64_t ffn_width) {
  Block block(model.width, ffn_width, model.heads);
  block.norm(nn::Norm::kPre).activation(nn::Activation::kGelu).bias(true);
  return block;
}

}  // namespace

TranslatorImpl::TranslatorImpl(TranslatorOptions options) : options_(std::move(options)) {
  const SequenceModelOptions& model = options_.encoder;
  const int64_t reach = std::max(options_.longest_output, model.longest) + 1;
  if (model.encoder == "attention" && model.position == "sinusoidal") {
    auto block = BlockOptions<nn::TransformerEncoderBlockOptions>(model, model.ffn_width);
    block.query_key_norm(ParseQueryKeyNorm(model.query_key_norm));
    transformer_ = register_module("transformer", nn::TransformerEncoder(model.symbols, model.layers, block, reach));
  } else {
    embedding_ = register_module("embedding", torch::nn::Embedding(model.symbols, model.width));
    encoder_ = register_module("encoder", nn::MakeEncoder(model.encoder, EncoderOptionsOf(model)));
  }
  decoder_ = register_module(
      "decoder", nn::TransformerDecoder(model.outputs + 1, model.layers,
                                        BlockOptions<nn::TransformerDecoderBlockOptions>(model, 2 * model.width), reach));
  InitialiseByWidth(*this, model.width, InitialDeviation(model.width));
}

at::Tensor TranslatorImpl::Encoded(const at::Tensor& tokens) {
  return transformer_ ? transformer_->forward(tokens) : encoder_->forward(embedding_->forward(tokens));
}

at::Tensor TranslatorImpl::StartSymbols(int64_t batch) const {
  return at::full({batch, 1}, options_.encoder.outputs, at::TensorOptions().dtype(at::kLong));
}

at::Tensor TranslatorImpl::forward(const at::Tensor& tokens, const at::Tensor& answer) {
  const at::Tensor before = at::cat({StartSymbols(answer.size(0)), answer.narrow(1, 0, answer.size(1) - 1)}, 1);
  return decoder_->forward(before, Encoded(tokens)).narrow(2, 0, options_.encoder.outputs);
}

at::Tensor TranslatorImpl::Write(const at::Tensor& tokens) {
  const at::NoGradGuard no_grad;
  const at::Tensor memory = Encoded(tokens);
  nn::DecoderCache cache;
  std::vector<at::Tensor> written = {StartSymbols(tokens.size(0))};
  for (int64_t i = 0; i < tokens.size(1); ++i) {
    const at::Tensor logits = decoder_->forward(written.back(), memory, {}, {}, &cache);
    RequireFinite("evaluation", {{"answers", logits}});
    written.push_back(logits.narrow(2, 0, options_.encoder.outputs).argmax(2));
  }
  written.erase(written.begin());
  return at::cat(written, 1);
}

int64_t TranslatorImpl::longest() const {
  const int64_t decoder = std::max(options_.longest_output, options_.encoder.longest);
  return options_.encoder.position == "learned" ? options_.encoder.longest : decoder;
}

}  // namespace heed::lab
