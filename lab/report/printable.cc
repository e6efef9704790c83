#include "lab/report/printable.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>
#include <boost/algorithm/string/replace.hpp>

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

std::string ShellWord(const std::string& text) {
  const auto plain = [](char c) {
    const bool alphanumeric = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9');
    return alphanumeric || std::string_view("_-./,:=+").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  return "'" + boost::replace_all_copy(text, "'", "'\\''") + "'";
}

}  // namespace heed::lab
