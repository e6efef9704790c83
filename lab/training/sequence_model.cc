#include "lab/training/sequence_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/scheme_formulas.h"
#include "lab/training/initialisation.h"
#include "lab/training/options.h"

namespace heed::lab {
namespace {

// [batch, steps, width] -> [batch, width], without the padding; what stands there may be anything.
at::Tensor Mean(const at::Tensor& X, const at::Tensor& valid_lens) {
  if (!valid_lens.defined()) return X.mean(1);
  const at::Tensor padding = at::arange(X.size(1), valid_lens.options()).ge(valid_lens.unsqueeze(1));
  return X.masked_fill(padding.unsqueeze(2), 0.0).sum(1) / valid_lens.unsqueeze(1);
}

}  // namespace

Fields FieldsOf(SequenceModelOptions& model) {
  constexpr int64_t kMostLayers = 1024, kMostWidth = 1 << 16, kMostSteps = 1 << 20;
  return {Names("encoder", &model.encoder, EncoderNames(), "Encoder"),
          Names("position", &model.position, PositionSchemeNames(), "Positional scheme"),
          Switch("causal", model.causal, "Whether steps see those before them alone"),
          Whole("symbols", &model.symbols, 0, kMostSteps, "Different tokens"),
          Whole("features", &model.features, 0, kMostSteps, "Numbers a step"),
          Whole("outputs", &model.outputs, 1, kMostSteps, "Classes or numbers"),
          Switch("pooled", model.pooled, "Whether a row has one answer"),
          Whole("layers", &model.layers, 1, kMostLayers, "Layers"),
          Whole("heads", &model.heads, 1, kMostWidth, "Heads"),
          Whole("width", &model.width, 1, kMostWidth, "Features of a step"),
          Whole("ffn_width", &model.ffn_width, 0, 4 * kMostWidth, "Width of the feed-forward sublayer"),
          Names("query_key_norm", &model.query_key_norm, QueryKeyNormNames(), "Norm of queries and keys"),
          Whole("longest", &model.longest, 1, kMostSteps, "Rows of a learned table")};
}

nn::EncoderOptions EncoderOptionsOf(const SequenceModelOptions& model) {
  constexpr int64_t kLeastT5Distance = 17;  // half of a causal side's buckets hold one distance each
  nn::PositionOptions position;
  position.scheme = nn::ParsePositionScheme(model.position);
  position.max_len = model.longest;
  position.max_distance = std::max<int64_t>(model.position == "t5" ? kLeastT5Distance : 1, model.longest);
  if (position.scheme == nn::PositionScheme::kSinusoidal) position.length_policy = nn::LengthPolicy::kExtend;
  return nn::EncoderOptions(model.width)
      .layers(model.layers)
      .ffn_width(model.ffn_width)
      .causal(model.causal)
      .bias(true)
      .heads(model.heads)
      .position(position)
      .query_key_norm(ParseQueryKeyNorm(model.query_key_norm));
}

SequenceModelImpl::SequenceModelImpl(SequenceModelOptions options) : options_(std::move(options)) {
  if (options_.encoder != "attention" && options_.position != "none") {
    throw InvalidArgument("position: '" + options_.position + "' needs the attention encoder; " + options_.encoder +
                          " takes none");
  }
  if ((options_.symbols > 0) == (options_.features > 0) || options_.outputs < 1) {
    throw InvalidArgument(
        fmt::format("sequence model: expected either symbols or features, and outputs of at least 1, got {}, {} and {}",
                    options_.symbols, options_.features, options_.outputs));
  }
  if (options_.symbols > 0) {
    embedding_ = register_module("embedding", torch::nn::Embedding(options_.symbols, options_.width));
  } else {
    input_ = register_module("input", torch::nn::Linear(options_.features, options_.width));
  }
  encoder_ = register_module("encoder", nn::MakeEncoder(options_.encoder, EncoderOptionsOf(options_)));
  head_ = register_module("head", torch::nn::Linear(options_.width, options_.outputs));
  InitialiseByWidth(*this, options_.width, EmbeddingDeviation(options_.width));
  if (input_) {
    const at::NoGradGuard no_grad;
    const double scale = EmbeddingDeviation(options_.width) / InitialDeviation(options_.width);
    input_->weight.mul_(scale / std::sqrt(static_cast<double>(options_.features)));
  }
}

at::Tensor SequenceModelImpl::forward(const at::Tensor& X, const at::Tensor& valid_lens, const at::Tensor& times) {
  at::Tensor Y = embedding_ ? embedding_->forward(X) : input_->forward(X);
  auto* attention = times.defined() ? encoder_->as<nn::AttentionEncoderImpl>() : nullptr;
  Y = attention != nullptr ? EncodeAt(*attention, Y, times, valid_lens) : encoder_->forward(Y, valid_lens);
  return head_->forward(options_.pooled ? Mean(Y, valid_lens) : Y);
}

int64_t SequenceModelImpl::longest() const {
  return options_.position == "learned" ? options_.longest : std::numeric_limits<int64_t>::max();
}

int64_t ParameterCount(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const at::Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

at::Tensor EncodeAt(nn::AttentionEncoderImpl& encoder, const at::Tensor& X, const at::Tensor& times,
                    const at::Tensor& valid_lens) {
  const nn::PositionScheme scheme = encoder.options.position().scheme;
  const bool inside = TakesTimes(nn::ToString(scheme)) && !nn::AddsToInput(scheme);
  at::Tensor padding;
  if (valid_lens.defined()) padding = at::arange(X.size(1), valid_lens.options()).ge(valid_lens.unsqueeze(1)).unsqueeze(2);
  const auto blank = [&](const at::Tensor& some) { return padding.defined() ? some.masked_fill(padding, 0.0) : some; };
  at::Tensor Y = blank(X);
  if (encoder.sinusoidal) Y = encoder.sinusoidal(Y, 0, times);
  if (encoder.learned) Y = encoder.learned(Y);
  const nn::StepPositions positions = inside ? nn::StepPositions{times, times} : nn::StepPositions{};
  for (nn::TransformerEncoderBlock& block : encoder.blocks) Y = block(Y, valid_lens, nullptr, positions);
  return blank(encoder.final_norm ? encoder.final_norm(Y) : Y);
}

}  // namespace heed::lab
