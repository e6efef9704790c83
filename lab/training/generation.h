// Text written by a model, one character at a time.
#ifndef HEED_LAB_TRAINING_GENERATION_H_
#define HEED_LAB_TRAINING_GENERATION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/data/text.h"

namespace heed::lab {

class LanguageModel;

struct GenerateOptions {
  int64_t tokens = 200;      // characters to add
  double temperature = 1.0;  // divides the logits; 0 takes the most likely character
  int64_t top_k = 0;         // only the k most likely; 0: all
  uint64_t seed = 0;
};

// The continuation of `prompt`, which must hold at least one character that the model knows. Each character is drawn from the
// model's distribution given the last characters, at most `context` of them. Causal attention keeps the keys and values of
// those characters, and encoders in linear time a state, so that a further one costs one step; when `context` are full, they
// begin anew from the last three quarters, because what they kept depends on the characters that leave. The other encoders read
// the last `context` again for each.
// on_character hears each character as it is drawn. Throws InvalidArgument for a model of the masked objective, and
// Interruption on Ctrl-C.
std::u32string Generate(LanguageModel& model, const Text& prompt, const GenerateOptions& options,
                        const std::function<void(char32_t)>& on_character = {});

// The same from any model: next(tokens) yields the logits of the character after those.
std::u32string Continuation(const Vocabulary& vocabulary, const Text& prompt, const GenerateOptions& options,
                            const std::function<std::vector<float>(const std::vector<int32_t>& tokens)>& next,
                            const std::function<void(char32_t)>& on_character);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_GENERATION_H_
