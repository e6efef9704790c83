// What a call is told besides arrays, as one line of text: "causal=bottom_right window_left=3 scale=0.125".
#ifndef HEED_PYTHON_SRC_JAX_SETTINGS_H_
#define HEED_PYTHON_SRC_JAX_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::jax {

// The parts of a text between separators; none of an empty text.
std::vector<std::string_view> Split(std::string_view text, char separator);

// Throws InvalidArgument, which begins with the name, unless all of the text is a number of the type.
int64_t ParseInteger(std::string_view name, std::string_view text);
double ParseNumber(std::string_view name, std::string_view text);

// One text passes through XLA's attributes and through a C function alike, and shows in a dump of a program what it calls.
// Refers to the text that it is made of.
class Settings {
 public:
  // Throws InvalidArgument for a part without "=".
  explicit Settings(std::string_view text);

  bool Has(std::string_view name) const { return Find(name).has_value(); }
  bool Flag(std::string_view name) const { return Find(name) == "true"; }
  std::string_view Text(std::string_view name, std::string_view absent) const { return Find(name).value_or(absent); }
  std::optional<int64_t> Integer(std::string_view name) const;
  std::optional<double> Number(std::string_view name) const;
  std::vector<double> Numbers(std::string_view name) const;  // separated by commas

 private:
  std::optional<std::string_view> Find(std::string_view name) const;

  std::vector<std::pair<std::string_view, std::string_view>> entries_;
};

}  // namespace heed::jax

#endif  // HEED_PYTHON_SRC_JAX_SETTINGS_H_
