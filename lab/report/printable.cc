#include "lab/report/printable.h"

#include <fmt/core.h>

#include "heed/utf8.h"

namespace heed::lab {
namespace {

bool Shows(char32_t c) {
  const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
  const bool turns = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  const bool none = c == 0xfeff || (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe;
  return !control && !turns && !none;
}

std::string Shown(std::string_view text, std::size_t most, bool lines) {
  std::string shown;
  while (!text.empty()) {
    const DecodedUtf8 valid = DecodeUtf8(text);
    for (const char32_t c : valid.characters) {
      if (shown.size() >= most) return shown + "...";
      shown += Shows(c) || (lines && c == '\n') ? EncodeUtf8({&c, 1}) : fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    }
    text.remove_prefix(valid.read);
    if (text.empty()) break;
    if (shown.size() >= most) return shown + "...";
    shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    text.remove_prefix(1);
  }
  return shown;
}

}  // namespace

std::string Printable(std::string_view text, std::size_t most) { return Shown(text, most, /*lines=*/false); }
std::string PrintableLines(std::string_view text, std::size_t most) { return Shown(text, most, /*lines=*/true); }

}  // namespace heed::lab
