#include "heed/nn/encoders.h"

#include <cstddef>
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

int64_t Dilation(const EncoderOptions& options, int64_t layer) {
  int64_t dilation = 1;
  for (int64_t l = 0; options.dilated() && l < layer; ++l) {
    if (__builtin_mul_overflow(dilation, options.kernel(), &dilation) || dilation > (int64_t{1} << 40)) {
      Refuse("ConvolutionEncoder: layers (", options.layers(), ") and kernel (", options.kernel(),
             ") make a dilation that is too large");
    }
  }
  return dilation;
}

torch::nn::Conv1d MakeConvolution(const EncoderOptions& options, int64_t layer) {
  return torch::nn::Conv1d(torch::nn::Conv1dOptions(options.width(), options.width(), options.kernel())
                               .dilation(Dilation(options, layer))
                               .bias(options.bias()));
}

DecomposableAttentionOptions LayerOptions(const EncoderOptions& options) {
  return DecomposableAttentionOptions(options.width(), options.heads())
      .max_distance(options.position().max_distance)
      .activation(options.activation())
      .dropout(options.dropout())
      .causal(options.causal() ? Causal::kBottomRight : Causal::kNone);
}

template <class Encoder>
std::shared_ptr<SequenceEncoder> Make(EncoderOptions options) {
  return std::make_shared<Encoder>(std::move(options));
}

struct NamedEncoder {
  const char* name;
  bool has_heads;
  std::shared_ptr<SequenceEncoder> (*make)(EncoderOptions options);
};

constexpr NamedEncoder kEncoders[] = {
    {"attention", true, Make<AttentionEncoderImpl>},
    {"convolution", false, Make<ConvolutionEncoderImpl>},
    {"dilated", false, Make<ConvolutionEncoderImpl>},
    {"rnn", false, Make<RecurrentEncoderImpl>},
    {"gru", false, Make<RecurrentEncoderImpl>},
    {"lstm", false, Make<RecurrentEncoderImpl>},
    {"gru-attention", true, Make<RecurrentAttentionEncoderImpl>},
    {"decomposable", true, Make<DecomposableEncoderImpl>},
    {"self-attentive", true, Make<SelfAttentiveEncoderImpl>},
    {"lstmn", false, Make<LstmnEncoderImpl>},
    {"intra-decoder", false, Make<IntraDecoderEncoderImpl>},
    {"linear", true, Make<LinearEncoderImpl>},
    {"retention", true, Make<LinearEncoderImpl>},
    {"mamba2", true, Make<LinearEncoderImpl>},
    {"gated-delta", true, Make<LinearEncoderImpl>},
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

ConvolutionEncoderImpl::ConvolutionEncoderImpl(EncoderOptions options_)
    : ResidualEncoder("ConvolutionEncoder", std::move(options_)) {
  if (options.kernel() < 1 || (!options.causal() && options.kernel() % 2 == 0)) {
    Refuse("ConvolutionEncoder: kernel must be positive, and odd unless causal, got ", options.kernel());
  }
  for (int64_t l = 0; l < options.layers(); ++l) {
    convolutions.push_back(register_module("convolution" + std::to_string(l), MakeConvolution(options, l)));
  }
  AddNormsAndFfns();
}

torch::Tensor ConvolutionEncoderImpl::Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) {
  const int64_t reach = (options.kernel() - 1) * Dilation(options, static_cast<int64_t>(layer));
  const int64_t left = options.causal() ? reach : reach / 2;
  const at::Tensor padded = at::constant_pad_nd(Blank(X, rows.padding).transpose(1, 2), {left, reach - left});
  return Activate(convolutions[layer](padded).transpose(1, 2), options.activation());
}

DecomposableEncoderImpl::DecomposableEncoderImpl(EncoderOptions options_)
    : ResidualEncoder("DecomposableEncoder", std::move(options_), /*in_parts=*/true) {
  for (int64_t l = 0; l < options.layers(); ++l) {
    attentions.push_back(register_module("attention" + std::to_string(l), DecomposableAttention(LayerOptions(options))));
  }
  AddNormsAndFfns();
}

torch::Tensor DecomposableEncoderImpl::Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) {
  return attentions[layer](X, rows.lengths);
}

torch::Tensor DecomposableEncoderImpl::step(const torch::Tensor& X, LayerCaches& caches) {
  if (!CanStep()) return SequenceEncoder::step(X, caches);
  CheckInput("DecomposableEncoder", X, options.width());
  CheckCaches("DecomposableEncoder", caches, attentions.size());
  return Layers(X, [&](size_t l, const at::Tensor& Y) { return attentions[l](Y, at::Tensor(), &caches[l]); });
}

std::vector<std::string> EncoderNames() {
  std::vector<std::string> names;
  for (const NamedEncoder& encoder : kEncoders) names.emplace_back(encoder.name);
  return names;
}

bool HasHeads(const std::string& encoder) { return EncoderNamed(encoder).has_heads; }

std::shared_ptr<SequenceEncoder> MakeEncoder(const std::string& name, EncoderOptions options) {
  const NamedEncoder& encoder = EncoderNamed(name);
  // What a name decides; encoders of other kinds do not read it.
  options.dilated(name == "dilated").cell(name == "gru-attention" ? "gru" : name).mixer(name);
  return encoder.make(std::move(options));
}

}  // namespace heed::nn
