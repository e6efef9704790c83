// A counting model of a text, which `heed study` saves where no network has a smaller loss, without a framework: opens the
// folder and continues a prompt.
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
  // folder: holds config.json (order, discount, vocabulary) and model.safetensors (the counted characters: "tokens", int32, and
  // the ends of their passages: "ends", int64). The constructor counts anew. Throws FileError, naming the file and the fault.
  explicit CountingModel(const std::string& folder);

  // Whether the folder's config.json describes such a model. Throws FileError.
  static bool IsIn(const std::string& folder);

  const std::string& name() const { return name_; }                 // "counting runs of 5 characters"
  int64_t order() const { return order_; }                          // characters of a run, 1 to kMostOrder
  const std::u32string& characters() const { return characters_; }  // a token is the index of its character
  int64_t counted() const { return counted_; }                      // characters of the text

  // The tokens of a text in UTF-8. Throws InvalidArgument, naming the first character that is not in characters().
  std::vector<int32_t> Encode(std::string_view text) const;
  // Throws InvalidArgument for a token that the model does not have.
  std::string Decode(std::span<const int32_t> tokens) const;

  // The probability that each character comes after the tokens of a text, from the last order() - 1 of them: [characters].
  // Throws InvalidArgument for a token that the model does not have.
  std::vector<double> Next(std::span<const int32_t> tokens) const;
  // Logarithms of Next, from which `heed generate` draws.
  std::vector<float> Logits(std::span<const int32_t> tokens) const;
  // Nats per character of a text, without its first, as `heed eval` prints. Throws InvalidArgument for fewer than two tokens.
  double Loss(std::span<const int32_t> tokens) const;

  // The most likely continuation of `prompt`, at least one character, character by character: the output of `heed generate
  // --temperature 0`. Calls on_character with each character. Throws InvalidArgument.
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
