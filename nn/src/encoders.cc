#include "heed/nn/encoders.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "heed/nn/attention_models.h"
#include "heed/nn/dropout.h"
#include "heed/nn/linear_encoders.h"
#include "refuse.h"
#include "residual_layers.h"
#include "sequence.h"
#include "valid_lens.h"

namespace heed::nn {
namespace {

TransformerEncoderBlockOptions BlockOptions(const EncoderOptions& options) {
  TransformerEncoderBlockOptions block(options.width(), options.ffn_width(), options.heads());
  block.dropout(options.dropout()).bias(options.bias()).norm(options.norm()).activation(options.activation());
  block.layer_norm_eps(options.layer_norm_eps()).keep_attention_weights(options.keep_attention_weights());
  block.causal(options.causal() ? Causal::kBottomRight : Causal::kNone);
  block.query_key_norm(options.query_key_norm());
  if (!AddsToInput(options.position().scheme)) block.position(options.position());
  return block;
}

template <class Encoder>
std::shared_ptr<SequenceEncoder> Make(const std::string& /*name*/, EncoderOptions options) {
  return std::make_shared<Encoder>(std::move(options));
}

std::shared_ptr<SequenceEncoder> MakeConvolutional(const std::string& name, EncoderOptions options) {
  return std::make_shared<ConvolutionEncoderImpl>(std::move(options.dilated(name == "dilated")));
}

std::shared_ptr<SequenceEncoder> MakeRecurrent(const std::string& name, EncoderOptions options) {
  return std::make_shared<RecurrentEncoderImpl>(std::move(options.cell(name)));
}

std::shared_ptr<SequenceEncoder> MakeGruAttention(const std::string& /*name*/, EncoderOptions options) {
  return std::make_shared<RecurrentAttentionEncoderImpl>(std::move(options.cell("gru")));
}

std::shared_ptr<SequenceEncoder> MakeLinear(const std::string& name, EncoderOptions options) {
  return std::make_shared<LinearEncoderImpl>(std::move(options.mixer(name)));
}

struct NamedEncoder {
  const char* name;
  bool has_heads;
  std::shared_ptr<SequenceEncoder> (*make)(const std::string& name, EncoderOptions options);
};

constexpr NamedEncoder kEncoders[] = {
    {"attention", true, Make<AttentionEncoderImpl>},
    {"convolution", false, MakeConvolutional},
    {"dilated", false, MakeConvolutional},
    {"rnn", false, MakeRecurrent},
    {"gru", false, MakeRecurrent},
    {"lstm", false, MakeRecurrent},
    {"gru-attention", true, MakeGruAttention},
    {"decomposable", true, Make<DecomposableEncoderImpl>},
    {"self-attentive", true, Make<SelfAttentiveEncoderImpl>},
    {"lstmn", false, Make<LstmnEncoderImpl>},
    {"intra-decoder", false, Make<IntraDecoderEncoderImpl>},
    {"linear", true, MakeLinear},
    {"retention", true, MakeLinear},
    {"mamba2", true, MakeLinear},
    {"gated-delta", true, MakeLinear},
};

const NamedEncoder& EncoderNamed(const std::string& name) {
  std::string names;
  for (const NamedEncoder& encoder : kEncoders) {
    if (name == encoder.name) return encoder;
    names += std::string(names.empty() ? "" : ", ") + encoder.name;
  }
  Refuse("encoder: '", name, "' is unknown; expected one of ", names);
}

}  // namespace

torch::Tensor SequenceEncoder::step(const torch::Tensor&, LayerCaches&) {
  throw InvalidArgument(
      "step: this encoder cannot go on from a cache; only causal attention without recurrence and encoders in linear time can");
}

AttentionEncoderImpl::AttentionEncoderImpl(EncoderOptions options_) : options(std::move(options_)) {
  CheckOptions("AttentionEncoder", options);
  const PositionOptions& position = options.position();
  if (position.scheme == PositionScheme::kSinusoidal) {
    sinusoidal =
        register_module("sinusoidal", PositionalEncoding(options.width(), 0.0, position.max_len, position.length_policy));
  } else if (position.scheme == PositionScheme::kLearned) {
    learned = register_module("learned", LearnedPositions(options.width(), 0.0, position.max_len, position.length_policy));
  }
  for (int64_t l = 0; l < options.layers(); ++l) {
    blocks.push_back(register_module("block" + std::to_string(l), TransformerEncoderBlock(BlockOptions(options))));
  }
  if (options.norm() == Norm::kPre)
    final_norm = register_module("final_norm", MakeLayerNorm(options.width(), options.layer_norm_eps()));
}

torch::Tensor AttentionEncoderImpl::forward(const torch::Tensor& X, const torch::Tensor& valid_lens, int64_t offset) {
  CheckInput("AttentionEncoder", X, options.width());
  const at::Tensor lengths = ClampValidLens(valid_lens, X.size(0), -1, StepsOfSequence(X.size(1)));
  const at::Tensor padding = Padding(lengths, X.size(1));
  at::Tensor Y = Input(Blank(X, padding), offset);
  for (auto& block : blocks) Y = block(Y, lengths);
  return Blank(final_norm ? final_norm(Y) : Y, padding);
}

torch::Tensor AttentionEncoderImpl::step(const torch::Tensor& X, LayerCaches& caches) {
  if (!CanStep()) return SequenceEncoder::step(X, caches);
  CheckInput("AttentionEncoder", X, options.width());
  CheckCaches("AttentionEncoder", caches, blocks.size());
  at::Tensor Y = Input(X, caches.length());
  for (std::size_t l = 0; l < blocks.size(); ++l) Y = blocks[l](Y, at::Tensor(), &caches[l]);
  return final_norm ? final_norm(Y) : Y;
}

torch::Tensor AttentionEncoderImpl::Input(const torch::Tensor& X, int64_t offset) {
  at::Tensor Y = X;
  if (sinusoidal) Y = sinusoidal(Y, offset);
  if (learned) Y = learned(Y, offset);
  return drop_elements(Y, options.dropout(), is_training());
}

std::vector<torch::Tensor> AttentionEncoderImpl::attention_weights() const {
  std::vector<torch::Tensor> weights;
  for (const auto& block : blocks) {
    const torch::Tensor& last = block->attention->attention_weights();
    if (last.defined()) weights.push_back(last);
  }
  return weights;
}

std::vector<std::string> EncoderNames() {
  std::vector<std::string> names;
  for (const NamedEncoder& encoder : kEncoders) names.emplace_back(encoder.name);
  return names;
}

bool HasHeads(const std::string& encoder) { return EncoderNamed(encoder).has_heads; }

std::shared_ptr<SequenceEncoder> MakeEncoder(const std::string& name, EncoderOptions options) {
  return EncoderNamed(name).make(name, std::move(options));
}
}  // namespace heed::nn
