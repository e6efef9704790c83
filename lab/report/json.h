// JSON as text.
#ifndef HEED_LAB_REPORT_JSON_H_
#define HEED_LAB_REPORT_JSON_H_

#include <string>

#include <nlohmann/json.hpp>

namespace heed::lab {

// On one line, or indented by so many spaces a level. Never fails: names of files need not be UTF-8, and what is not becomes
// the replacement character U+FFFD; numbers that are not finite become null.
std::string JsonText(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_JSON_H_
