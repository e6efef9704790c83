#include "lab/report/csv_text.h"

#include <boost/algorithm/string/replace.hpp>

namespace heed::lab {
namespace {

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return "\"" + boost::replace_all_copy(text, "\"", "\"\"") + "\"";
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
