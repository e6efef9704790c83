#include "lab/options/settings.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>

namespace heed::lab {
namespace {

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
