// A language model of characters that `heed train` wrote, without a framework: opens the folder and continues a prompt.
#ifndef HEED_CHARACTER_MODEL_H_
#define HEED_CHARACTER_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/executor.h"
#include "heed/layer_caches.h"
#include "heed/layers.h"
#include "heed/model_workspace.h"

namespace heed {

// The contents of a folder's config.json.
struct CharacterModelConfig {
  std::string encoder;   // "attention", "gru", ..: a name of `heed train --encoder`
  std::string position;  // "none", "rotary", ..: a name of `heed train --position`
  std::string query_key_norm = "none";
  int64_t layers = 0, heads = 0, width = 0;
  int64_t context = 0;       // steps of a training window; rows of a learned table
  int64_t ffn_width = 0;     // 0: no feed-forward sublayer
  int64_t max_distance = 0;  // longer offsets count as this one
  int64_t kernel = 3;        // of convolutions
  bool bias = true, tied = false;
  bool causal = true;         // else of the masked objective, and a token behind those of characters hides one
  std::u32string characters;  // a token is the index of its character

  // Throws FileError, naming the file and the fault, also, unless masked_too, for a model of the masked objective.
  static CharacterModelConfig Read(const std::string& path, bool masked_too = false);
};

class SequenceEncoder;

// Reading a model is safe from several threads at once.
class CharacterModel {
 public:
  // folder: holds config.json and model.safetensors. masked_too: opens a model of the masked objective, which has Logits alone,
  // of the character at each step. Throws FileError, naming the file.
  explicit CharacterModel(const std::string& folder, bool masked_too = false);
  ~CharacterModel();
  CharacterModel(CharacterModel&&) noexcept;

  const CharacterModelConfig& config() const { return config_; }

  // The tokens of a text in UTF-8. Throws InvalidArgument, naming the first character that is not in config().characters.
  std::vector<int32_t> Encode(std::string_view text) const;
  // Throws InvalidArgument for a token that the model does not have.
  std::string Decode(std::span<const int32_t> tokens) const;

  // Whether the encoder has Step: encoders of attention without recurrence, whose caches grow with the tokens, and those in
  // linear time, whose caches do not. Others read their context anew.
  bool CanStep() const;
  // The layers' caches of the tokens so far; not safe for use by two threads at once. Empty where CanStep is false.
  using Caches = LayerCaches;
  Caches NewCaches() const;

  // The logits [characters] of the character after `tokens`, at least one, which follow those of earlier calls with the same
  // caches. Throws InvalidArgument, also where CanStep is false; the caches then stay unchanged.
  std::vector<float> Step(std::span<const int32_t> tokens, Caches& caches, Executor& executor) const;
  // Writes the logits to your memory. With an encoder in linear time, one token and the workspace of an earlier call it
  // allocates nothing.
  void Step(std::span<const int32_t> tokens, Caches& caches, std::span<float> logits, ModelWorkspace& workspace,
            Executor& executor) const;
  // The logits of the character after each token of a text that begins here: [tokens, characters].
  std::vector<float> Logits(std::span<const int32_t> tokens, Executor& executor) const;

  // The probability that each character comes after the tokens, at least one, of which the model reads the last `context`:
  // [characters]. Throws InvalidArgument, and Error where logits are not finite.
  std::vector<double> Next(std::span<const int32_t> tokens, Executor& executor) const;

  // The most likely continuation of `prompt`, at least one character, character by character: the output of `heed generate
  // --temperature 0`. The model reads at most `context` characters; when they are full, it begins anew from the last three
  // quarters. Calls on_character with each character. Throws InvalidArgument.
  std::string Continue(std::string_view prompt, int64_t characters, Executor& executor,
                       const std::function<void(std::string_view)>& on_character = {}) const;
  std::string Continue(std::string_view prompt, int64_t characters) const;

 private:
  Parameters parameters();
  // The last layer's output, [tokens, width], in memory of the workspace.
  View<const float, 2> Hidden(std::span<const int32_t> tokens, Caches* caches, ModelWorkspace& workspace,
                              Executor& executor) const;
  void LogitsOf(View<const float, 2> hidden, View<float, 2> logits, Executor& executor) const;

  CharacterModelConfig config_;
  Embedding embedding_;
  std::unique_ptr<SequenceEncoder> encoder_;
  bool keeps_states_ = false;   // whether the caches hold states instead of keys and values
  std::optional<Linear> head_;  // absent when tied
  PackedMatrix tied_;
};

}  // namespace heed

#endif  // HEED_CHARACTER_MODEL_H_
