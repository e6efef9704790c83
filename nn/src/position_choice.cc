#include "heed/nn/position_choice.h"

#include <array>
#include <string>

#include "heed/nn/rotations.h"
#include "heed/nn/score_functions.h"
#include "heed/nn/score_terms.h"
#include "heed/option_names.h"
#include "refuse.h"

namespace heed {

template <>
inline constexpr auto kChoices<nn::PositionScheme> = std::to_array<ChoiceName<nn::PositionScheme>>({
    {"none", nn::PositionScheme::kNone},
    {"sinusoidal", nn::PositionScheme::kSinusoidal},
    {"learned", nn::PositionScheme::kLearned},
    {"rotary", nn::PositionScheme::kRotary},
    {"alibi", nn::PositionScheme::kAlibi},
    {"relative", nn::PositionScheme::kRelativeBias},
    {"t5", nn::PositionScheme::kT5},
    {"shaw", nn::PositionScheme::kShaw},
    {"kerple", nn::PositionScheme::kKerple},
    {"kerple_power", nn::PositionScheme::kKerplePower},
    {"sandwich", nn::PositionScheme::kSandwich},
    {"fire", nn::PositionScheme::kFire},
    {"temperature", nn::PositionScheme::kTemperature},
    {"sinusoidal_bias", nn::PositionScheme::kSinusoidalBias},
    {"transformer_xl", nn::PositionScheme::kTransformerXl},
    {"xpos", nn::PositionScheme::kXPos},
    {"deberta", nn::PositionScheme::kDeberta},
    {"cope", nn::PositionScheme::kCope},
});

namespace nn {

std::vector<std::string> PositionSchemeNames() {
  std::vector<std::string> names;
  for (const auto& known : kChoices<PositionScheme>) names.emplace_back(known.name);
  return names;
}

PositionScheme ParsePositionScheme(const std::string& name) { return ChoiceNamed<PositionScheme>("position", name); }

std::string ToString(PositionScheme scheme) {
  for (const auto& known : kChoices<PositionScheme>)
    if (known.choice == scheme) return std::string(known.name);
  Refuse("position: not a scheme: ", static_cast<int>(scheme));
}

bool AddsToInput(PositionScheme scheme) { return scheme == PositionScheme::kSinusoidal || scheme == PositionScheme::kLearned; }

bool NeedsCausal(PositionScheme scheme) { return scheme == PositionScheme::kXPos; }

bool TurnsPairs(PositionScheme scheme) { return scheme == PositionScheme::kRotary || scheme == PositionScheme::kXPos; }

std::shared_ptr<AttentionPosition> MakeAttentionPosition(const PositionOptions& options, int64_t heads, int64_t head_dim,
                                                         bool causal) {
  if (NeedsCausal(options.scheme) && !causal)
    Refuse("position: '", ToString(options.scheme), "' needs causal attention: it would grow towards later keys");
  switch (options.scheme) {
    case PositionScheme::kNone:
      return nullptr;
    case PositionScheme::kRotary:
      return Rotary(head_dim, options.rotary, options.rotary_layout).ptr();
    case PositionScheme::kAlibi:
      return Alibi(heads).ptr();
    case PositionScheme::kRelativeBias:
      return RelativeBias(heads, options.max_distance).ptr();
    case PositionScheme::kT5:
      return T5Bias(heads, T5Options{options.buckets, options.max_distance, /*bidirectional=*/!causal}).ptr();
    case PositionScheme::kShaw:
      return Shaw(head_dim, options.max_distance).ptr();
    case PositionScheme::kKerple:
      return Kerple(heads, KerpleKind::kLog).ptr();
    case PositionScheme::kKerplePower:
      return Kerple(heads, KerpleKind::kPower).ptr();
    case PositionScheme::kSandwich:
      return Sandwich(heads).ptr();
    case PositionScheme::kFire:
      return Fire(heads).ptr();
    case PositionScheme::kTemperature:
      return Temperature(heads).ptr();
    case PositionScheme::kSinusoidalBias:
      return SinusoidalBias(heads).ptr();
    case PositionScheme::kTransformerXl:
      return TransformerXL(heads, head_dim, options.max_distance).ptr();
    case PositionScheme::kXPos:
      return XPos(head_dim).ptr();
    case PositionScheme::kDeberta:
      return Deberta(heads, head_dim, options.max_distance).ptr();
    case PositionScheme::kCope:
      return Cope(head_dim, options.max_distance).ptr();
    case PositionScheme::kSinusoidal:
    case PositionScheme::kLearned:
      break;
  }
  Refuse("position: '", ToString(options.scheme),
         "' is added to the input, not inside attention; apply PositionalEncoding or LearnedPositions before");
}

}  // namespace nn
}  // namespace heed
