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
  constexpr std::string_view kPlain = "\"\\\n\t\r\b\f", kLetters = "\"\\ntrbf";
  if (character >= 0x10000) {
    AddUnit(shown, 0xd800 + ((character - 0x10000) >> 10));
    return AddUnit(shown, 0xdc00 + (character & 0x3ff));
  }
  if (character >= 0x7f) return AddUnit(shown, character);
  const char byte = static_cast<char>(character);
  if (const std::size_t place = kPlain.find(byte); place != std::string_view::npos) {
    shown += {'\\', kLetters[place]};
  } else if (character < 0x20) {
    AddUnit(shown, character);
  } else {
    shown += byte;
  }
}

}  // namespace

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
