#include "lab/options/fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/position_choice.h"
#include "heed/safetensors.h"
#include "lab/report/figure.h"
#include "lab/report/printable.h"

namespace heed::lab {
namespace {

std::string TextOf(bool value) { return value ? "true" : "false"; }
std::string TextOf(const std::string& value) { return value; }
std::string TextOf(double value) { return FormatNumber(value); }
std::string TextOf(Objective value) { return ToString(value); }
template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
std::string TextOf(T value) {
  return std::to_string(value);
}
template <class T>
std::string TextOf(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ",") + TextOf(value);
  return text.empty() ? "none" : text;
}

void CheckValue(const Field&, bool) {}
void CheckValue(const Field&, uint64_t) {}  // every seed is one
void CheckValue(const Field& field, int64_t value) { RequireRange(field.name.c_str(), value, field.low, field.high); }
void CheckValue(const Field& field, int value) { CheckValue(field, int64_t{value}); }
void CheckValue(const Field&, Objective) {}  // both are
std::string RangeOf(const Field& field) {
  if (field.above == 0 && std::isinf(field.below)) return field.from ? "0 or more" : "a positive number";
  const std::string low = TextOf(field.above), high = TextOf(field.below);
  return field.from ? "in [" + low + ", " + high + ")" : "between " + low + " and " + high;
}
void CheckValue(const Field& field, double value) {
  if ((value > field.above || (field.from && value == field.above)) && value < field.below) return;
  throw InvalidArgument(field.name + ": " + TextOf(value) + " is not " + RangeOf(field));
}
template <class T>
void CheckValue(const Field& field, const std::vector<T>& values) {
  for (const T value : values) CheckValue(field, value);
  if (values.empty() && !field.empty) throw InvalidArgument(field.name + ": expected one number or several");
}
void CheckValue(const Field& field, const std::vector<std::string>& values) {
  if (!values.empty() || !field.empty) RequireKnown(field.name.c_str(), values, field.known);
}
void CheckValue(const Field& field, const std::string& value) { CheckValue(field, std::vector<std::string>{value}); }

template <class T>
nlohmann::ordered_json JsonOf(const T& value) {
  return value;
}
nlohmann::ordered_json JsonOf(const Objective& value) { return ToString(value); }

bool OfTheMachine(const Field& field) { return field.source == Field::Source::kMachine; }

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text;
}

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;

[[noreturn]] void WrongType(const char* name, const char* expected) {
  throw FieldError{std::string("'") + name + "' is not " + expected};
}

// Whether a member is what a place takes, and what that is; nlohmann's own conversions cut fractions and wrap signs.
using Fit = std::pair<bool, const char*>;
Fit Fits(const Json& value, const std::string*) { return {value.is_string(), "a string"}; }
Fit Fits(const Json& value, const Objective*) { return {value.is_string(), "a string"}; }
Fit Fits(const Json& value, const bool*) { return {value.is_boolean(), "true or false"}; }
Fit Fits(const Json& value, const double*) { return {value.is_number(), "a number"}; }
Fit Fits(const Json& value, const uint64_t*) { return {value.is_number_unsigned(), "an integer, 0 or more"}; }
Fit Fits(const Json& value, const int64_t*) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return {false, "an integer of 64 bits"};
  return {value.is_number_integer(), "an integer"};
}
template <class T>
Fit Fits(const Json& values, const std::vector<T>*) {
  const auto fits = [](const Json& value) { return Fits(value, static_cast<const T*>(nullptr)).first; };
  return {values.is_array() && std::all_of(values.begin(), values.end(), fits),
          std::is_same_v<T, std::string> ? "a list of strings" : "a list of numbers"};
}

}  // namespace

