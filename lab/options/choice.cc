#include "lab/options/choice.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/position_choice.h"
#include "heed/safetensors.h"

namespace heed::lab {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text;
}

}  // namespace

std::vector<std::string> EncoderNames() { return nn::EncoderNames(); }
std::vector<std::string> PositionSchemeNames() { return nn::PositionSchemeNames(); }

void RequireKnown(const char* option, const std::vector<std::string>& chosen, const std::vector<std::string>& known) {
  if (chosen.empty()) throw InvalidArgument(std::string(option) + ": none given; choose among " + Listed(known));
  std::set<std::string> seen;
  for (const std::string& name : chosen) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InvalidArgument(std::string(option) + ": '" + ShownName(name) + "' is unknown; choose among " + Listed(known));
    }
    if (!seen.insert(name).second) throw InvalidArgument(std::string(option) + ": '" + ShownName(name) + "' is given twice");
  }
}

void RequireRange(const char* option, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    throw InvalidArgument(fmt::format("{}: {} is outside {}..{}", option, value, low, high));
  }
}

void RequireHeads(int64_t width, int64_t heads, const std::vector<std::string>& positions) {
  RequireRange("heads", heads, 1, width);
  if (width % heads != 0 || width % 2 != 0) {
    throw InvalidArgument(fmt::format("width: {} is not even and divisible by {} heads", width, heads));
  }
  const auto turns = [](const std::string& name) { return nn::TurnsPairs(nn::ParsePositionScheme(name)); };
  const auto rotating = std::ranges::find_if(positions, turns);
  if (rotating != positions.end() && width / heads % 2 != 0) {
    throw InvalidArgument(
        fmt::format("width: {} leaves each of {} heads {} features; {} turns pairs of them and needs an even number", width,
                    heads, width / heads, *rotating));
  }
}

void RequirePace(const std::vector<double>& step_seconds, std::size_t contenders) {
  if (step_seconds.empty() || step_seconds.size() == contenders) return;
  throw InvalidArgument(fmt::format("step_seconds: expected one number for each objective and model, which are {}, got {}",
                                    contenders, step_seconds.size()));
}

void RequireRising(const std::vector<double>& rates) {
  if (std::ranges::adjacent_find(rates, std::ranges::greater_equal()) == rates.end()) return;
  throw InvalidArgument("rates: expected them rising, each once");
}

}  // namespace heed::lab
