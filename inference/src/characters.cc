#include "characters.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "heed/error.h"
#include "heed/utf8.h"

namespace heed {
namespace {

// A character for a message: printable ASCII in quotes, anything else as U+0041.
std::string Shown(char32_t character) {
  if (character > 0x20 && character < 0x7f) return std::string("'") + static_cast<char>(character) + "'";
  char code[16];
  std::snprintf(code, sizeof code, "U+%04X", static_cast<unsigned>(character));
  return code;
}

}  // namespace

std::u32string ReadCharacters(const ConfigReader& config) {
  std::u32string characters = DecodeUtf8(config.Text(config.file(), "vocabulary")).characters;
  const bool ascending = std::ranges::adjacent_find(characters, std::ranges::greater_equal()) == characters.end();
  if (characters.empty() || !ascending) config.Fail("'vocabulary' is not sorted and without repetition");
  return characters;
}

std::vector<int32_t> EncodeTokens(const std::u32string& characters, std::string_view text, const std::string& argument) {
  const DecodedUtf8 decoded = DecodeUtf8(text);
  if (decoded.read < text.size())
    throw InvalidArgument(argument + ": it is not UTF-8: no valid character begins at byte " + std::to_string(decoded.read));
  std::vector<int32_t> tokens;
  tokens.reserve(decoded.characters.size());
  for (const char32_t character : decoded.characters) {
    const auto found = std::ranges::lower_bound(characters, character);
    if (found == characters.end() || *found != character) {
      throw InvalidArgument(argument + ": character " + std::to_string(tokens.size()) + ", " + Shown(character) +
                            ", is not among the " + std::to_string(characters.size()) + " characters that the model knows");
    }
    tokens.push_back(static_cast<int32_t>(found - characters.begin()));
  }
  return tokens;
}

std::string DecodeTokens(const std::u32string& characters, std::span<const int32_t> tokens) {
  std::u32string text;
  text.reserve(tokens.size());
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= characters.size())
      throw InvalidArgument("tokens: " + std::to_string(token) + " is outside 0.." + std::to_string(characters.size() - 1));
    text.push_back(characters[token]);
  }
  return EncodeUtf8(text);
}

std::vector<int32_t> EncodePrompt(const std::u32string& characters, std::string_view prompt, int64_t added) {
  if (added < 0) throw InvalidArgument("characters: " + std::to_string(added) + " is not 0 or more");
  std::vector<int32_t> tokens = EncodeTokens(characters, prompt, "prompt");
  if (tokens.empty()) throw InvalidArgument("prompt: it is empty; give at least one character");
  return tokens;
}

}  // namespace heed
