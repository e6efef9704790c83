#include "lab/report/csv_text.h"

namespace heed::lab {
namespace {

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted.push_back('"');
    quoted.push_back(c);
  }
  return quoted + "\"";
}

}  // namespace

void CsvText::Line(const std::vector<std::string>& cells) {
  const char* separator = "";
  for (const std::string& cell : cells) {
    text_ += separator + Quoted(cell);
    separator = ",";
  }
  text_ += '\n';
}

}  // namespace heed::lab
