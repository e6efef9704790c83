// A language model of characters that `heed train` wrote, without a framework: it opens the folder, reads a prompt and goes on
// from there.
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

// The model of a folder's config.json.
struct CharacterModelConfig {
  std::string encoder;   // "attention", "gru", ..: a name as `heed train --encoder` takes it
  std::string position;  // "none", "rotary", ..: a name as `heed train --position` takes it
  std::string query_key_norm = "none";
  int64_t layers = 0, heads = 0, width = 0;
  int64_t context = 0;       // steps of a training window; rows of a learned table
  int64_t ffn_width = 0;     // 0: no feed-forward sublayer
  int64_t max_distance = 0;  // where offsets are clipped
  int64_t kernel = 3;        // of convolutions
  bool bias = true, tied = false;
  std::u32string characters;  // a token is the index of its character

  // Throws FileError that names the file and what is wrong; so is a model of the masked objective, which heed runs with
  // LibTorch alone.
  static CharacterModelConfig Read(const std::string& path);
};

class SequenceEncoder;

// Reading a model is safe from several threads at once.
class CharacterModel {
 public:
  // folder: holds config.json and model.safetensors. Throws FileError that names the file.
  explicit CharacterModel(const std::string& folder);
  ~CharacterModel();
  CharacterModel(CharacterModel&&) noexcept;

  const CharacterModelConfig& config() const { return config_; }

  // The tokens of a text in UTF-8. Throws InvalidArgument that names the first character that the model does not know.
  std::vector<int32_t> Encode(std::string_view text) const;
  // Throws InvalidArgument for a token that the model does not have.
  std::string Decode(std::span<const int32_t> tokens) const;

  // Whether Step goes on from caches: of encoders of attention without recurrence, whose caches grow with the tokens, and of
  // those in linear time, whose caches do not. Others read their context anew.
  bool CanStep() const;
  // What each layer keeps of the tokens so far; not safe for use by two threads at once. Nothing where it cannot step.
  using Caches = LayerCaches;
  Caches NewCaches() const;

  // What follows `tokens`, at least one, which themselves follow those of earlier calls with the same caches: the logits of
  // each character, [characters]. Throws InvalidArgument, also where it cannot step; the caches hold what they held before.
  std::vector<float> Step(std::span<const int32_t> tokens, Caches& caches, Executor& executor) const;
  // The same in memory of the caller's. Of encoders in linear time a token after another one, with the workspace of an earlier
  // call, allocates nothing.
  void Step(std::span<const int32_t> tokens, Caches& caches, std::span<float> logits, ModelWorkspace& workspace,
            Executor& executor) const;
  // What follows each token of a text that begins here: [tokens, characters].
  std::vector<float> Logits(std::span<const int32_t> tokens, Executor& executor) const;

  // The probability of each character behind the tokens, at least one, of which the last `context` are read: [characters].
  // Throws InvalidArgument, and Error where logits are not finite.
  std::vector<double> Next(std::span<const int32_t> tokens, Executor& executor) const;

  // The most likely continuation of `prompt`, at least one character, character by character: what `heed generate --temperature
  // 0` writes. At most `context` characters are looked at; when so many are full, it begins anew from the last three quarters.
  // on_character hears each one as it is chosen. Throws InvalidArgument.
  std::string Continue(std::string_view prompt, int64_t characters, Executor& executor,
                       const std::function<void(std::string_view)>& on_character = {}) const;
  std::string Continue(std::string_view prompt, int64_t characters) const;

 private:
  Parameters parameters();
  // The last layer's output, [tokens, width], which is taken of the workspace.
  View<const float, 2> Hidden(std::span<const int32_t> tokens, Caches* caches, ModelWorkspace& workspace,
                              Executor& executor) const;
  void LogitsOf(View<const float, 2> hidden, View<float, 2> logits, Executor& executor) const;

  CharacterModelConfig config_;
  Embedding embedding_;
  std::unique_ptr<SequenceEncoder> encoder_;
  bool keeps_states_ = false;   // the encoder's caches, instead of keys and values
  std::optional<Linear> head_;  // absent when tied
  PackedMatrix tied_;
};

}  // namespace heed

#endif  // HEED_CHARACTER_MODEL_H_
