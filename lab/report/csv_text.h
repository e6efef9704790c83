// Comma-separated values (RFC 4180), line by line.
#ifndef HEED_LAB_REPORT_CSV_TEXT_H_
#define HEED_LAB_REPORT_CSV_TEXT_H_

#include <string>
#include <type_traits>
#include <vector>

#include "lab/report/figure.h"

namespace heed::lab {

// Cells that hold a comma, a quote or the end of a line are quoted; numbers read back as the same (FormatNumber).
class CsvText {
 public:
  void Line(const std::vector<std::string>& cells);
  template <class... Cells>
  void Row(const Cells&... cells) {
    Line({Cell(cells)...});
  }

  const std::string& text() const { return text_; }

  static std::string Cell(const std::string& text) { return text; }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  static std::string Cell(Number number) {
    if constexpr (std::is_integral_v<Number>) {
      return std::to_string(number);
    } else {
      return FormatNumber(number);
    }
  }

 private:
  std::string text_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_CSV_TEXT_H_
