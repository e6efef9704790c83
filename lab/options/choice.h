// What there is to choose, and checks of what somebody chose.
#ifndef HEED_LAB_OPTIONS_CHOICE_H_
#define HEED_LAB_OPTIONS_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace heed::lab {

// The encoders and positional schemes of heed/nn.
std::vector<std::string> EncoderNames();
std::vector<std::string> PositionSchemeNames();

// Throws InvalidArgument that names the option: where nothing is chosen, a name is unknown (it lists those known), or a name is
// given twice.
void RequireKnown(const char* option, const std::vector<std::string>& chosen, const std::vector<std::string>& known);

// Throws InvalidArgument that names the option, the value and the range, both ends of which are allowed.
void RequireRange(const char* option, int64_t value, int64_t low, int64_t high);

// Throws InvalidArgument that names the heads where they are not in 1..width, and the width where it is odd, where the heads do
// not divide it, or where one of the schemes rotates pairs of a head's features and their number is odd.
void RequireHeads(int64_t width, int64_t heads, const std::vector<std::string>& positions);

// Of a contest. Throw InvalidArgument that names the option: where the paces are neither none nor one a contender, and where
// the rates do not rise.
void RequirePace(const std::vector<double>& step_seconds, std::size_t contenders);
void RequireRising(const std::vector<double>& rates);

}  // namespace heed::lab

#endif  // HEED_LAB_OPTIONS_CHOICE_H_
