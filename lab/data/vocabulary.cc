#include "lab/data/vocabulary.h"

#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "heed/error.h"

namespace heed::lab {

Vocabulary::Vocabulary(std::u32string_view characters) : characters_(characters) {
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
}

std::vector<int32_t> Vocabulary::Encode(const Text& text) const {
  std::unordered_map<char32_t, int32_t> index;
  for (std::size_t i = 0; i < characters_.size(); ++i) index.emplace(characters_[i], static_cast<int32_t>(i));
  std::vector<int32_t> tokens;
  tokens.reserve(text.characters.size());
  for (const char32_t character : text.characters) {
    const auto found = index.find(character);
    if (found == index.end()) {
      throw InvalidArgument("text '" + text.name + "': character " + std::to_string(tokens.size()) + ", " +
                            DescribeCharacter(character) + ", is not among the " + std::to_string(size()) +
                            " characters that the model knows");
    }
    tokens.push_back(found->second);
  }
  return tokens;
}

std::u32string Vocabulary::Decode(const std::vector<int32_t>& tokens) const {
  std::u32string characters;
  characters.reserve(tokens.size());
  for (const int32_t token : tokens) {
    if (token < 0 || token >= size()) {
      throw InvalidArgument("tokens: " + std::to_string(token) + " is outside 0.." + std::to_string(size() - 1));
    }
    characters.push_back(characters_[token]);
  }
  return characters;
}

std::string DescribeCharacter(char32_t character) {
  if (character > 0x20 && character < 0x7f) return std::string("'") + static_cast<char>(character) + "'";
  char code[16];
  std::snprintf(code, sizeof code, "U+%04X", static_cast<unsigned>(character));
  return code;
}

}  // namespace heed::lab
