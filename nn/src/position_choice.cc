#include "heed/nn/position_choice.h"

#include <string>
#include <utility>

#include "heed/nn/rotations.h"
#include "heed/nn/score_functions.h"
#include "heed/nn/score_terms.h"
#include "refuse.h"

namespace heed::nn {
namespace {

constexpr std::pair<PositionScheme, const char*> kSchemeNames[] = {
    {PositionScheme::kNone, "none"},
    {PositionScheme::kSinusoidal, "sinusoidal"},
    {PositionScheme::kLearned, "learned"},
    {PositionScheme::kRotary, "rotary"},
    {PositionScheme::kAlibi, "alibi"},
    {PositionScheme::kRelativeBias, "relative"},
    {PositionScheme::kT5, "t5"},
    {PositionScheme::kShaw, "shaw"},
    {PositionScheme::kKerple, "kerple"},
    {PositionScheme::kKerplePower, "kerple_power"},
    {PositionScheme::kSandwich, "sandwich"},
    {PositionScheme::kFire, "fire"},
    {PositionScheme::kTemperature, "temperature"},
    {PositionScheme::kSinusoidalBias, "sinusoidal_bias"},
    {PositionScheme::kTransformerXl, "transformer_xl"},
    {PositionScheme::kXPos, "xpos"},
    {PositionScheme::kDeberta, "deberta"},
    {PositionScheme::kCope, "cope"},
};

}  // namespace

std::vector<std::string> PositionSchemeNames() {
  std::vector<std::string> names;
  for (const auto& entry : kSchemeNames) names.emplace_back(entry.second);
  return names;
}

PositionScheme ParsePositionScheme(const std::string& name) {
  std::string names;
  for (const auto& [scheme, scheme_name] : kSchemeNames) {
    if (name == scheme_name) return scheme;
    names += std::string(names.empty() ? "" : ", ") + scheme_name;
  }
  Refuse("position: '", name, "' is unknown; expected one of ", names);
}

std::string ToString(PositionScheme scheme) {
  for (const auto& [known, name] : kSchemeNames) {
    if (known == scheme) return name;
  }
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

}  // namespace heed::nn
