#include "lab/options/settings.h"

#include <limits>
#include <type_traits>
#include <variant>

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;

[[noreturn]] void WrongType(const char* name, const char* expected) {
  throw FieldError{std::string("'") + name + "' is not " + expected};
}

template <class T>
void ReadList(const Json& object, const char* name, std::vector<T>& field, const char* expected) {
  const Json& values = Member(object, name);
  field.clear();
  for (const Json& value : values) {
    const bool fits = std::is_same_v<T, double> ? value.is_number() : value.is_string();
    if (!values.is_array() || !fits) WrongType(name, expected);
    field.push_back(value.get<T>());
  }
  if (!values.is_array()) WrongType(name, expected);
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

void ReadField(const Json& object, const char* name, std::string& field) {
  const Json& value = Member(object, name);
  if (!value.is_string()) WrongType(name, "a string");
  field = value.get<std::string>();
}

void ReadField(const Json& object, const char* name, Objective& field) {
  std::string text;
  ReadField(object, name, text);
  field = ParseObjective(text);
}

void ReadField(const Json& object, const char* name, int64_t& field) {
  const Json& value = Member(object, name);
  if (!value.is_number_integer()) WrongType(name, "an integer");
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    WrongType(name, "an integer of 64 bits");
  }
  field = value.get<int64_t>();
}

void ReadField(const Json& object, const char* name, uint64_t& field) {
  const Json& value = Member(object, name);
  if (!value.is_number_unsigned()) WrongType(name, "an integer, 0 or more");
  field = value.get<uint64_t>();
}

void ReadField(const Json& object, const char* name, double& field) {
  const Json& value = Member(object, name);
  if (!value.is_number()) WrongType(name, "a number");
  field = value.get<double>();
}

void ReadField(const Json& object, const char* name, bool& field) {
  const Json& value = Member(object, name);
  if (!value.is_boolean()) WrongType(name, "true or false");
  field = value.get<bool>();
}

void ReadField(const Json& object, const char* name, std::vector<std::string>& field) {
  ReadList(object, name, field, "a list of strings");
}

void ReadField(const Json& object, const char* name, std::vector<double>& field) {
  ReadList(object, name, field, "a list of numbers");
}

void ReadFields(const Json& object, const Fields& fields, const std::function<bool(const std::string& name)>& may_lack) {
  for (const Field& field : fields) {
    if (may_lack && may_lack(field.name) && !object.contains(field.name)) continue;
    const auto read = [&]<class T>(T* place) {
      if constexpr (requires { ReadField(object, "", *place); }) {
        ReadField(object, field.name.c_str(), *place);
      } else {
        WrongType(field.name.c_str(), "of a known type");
      }
    };
    std::visit(read, field.value);
  }
}

}  // namespace heed::lab
