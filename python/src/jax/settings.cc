#include "settings.h"

#include <charconv>

#include "heed/error.h"

namespace heed::jax {
namespace {

template <class T>
T Parse(std::string_view name, std::string_view text, const char* kind) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) {
    throw InvalidArgument(std::string(name) + ": expected " + kind + ", got " + std::string(text));
  }
  return value;
}

}  // namespace

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

int64_t ParseInteger(std::string_view name, std::string_view text) {
  return Parse<int64_t>(name, text, "an integer of 64 bits");
}

double ParseNumber(std::string_view name, std::string_view text) { return Parse<double>(name, text, "a number"); }

Settings::Settings(std::string_view text) {
  for (const std::string_view part : Split(text, ' ')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) throw InvalidArgument("settings: expected name=value, got " + std::string(part));
    entries_.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
}

std::optional<std::string_view> Settings::Find(std::string_view name) const {
  for (const auto& [key, value] : entries_)
    if (key == name) return value;
  return std::nullopt;
}

std::optional<int64_t> Settings::Integer(std::string_view name) const {
  const auto text = Find(name);
  return text ? std::optional(ParseInteger(name, *text)) : std::nullopt;
}

std::optional<double> Settings::Number(std::string_view name) const {
  const auto text = Find(name);
  return text ? std::optional(ParseNumber(name, *text)) : std::nullopt;
}

std::vector<double> Settings::Numbers(std::string_view name) const {
  std::vector<double> numbers;
  for (const std::string_view part : Split(Find(name).value_or(""), ',')) numbers.push_back(ParseNumber(name, part));
  return numbers;
}

}  // namespace heed::jax
