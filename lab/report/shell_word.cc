#include "lab/report/shell_word.h"

#include <algorithm>
#include <string_view>

#include <boost/algorithm/string/replace.hpp>

namespace heed::lab {

std::string ShellWord(const std::string& text) {
  const auto plain = [](char c) {
    const bool alphanumeric = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9');
    return alphanumeric || std::string_view("_-./,:=+").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  return "'" + boost::replace_all_copy(text, "'", "'\\''") + "'";
}

}  // namespace heed::lab
