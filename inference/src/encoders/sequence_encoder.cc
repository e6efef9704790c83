#include "encoders/sequence_encoder.h"

#include <algorithm>
#include <utility>

#include "heed/error.h"
#include "heed/shown_name.h"

namespace heed {
namespace {

using Make = std::unique_ptr<SequenceEncoder> (*)(const EncoderOptions&);

constexpr std::pair<const char*, Make> kEncoders[] = {
    {"attention", MakeAttentionEncoder},
    {"convolution", MakeConvolutionEncoder},
    {"dilated", MakeConvolutionEncoder},
    {"rnn", MakeRecurrentEncoder},
    {"gru", MakeRecurrentEncoder},
    {"lstm", MakeRecurrentEncoder},
    {"gru-attention", MakeRecurrentEncoder},
    {"decomposable", MakeAttentionEncoder},
    {"self-attentive", MakeRecurrentEncoder},
    {"lstmn", MakeOneWayEncoder},
    {"intra-decoder", MakeOneWayEncoder},
    {"linear", MakeOneWayEncoder},
    {"retention", MakeOneWayEncoder},
    {"mamba2", MakeOneWayEncoder},
    {"gated-delta", MakeOneWayEncoder},
};

struct NamedPosition {
  const char* name;
  AttentionPosition (*make)(int64_t max_distance, bool causal);
};

template <class Position>
AttentionPosition WithoutSizes(int64_t /*max_distance*/, bool /*causal*/) {
  return Position{};
}
template <class Position>
AttentionPosition WithDistance(int64_t max_distance, bool /*causal*/) {
  return Position{max_distance};
}

constexpr NamedPosition kPositions[] = {
    {"none", WithoutSizes<std::monostate>},
    {"sinusoidal", WithoutSizes<std::monostate>},
    {"learned", WithoutSizes<std::monostate>},
    {"rotary", WithoutSizes<RotaryPosition>},
    {"alibi", WithoutSizes<AlibiPosition>},
    {"relative", WithDistance<RelativeBiasPosition>},
    {"t5",
     [](int64_t max_distance, bool causal) -> AttentionPosition {
       T5Options options;
       options.max_distance = max_distance;
       options.bidirectional = !causal;
       return T5Position{options};
     }},
    {"shaw", WithDistance<ShawPosition>},
    {"kerple", WithoutSizes<KerplePosition>},
    {"kerple_power", [](int64_t, bool) -> AttentionPosition { return KerplePosition{KerpleKind::kPower}; }},
    {"sandwich", WithoutSizes<SandwichPosition>},
    {"fire", WithoutSizes<FirePosition>},
    {"temperature", WithoutSizes<TemperaturePosition>},
    {"sinusoidal_bias", WithoutSizes<SinusoidalBiasPosition>},
    {"transformer_xl", WithDistance<TransformerXlPosition>},
    {"xpos", WithoutSizes<XPosPosition>},
    {"deberta", WithDistance<DebertaPosition>},
    {"cope", WithDistance<CopePosition>},
};

}  // namespace

std::unique_ptr<SequenceEncoder> MakeEncoder(const EncoderOptions& options) {
  std::string names;
  for (const auto& [name, make] : kEncoders) {
    if (options.encoder != name) {
      names += (names.empty() ? "" : ", ") + std::string(name);
      continue;
    }
    if (options.encoder != "attention" && options.position != "none")
      throw InvalidArgument("position: " + QuotedName(options.position) + " needs the attention encoder; " + options.encoder +
                            " takes none");
    return make(options);
  }
  throw InvalidArgument("encoder: " + QuotedName(options.encoder) + " is unknown; expected one of " + names);
}

AttentionPosition PositionNamed(const std::string& name, int64_t max_distance, bool causal) {
  std::string names;
  for (const NamedPosition& position : kPositions) {
    if (name == position.name) return position.make(max_distance, causal);
    names += (names.empty() ? "" : ", ") + std::string(position.name);
  }
  throw InvalidArgument("position: " + QuotedName(name) + " is unknown; expected one of " + names);
}

QueryKeyNorm QueryKeyNormNamed(const std::string& name) {
  if (name == "none") return QueryKeyNorm::kNone;
  if (name == "l2") return QueryKeyNorm::kL2;
  if (name == "rms") return QueryKeyNorm::kRms;
  throw InvalidArgument("query_key_norm: " + QuotedName(name) + " is unknown; expected one of none, l2, rms");
}

View<float, 2> AllRows(View<float, 3> X) {
  return View<float, 2>::Contiguous(X.data, {X.extent[0] * X.extent[1], X.extent[2]});
}

void Blank(View<float, 3> X, const int64_t* lengths) {
  if (lengths == nullptr) return;
  for (int64_t row = 0; row < X.extent[0]; ++row) {
    float* const first = X.data + row * X.stride[0];
    std::fill(first + lengths[row] * X.stride[1], first + X.extent[1] * X.stride[1], 0.0f);
  }
}

Lengths LengthsOf(View<float, 3> X, const EncoderCall& call) {
  return call.lengths == nullptr ? Lengths() : Lengths::PerBatch(call.lengths, X.extent[0]);
}

}  // namespace heed
