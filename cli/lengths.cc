#include "cli/lengths.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "heed/error.h"

namespace heed::cli {
namespace {

[[noreturn]] void RefuseLengths(const std::string& text) {
  throw InvalidArgument("--lengths: expected FIRST:LAST (doubling, as 16:1024) or numbers with commas (as 10,100,1000), got '" +
                        text + "'");
}

int64_t ParseLength(std::string_view part, const std::string& text) {
  int64_t length = 0;
  const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), length);
  if (error != std::errc() || rest != part.data() + part.size() || length < 1) RefuseLengths(text);
  return length;
}

}  // namespace

std::vector<int64_t> ParseLengths(const std::string& text) {
  std::vector<int64_t> lengths;
  for (std::string_view rest = text;;) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t colon = part.find(':');
    const int64_t first = ParseLength(part.substr(0, colon), text);
    const int64_t last = colon == std::string_view::npos ? first : ParseLength(part.substr(colon + 1), text);
    if (last < first) RefuseLengths(text);
    for (int64_t length = first;; length *= 2) {
      lengths.push_back(length);
      if (length > last / 2) break;
    }
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

}  // namespace heed::cli
