#include "heed/shown_name.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "heed/utf8.h"

namespace heed {
namespace {

constexpr std::size_t kMostCharacters = 80;

void AddUnit(std::string& shown, unsigned unit) {
  char escape[8];
  std::snprintf(escape, sizeof escape, "\\u%04x", unit);
  shown += escape;
}

void AddCharacter(std::string& shown, char32_t character) {
  constexpr std::u32string_view kEscaped = U"\"\\\n\t\r\b\f";
  constexpr std::string_view kLetters = "\"\\ntrbf";
  if (const std::size_t place = kEscaped.find(character); place != std::u32string_view::npos) {
    shown += {'\\', kLetters[place]};
  } else if (IsPrintable(character) && character != U'\ufffd') {
    shown += EncodeUtf8({&character, 1});
  } else if (character < 0x10000) {
    AddUnit(shown, character);
  } else {
    AddUnit(shown, 0xd800 + ((character - 0x10000) >> 10));
    AddUnit(shown, 0xdc00 + (character & 0x3ff));
  }
}

}  // namespace

bool IsPrintable(char32_t character) {
  const auto within = [character](char32_t first, char32_t last) { return character >= first && character <= last; };
  const bool controls = character < 0x20 || within(0x7f, 0x9f);
  const bool turns = character == 0x61c || within(0x200e, 0x200f) || within(0x2028, 0x202e) || within(0x2066, 0x2069);
  const bool none = character == 0xfeff || within(0xfdd0, 0xfdef) || (character & 0xfffe) == 0xfffe;
  return !controls && !turns && !none;
}

std::string ShownName(std::string_view name) {
  std::string shown;
  for (std::size_t left = kMostCharacters; !name.empty(); --left) {
    if (left == 0) return shown + "...";
    const auto [character, length] = DecodeCharacter(name);
    AddCharacter(shown, length > 0 ? character : U'\ufffd');
    name.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

std::string QuotedName(std::string_view name) { return '"' + ShownName(name) + '"'; }

}  // namespace heed
