// What a call is told besides arrays, as one line of text: "causal=bottom_right window_left=3 scale=0.125".
#ifndef HEED_PYTHON_SRC_JAX_SETTINGS_H_
#define HEED_PYTHON_SRC_JAX_SETTINGS_H_

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "heed/error.h"

namespace heed::jax {

// The parts of a text between separators; none of an empty text.
std::vector<std::string_view> Split(std::string_view text, char separator);

// Throws InvalidArgument, which begins with the name, unless all of the text is a number of the type.
template <class T>
T Parsed(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size()) return value;
  throw InvalidArgument(std::string(name) + ": expected " +
                        (std::is_integral_v<T> ? "an integer of 64 bits, got " : "a number, got ") + std::string(text));
}

// One text passes through XLA's attributes and through a C function alike, and shows in a dump of a program what it calls.
// Refers to the text that it is made of.
class Settings {
 public:
  explicit Settings(std::string_view text) : entries_(Split(text, ' ')) {}

  std::optional<std::string_view> Text(std::string_view name) const;
  bool Flag(std::string_view name) const { return Text(name) == "true"; }
  template <class T>
  std::optional<T> Number(std::string_view name) const {
    const auto text = Text(name);
    return text ? std::optional(Parsed<T>(name, *text)) : std::nullopt;
  }

 private:
  std::vector<std::string_view> entries_;
};

}  // namespace heed::jax

#endif  // HEED_PYTHON_SRC_JAX_SETTINGS_H_
