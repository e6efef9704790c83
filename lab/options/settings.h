// Settings in JSON files, which are hostile until checked.
#ifndef HEED_LAB_OPTIONS_SETTINGS_H_
#define HEED_LAB_OPTIONS_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/options/fields.h"

namespace heed::lab {

// What is wrong with a file's contents; who reads the file puts its name before it.
struct FieldError {
  std::string message;
};

// All throw FieldError. A file is one JSON object, in which at most 64 levels are nested.
nlohmann::ordered_json ParseSettings(const std::string& text);
const nlohmann::ordered_json& Member(const nlohmann::ordered_json& object, const char* name);
const nlohmann::ordered_json& ObjectIn(const nlohmann::ordered_json& object, const char* name);

// A member of exactly this type.
void ReadField(const nlohmann::ordered_json& object, const char* name, Field::Value field);
template <class T>
void ReadField(const nlohmann::ordered_json& object, const char* name, T& field) {
  ReadField(object, name, Field::Value(&field));
}

// The fields by their names; one that is not there keeps its value where may_lack says that it may.
void ReadFields(const nlohmann::ordered_json& object, const Fields& fields,
                const std::function<bool(const std::string& name)>& may_lack = {});

}  // namespace heed::lab

#endif  // HEED_LAB_OPTIONS_SETTINGS_H_
