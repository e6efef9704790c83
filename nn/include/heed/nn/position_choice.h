// Positional schemes by name.
#ifndef HEED_NN_POSITION_CHOICE_H_
#define HEED_NN_POSITION_CHOICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/length_policy.h"
#include "heed/nn/attention_position.h"
#include "heed/rotary.h"

namespace heed::nn {

enum class PositionScheme {
  kNone,
  kSinusoidal,      // PositionalEncoding, added to the input
  kLearned,         // LearnedPositions, added to the input
  kRotary,          // Rotary
  kAlibi,           // Alibi
  kRelativeBias,    // RelativeBias
  kT5,              // T5Bias
  kShaw,            // Shaw
  kKerple,          // Kerple of kLog
  kKerplePower,     // Kerple of kPower
  kSandwich,        // Sandwich
  kFire,            // Fire
  kTemperature,     // Temperature
  kSinusoidalBias,  // SinusoidalBias
  kTransformerXl,   // TransformerXL
  kXPos,            // XPos
  kDeberta,         // Deberta
  kCope,            // Cope
};

// "none", "sinusoidal", "learned", "rotary", "alibi", "relative", "t5", "shaw", "kerple", "kerple_power", "sandwich",
// "fire", "temperature", "sinusoidal_bias", "transformer_xl", "xpos", "deberta", "cope".
std::vector<std::string> PositionSchemeNames();
// Throws InvalidArgument that lists the names.
PositionScheme ParsePositionScheme(const std::string& name);
std::string ToString(PositionScheme scheme);
bool AddsToInput(PositionScheme scheme);
bool NeedsCausal(PositionScheme scheme);  // since scores would grow towards later keys
bool TurnsPairs(PositionScheme scheme);   // pairs of columns, so that a head needs an even number of columns

// A scheme by name, with its options apart from the module's sizes.
struct PositionOptions {
  PositionScheme scheme = PositionScheme::kNone;
  int64_t max_len = 1000;  // sinusoidal, learned: rows of the table
  // relative, shaw, transformer_xl, deberta: longer offsets count as this one; t5: distances from here on share the last
  // bucket; cope: the number of positions
  int64_t max_distance = 128;
  LengthPolicy length_policy = LengthPolicy::kError;  // sinusoidal, learned
  int64_t buckets = 32;                               // t5
  RotaryOptions rotary = {};                          // rotary
  RotaryLayout rotary_layout = RotaryLayout::kHalf;
};

// A new scheme for attention with `heads` query heads of width head_dim; null for kNone. causal: T5 spends all buckets on keys
// up to the query. Throws InvalidArgument for schemes that are added to the input, and for xpos unless causal.
std::shared_ptr<AttentionPosition> MakeAttentionPosition(const PositionOptions& options, int64_t heads, int64_t head_dim,
                                                         bool causal);

}  // namespace heed::nn

#endif  // HEED_NN_POSITION_CHOICE_H_
