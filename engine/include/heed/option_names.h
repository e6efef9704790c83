// What choices among the options of a call are called in texts: in operators and settings of every front end.
#ifndef HEED_OPTION_NAMES_H_
#define HEED_OPTION_NAMES_H_

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "heed/call_options.h"
#include "heed/error.h"

namespace heed {

template <class Choice>
struct ChoiceName {
  std::string_view name;
  Choice choice;
};
// Of an enumeration, all its choices, the default first.
template <class Choice>
inline constexpr std::array<ChoiceName<Choice>, 0> kChoices{};
template <>
inline constexpr auto kChoices<Causal> = std::to_array<ChoiceName<Causal>>(
    {{"none", Causal::kNone}, {"bottom_right", Causal::kBottomRight}, {"top_left", Causal::kTopLeft}});
template <>
inline constexpr auto kChoices<EmptyRow> =
    std::to_array<ChoiceName<EmptyRow>>({{"zero", EmptyRow::kZero}, {"uniform", EmptyRow::kUniform}});
template <>
inline constexpr auto kChoices<Precision> =
    std::to_array<ChoiceName<Precision>>({{"float32", Precision::kFloat32}, {"fused", Precision::kFused}});

// Throws InvalidArgument, beginning with `option`, for a name that is none of the choices.
template <class Choice>
Choice ChoiceNamed(const std::string& option, std::string_view name) {
  std::string known;
  for (const auto& [own, choice] : kChoices<Choice>) {
    if (own == name) return choice;
    known += (known.empty() ? "'" : own == kChoices<Choice>.back().name ? " or '" : ", '") + std::string(own) + "'";
  }
  throw InvalidArgument(option + ": expected " + known + ", got '" + std::string(name) + "'");
}
template <class Choice>
constexpr std::string_view NameOf(Choice choice) {
  return std::ranges::find(kChoices<Choice>, choice, &ChoiceName<Choice>::choice)->name;
}

}  // namespace heed

#endif  // HEED_OPTION_NAMES_H_
