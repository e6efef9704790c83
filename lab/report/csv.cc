#include "lab/report/csv.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <variant>

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

void AddLine(std::string& csv, std::initializer_list<std::string> cells) {
  const char* separator = "";
  for (const std::string& cell : cells) {
    csv += separator + Quoted(cell);
    separator = ",";
  }
  csv += '\n';
}

std::string NameOr(const std::string& label, const char* otherwise) { return label.empty() ? otherwise : label; }

struct Formatter {
  std::string csv;

  void operator()(const LinePlot& plot) {
    bool spread = false;
    for (const Series& series : plot.series) spread = spread || !series.low.empty();
    const std::string x_label = NameOr(plot.x_label, "x"), y_label = NameOr(plot.y_label, "y");
    spread ? AddLine(csv, {"series", x_label, y_label, "low", "high"}) : AddLine(csv, {"series", x_label, y_label});
    for (const Series& series : plot.series) {
      for (std::size_t i = 0; i < series.x.size(); ++i) {
        const std::string x = FormatNumber(series.x[i]), y = FormatNumber(series.y[i]);
        if (!spread) {
          AddLine(csv, {series.name, x, y});
        } else if (series.low.empty()) {
          AddLine(csv, {series.name, x, y, "", ""});
        } else {
          AddLine(csv, {series.name, x, y, FormatNumber(series.low[i]), FormatNumber(series.high[i])});
        }
      }
    }
  }

  void operator()(const HeatMap& map) {
    csv += Quoted(NameOr(map.y_label, "row"));
    for (int64_t column = 0; column < map.columns; ++column) csv += "," + std::to_string(column);
    csv += '\n';
    for (int64_t row = 0; row < map.rows; ++row) {
      csv += std::to_string(row);
      for (int64_t column = 0; column < map.columns; ++column) {
        csv += "," + FormatNumber(map.values[static_cast<std::size_t>(row * map.columns + column)]);
      }
      csv += '\n';
    }
  }

  void operator()(const BarChart& chart) {
    const std::string label = NameOr(chart.y_label, "value");
    chart.low.empty() ? AddLine(csv, {"name", label}) : AddLine(csv, {"name", label, "low", "high"});
    for (std::size_t i = 0; i < chart.names.size(); ++i) {
      const std::string value = FormatNumber(chart.values[i]);
      if (chart.low.empty()) {
        AddLine(csv, {chart.names[i], value});
      } else {
        AddLine(csv, {chart.names[i], value, FormatNumber(chart.low[i]), FormatNumber(chart.high[i])});
      }
    }
  }

  void operator()(const Diagram& diagram) {
    AddLine(csv, {"kind", "index", "x", "y", "label", "from", "to"});
    for (std::size_t i = 0; i < diagram.nodes.size(); ++i) {
      const Diagram::Node& node = diagram.nodes[i];
      AddLine(csv, {"node", std::to_string(i), FormatNumber(node.x), FormatNumber(node.y), node.label, "", ""});
    }
    for (std::size_t i = 0; i < diagram.arrows.size(); ++i) {
      const Diagram::Arrow& arrow = diagram.arrows[i];
      AddLine(csv, {"arrow", std::to_string(i), "", "", "", std::to_string(arrow.from), std::to_string(arrow.to)});
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
  return formatter.csv;
}

}  // namespace heed::lab
