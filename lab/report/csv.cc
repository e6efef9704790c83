#include "lab/report/csv.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <variant>
#include <vector>

#include "lab/report/csv_text.h"

namespace heed::lab {
namespace {

std::string NameOr(const std::string& label, const char* otherwise) { return label.empty() ? otherwise : label; }

struct Formatter {
  CsvText csv;

  void operator()(const LinePlot& plot) {
    bool spread = false;
    for (const Series& series : plot.series) spread = spread || !series.low.empty();
    const std::string x_label = NameOr(plot.x_label, "x"), y_label = NameOr(plot.y_label, "y");
    spread ? csv.Line({"series", x_label, y_label, "low", "high"}) : csv.Line({"series", x_label, y_label});
    for (const Series& series : plot.series) {
      for (std::size_t i = 0; i < series.x.size(); ++i) {
        const std::string x = FormatNumber(series.x[i]), y = FormatNumber(series.y[i]);
        if (!spread) {
          csv.Line({series.name, x, y});
        } else if (series.low.empty()) {
          csv.Line({series.name, x, y, "", ""});
        } else {
          csv.Line({series.name, x, y, FormatNumber(series.low[i]), FormatNumber(series.high[i])});
        }
      }
    }
  }

  void operator()(const HeatMap& map) {
    std::vector<std::string> cells = {NameOr(map.y_label, "row")};
    for (int64_t column = 0; column < map.columns; ++column) cells.push_back(std::to_string(column));
    csv.Line(cells);
    for (int64_t row = 0; row < map.rows; ++row) {
      cells = {std::to_string(row)};
      for (int64_t column = 0; column < map.columns; ++column) {
        cells.push_back(FormatNumber(map.values[static_cast<std::size_t>(row * map.columns + column)]));
      }
      csv.Line(cells);
    }
  }

  void operator()(const BarChart& chart) {
    const std::string label = NameOr(chart.y_label, "value");
    chart.low.empty() ? csv.Line({"name", label}) : csv.Line({"name", label, "low", "high"});
    for (std::size_t i = 0; i < chart.names.size(); ++i) {
      const std::string value = FormatNumber(chart.values[i]);
      if (chart.low.empty()) {
        csv.Line({chart.names[i], value});
      } else {
        csv.Line({chart.names[i], value, FormatNumber(chart.low[i]), FormatNumber(chart.high[i])});
      }
    }
  }

  void operator()(const Diagram& diagram) {
    csv.Line({"kind", "index", "x", "y", "label", "from", "to"});
    for (std::size_t i = 0; i < diagram.nodes.size(); ++i) {
      const Diagram::Node& node = diagram.nodes[i];
      csv.Line({"node", std::to_string(i), FormatNumber(node.x), FormatNumber(node.y), node.label, "", ""});
    }
    for (std::size_t i = 0; i < diagram.arrows.size(); ++i) {
      const Diagram::Arrow& arrow = diagram.arrows[i];
      csv.Line({"arrow", std::to_string(i), "", "", "", std::to_string(arrow.from), std::to_string(arrow.to)});
    }
  }
};

}  // namespace

std::string FormatNumber(double value) {
  if (std::isnan(value)) return "nan";  // whatever its sign bit
  char buffer[32];                      // the longest double has 24 characters
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end.ptr);
}

std::string FormatCsv(const Figure& figure) {
  Formatter formatter;
  std::visit(formatter, figure.content);
  return formatter.csv.text();
}

}  // namespace heed::lab
