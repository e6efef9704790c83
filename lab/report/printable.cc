#include "lab/report/printable.h"

#include <fmt/core.h>

#include "heed/shown_name.h"
#include "heed/utf8.h"

namespace heed::lab {
namespace {

std::string Shown(std::string_view text, std::size_t most, bool lines) {
  std::string shown;
  while (!text.empty()) {
    const DecodedUtf8 valid = DecodeUtf8(text);
    for (const char32_t c : valid.characters) {
      if (shown.size() >= most) return shown + "...";
      shown +=
          IsPrintable(c) || (lines && c == '\n') ? EncodeUtf8({&c, 1}) : fmt::format("\\u{:04x}", static_cast<unsigned>(c));
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
