#include "config_reader.h"

#include <algorithm>
#include <utility>

#include "heed/error.h"
#include "heed/input_file.h"

namespace heed {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr int kDeepest = 64;

}  // namespace

ConfigReader::ConfigReader(const std::string& path) : ConfigReader(path, ReadFile(path, kMostBytes)) {}

ConfigReader::ConfigReader(std::string path, const std::string& text) : path_(std::move(path)) {
  // The parser would take a NUL byte for the end.
  if (text.find('\0') != std::string::npos) Fail("malformed JSON: it holds a NUL byte");
  const auto shallow = [this](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDeepest) Fail("more than " + std::to_string(kDeepest) + " levels are nested");
    return true;
  };
  try {
    json_ = Json::parse(text, shallow);
  } catch (const Json::parse_error& error) {
    Fail("malformed JSON at byte " + std::to_string(error.byte));
  } catch (const Json::out_of_range&) {
    Fail("malformed JSON: a number that no double holds");
  }
  if (!json_.is_object()) Fail("the file is not a JSON object");
}

void ConfigReader::Fail(const std::string& what) const { throw FileError(path_ + ": " + what); }

const ConfigReader::Json& ConfigReader::Member(const Json& object, const char* name) const {
  const auto found = object.find(name);
  if (found == object.end()) Fail(std::string("'") + name + "' is missing");
  return *found;
}

const ConfigReader::Json& ConfigReader::Member(const Json& object, const char* name, Is is, const char* expected) const {
  const Json& value = Member(object, name);
  if (!(value.*is)()) Fail(std::string("'") + name + "' is not " + expected);
  return value;
}

const ConfigReader::Json& ConfigReader::Object(const Json& object, const char* name) const {
  return Member(object, name, &Json::is_object, "an object");
}

std::string ConfigReader::Text(const Json& object, const char* name) const {
  return Member(object, name, &Json::is_string, "a string").get<std::string>();
}

bool ConfigReader::Flag(const Json& object, const char* name) const {
  return Member(object, name, &Json::is_boolean, "true or false").get<bool>();
}

double ConfigReader::Number(const Json& object, const char* name) const {
  return Member(object, name, &Json::is_number, "a number").get<double>();
}

int64_t ConfigReader::Integer(const Json& object, const char* name, int64_t low, int64_t high) const {
  const Json& value = Member(object, name);
  const bool whole =
      value.is_number_integer() &&
      !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!whole || value.get<int64_t>() < low || value.get<int64_t>() > high)
    Fail(std::string("'") + name + "' is not an integer in " + std::to_string(low) + ".." + std::to_string(high));
  return value.get<int64_t>();
}

template <class T>
std::vector<T> ConfigReader::List(const Json& object, const char* name, Is is, const char* expected) const {
  const Json& values = Member(object, name, &Json::is_array, expected);
  if (!std::ranges::all_of(values, [is](const Json& value) { return (value.*is)(); }))
    Fail(std::string("'") + name + "' is not " + expected);
  return values.get<std::vector<T>>();
}

std::vector<double> ConfigReader::Numbers(const Json& object, const char* name) const {
  return List<double>(object, name, &Json::is_number, "a list of numbers");
}

std::vector<std::string> ConfigReader::Texts(const Json& object, const char* name) const {
  return List<std::string>(object, name, &Json::is_string, "a list of strings");
}

}  // namespace heed
