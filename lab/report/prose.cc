#include "lab/report/prose.h"

#include <algorithm>

namespace heed::lab {

Prose::Prose(std::string_view file) {
  std::string* text = nullptr;
  while (!file.empty()) {
    const std::string_view line = file.substr(0, file.find('\n'));
    file.remove_prefix(std::min(file.size(), line.size() + 1));
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) continue;
    if (begin == 0) {
      text = &texts_[std::string(line)];
    } else if (text != nullptr) {
      *text += (text->empty() ? "" : " ") + std::string(line.substr(begin));
    }
  }
}

}  // namespace heed::lab
