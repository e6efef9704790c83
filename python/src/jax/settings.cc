#include "settings.h"

namespace heed::jax {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

std::optional<std::string_view> Settings::Text(std::string_view name) const {
  for (const std::string_view entry : entries_)
    if (const std::size_t equals = entry.find('='); entry.substr(0, equals) == name) return entry.substr(equals + 1);
  return std::nullopt;
}

}  // namespace heed::jax
