// The characters that a model knows, and their numbers.
#ifndef HEED_LAB_DATA_VOCABULARY_H_
#define HEED_LAB_DATA_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/text.h"

namespace heed::lab {

// Characters in the order of their code points; a token is the index of its character.
class Vocabulary {
 public:
  Vocabulary() = default;
  // Every character of the text, once. Any order and repetition is accepted.
  explicit Vocabulary(std::u32string_view characters);

  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  const std::u32string& characters() const { return characters_; }

  // Throws InvalidArgument that names the text, the first unknown character and where it stands.
  std::vector<int32_t> Encode(const Text& text) const;
  std::u32string Decode(const std::vector<int32_t>& tokens) const;

 private:
  std::u32string characters_;  // sorted, unique
};

// A character for a message: printable ASCII in quotes, anything else as U+0041.
std::string DescribeCharacter(char32_t character);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_VOCABULARY_H_
