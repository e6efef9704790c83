// What a positional scheme does inside attention on plain memory: its parameters, and its part of a call.
#ifndef HEED_INFERENCE_SRC_ATTENTION_SCHEME_H_
#define HEED_INFERENCE_SRC_ATTENTION_SCHEME_H_

#include <memory>
#include <optional>
#include <string>

#include "heed/multi_head_attention.h"

namespace heed {

struct SchemeRotation {
  RotaryPosition position;
  std::optional<RotaryFrequencies> fixed;  // absent where they depend on the length of the text
};

// Parameters point into it, so that it stays where it was made.
class AttentionScheme {
 public:
  AttentionScheme() = default;
  AttentionScheme(const AttentionScheme&) = delete;
  AttentionScheme& operator=(const AttentionScheme&) = delete;
  virtual ~AttentionScheme() = default;

  virtual Parameters parameters() { return {}; }
  // Adds what it does to the scores; the call points into it. Throws InvalidArgument where its weights were not loaded.
  virtual void AddTo(Attention& /*call*/) const {}
  // How queries and keys are turned first; null: they are not.
  virtual const SchemeRotation* rotation() const { return nullptr; }
  // Added to the projected queries, [heads * head_dim]; null: nothing.
  virtual const float* query_bias() const { return nullptr; }
  // Of the scores, where the options give none.
  virtual std::optional<double> default_scale() const { return std::nullopt; }
};

// options: resolved, their head_dim told. Throws InvalidArgument that names the option.
std::unique_ptr<AttentionScheme> MakeAttentionScheme(const MultiHeadAttentionOptions& options);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_ATTENTION_SCHEME_H_
