// A text's counting model, which `heed study` keeps where no network loses less, without a framework: it opens the folder,
// reads a prompt and goes on from there.
#ifndef HEED_COUNTING_MODEL_H_
#define HEED_COUNTING_MODEL_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/ngrams.h"

namespace heed {

// Reading a model is safe from several threads at once.
class CountingModel {
 public:
  // folder: holds config.json (order, discount, vocabulary) and model.safetensors (the characters that are counted: "tokens",
  // int32, and where their passages end: "ends", int64). It counts anew. Throws FileError that names the file and what is wrong
  // with it.
  explicit CountingModel(const std::string& folder);

  // Whether the folder's config.json is of such a model. Throws FileError.
  static bool IsIn(const std::string& folder);

  const std::string& name() const { return name_; }                 // "counting runs of 5 characters"
  int64_t order() const { return order_; }                          // characters of a run, 1 to kMostOrder
  const std::u32string& characters() const { return characters_; }  // a token is the index of its character
  int64_t counted() const { return counted_; }                      // characters of the text

  // The tokens of a text in UTF-8. Throws InvalidArgument that names the first character that the model does not know.
  std::vector<int32_t> Encode(std::string_view text) const;
  // Throws InvalidArgument for a token that the model does not have.
  std::string Decode(std::span<const int32_t> tokens) const;

  // The probability of each character behind the tokens of a text, from at most order() - 1 of them: [characters]. Throws
  // InvalidArgument for a token that the model does not have.
  std::vector<double> Next(std::span<const int32_t> tokens) const;
  // Their logarithms, from which `heed generate` draws.
  std::vector<float> Logits(std::span<const int32_t> tokens) const;
  // Nats per character of a text, all but its first: what `heed eval` says. Throws InvalidArgument for fewer than two tokens.
  double Loss(std::span<const int32_t> tokens) const;

  // The most likely continuation of `prompt`, at least one character, character by character: what `heed generate --temperature
  // 0` writes. on_character hears each one as it is chosen. Throws InvalidArgument.
  std::string Continue(std::string_view prompt, int64_t characters,
                       const std::function<void(std::string_view)>& on_character = {}) const;

 private:
  void RequireKnown(std::span<const int32_t> tokens) const;

  std::string name_;
  int64_t order_ = 1, counted_ = 0;
  double discount_ = 0;
  std::u32string characters_;
  NGrams grams_;
};

}  // namespace heed

#endif  // HEED_COUNTING_MODEL_H_