std::string Field::Flag() const {
  std::string flag = "--" + name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string Field::Text() const {
  return std::visit([](const auto* place) { return TextOf(*place); }, value);
}

void Field::Check() const {
  std::visit([this](const auto* place) { CheckValue(*this, *place); }, value);
}

Field Whole(std::string name, Field::Value value, int64_t low, int64_t high, std::string text) {
  return {.name = std::move(name), .value = value, .text = std::move(text), .low = low, .high = high};
}

Field Names(std::string name, Field::Value value, std::vector<std::string> known, const std::string& text) {
  const bool one = std::holds_alternative<std::string*>(value);
  std::string help = fmt::format("{}; {} of {}{}", text, one ? "one" : "some", fmt::join(known, ", "), one ? "" : ", or all");
  return {.name = std::move(name), .value = value, .text = std::move(help), .known = std::move(known)};
}

Field OrNone(Field field) {
  field.empty = true;
  field.text += ", or none";
  return field;
}

Field Switch(std::string name, bool& value, std::string text) {
  return {.name = std::move(name), .value = &value, .text = std::move(text)};
}

Field Number(std::string name, double& value, double above, double below, std::string text) {
  return {.name = std::move(name), .value = &value, .text = std::move(text), .above = above, .below = below};
}

Field NumberFrom(std::string name, double& value, double low, double below, std::string text) {
  Field field = Number(std::move(name), value, low, below, std::move(text));
  field.from = true;
  return field;
}

std::vector<Field> Grouped(std::vector<Field> fields, const std::string& group) {
  for (Field& field : fields) field.group = group;
  return fields;
}

Field Choosing(Field field) {
  field.chooses = true;
  return field;
}

Field Time(Field field) {
  field.time = true;
  return field;
}

Field Encoders(std::vector<std::string>& encoders) {
  return Choosing(Names("encoders", &encoders, EncoderNames(), "Encoders"));
}

Field Schemes(std::vector<std::string>& positions) {
  return Choosing(Names("positions", &positions, PositionSchemeNames(), "Positional schemes of attention"));
}

Field Seeds(int64_t& seeds) { return Choosing(Whole("seeds", &seeds, 1, 1000, "Runs of a model")); }

Field Numbers(std::string name, std::vector<double>& values, double above, double below, std::string text) {
  return {.name = std::move(name), .value = &values, .text = std::move(text), .above = above, .below = below};
}

Field Seed(uint64_t& seed) { return {.name = "seed", .value = &seed, .source = Field::Source::kCommon}; }

Field SideBySide(int& threads) {
  return {.name = "threads", .value = &threads, .low = 1, .high = 1024, .source = Field::Source::kMachine};
}

void Check(const Fields& fields) {
  for (const Field& field : fields) field.Check();
}

nlohmann::ordered_json SettingsOf(const Fields& fields) {
  nlohmann::ordered_json settings;
  for (const Field& field : fields) {
    if (!OfTheMachine(field)) std::visit([&](const auto* place) { settings[field.name] = JsonOf(*place); }, field.value);
  }
  return settings;
}

nlohmann::ordered_json RunSettingsOf(const Fields& fields) {
  Fields chosen = fields;
  std::erase_if(chosen, [](const Field& field) { return field.chooses || field.source != Field::Source::kOwn; });
  return SettingsOf(chosen);
}

std::string CommandLine(const std::string& command, const std::string& words, const std::string& budget, const Fields& fields,
                        const Fields& of_budget, const std::filesystem::path& folder) {
  std::string line = "heed " + command;
  if (!words.empty()) line += " " + words;
  if (!budget.empty()) line += " --budget " + budget;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string text = fields[i].Text();
    if (OfTheMachine(fields[i]) || text == of_budget[i].Text()) continue;
    line += " " + fields[i].Flag();
    if (!std::holds_alternative<bool*>(fields[i].value)) line += " " + ShellWord(text);
  }
  return line + " --out " + ShellWord(folder.string());
}

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

Json ParseSettings(const std::string& text) {
  // What nests deeper is no setting, and destroying or printing it could exhaust the stack.
  const auto shallow = [](int depth, Json::parse_event_t, const Json&) {
    return depth <= kDeepest ? true : throw FieldError{"more than " + std::to_string(kDeepest) + " levels are nested"};
  };
  try {
    return Json::parse(text, shallow);
  } catch (const Json::parse_error& error) {  // whose own message quotes the bytes it stumbled over, whatever they are
    throw FieldError{"malformed JSON at byte " + std::to_string(error.byte)};
  } catch (const Json::out_of_range&) {
    throw FieldError{"malformed JSON: a number that no double holds"};
  }
}

const Json& Member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw FieldError{std::string("'") + name + "' is missing"};
  return *found;
}

const Json& ObjectIn(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  if (!member.is_object()) WrongType(name, "an object");
  return member;
}

void ReadField(const Json& object, const char* name, Field::Value field) {
  const Json& value = Member(object, name);
  const auto read = [&]<class T>(T* place) {
    if constexpr (requires { Fits(value, place); }) {
      const auto [fits, expected] = Fits(value, place);
      if (!fits) WrongType(name, expected);
      if constexpr (std::is_same_v<T, Objective>) {
        *place = ParseObjective(value.get<std::string>());
      } else {
        *place = value.get<T>();
      }
    } else {
      WrongType(name, "of a known type");
    }
  };
  std::visit(read, field);
}

void ReadFields(const Json& object, const Fields& fields, const std::function<bool(const std::string& name)>& may_lack) {
  for (const Field& field : fields) {
    if (!may_lack || !may_lack(field.name) || object.contains(field.name)) ReadField(object, field.name.c_str(), field.value);
  }
}

}  // namespace heed::lab
