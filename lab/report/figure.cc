#include "lab/report/figure.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "heed/error.h"
#include "lab/report/csv_text.h"
#include "lab/report/file.h"
#include "lab/report/npy.h"
#include "lab/report/svg.h"

namespace heed::lab {
namespace {

void RequirePlainName(const Figure& figure) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (figure.name.empty() || !std::ranges::all_of(figure.name, plain))
    throw InvalidArgument("figure '" + figure.name + "': the name may hold letters, digits and '-' only");
}

std::string NameOr(const std::string& label, const char* otherwise) { return label.empty() ? otherwise : label; }

struct CsvFormatter {
  CsvText csv;

  void operator()(const LinePlot& plot) {
    bool spread = false;
    for (const Series& series : plot.series) spread = spread || !series.low.empty();
    std::vector<std::string> cells = {"series", NameOr(plot.x_label, "x"), NameOr(plot.y_label, "y")};
    if (spread) cells.insert(cells.end(), {"low", "high"});
    csv.Line(cells);
    for (const Series& series : plot.series) {
      for (std::size_t i = 0; i < series.x.size(); ++i) {
        cells = {series.name, FormatNumber(series.x[i]), FormatNumber(series.y[i])};
        if (spread) cells.resize(5);
        if (!series.low.empty()) cells[3] = FormatNumber(series.low[i]), cells[4] = FormatNumber(series.high[i]);
        csv.Line(cells);
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
    csv.Row("name", NameOr(chart.y_label, "value"), "low", "high");
    for (const BarChart::Bar& bar : chart.bars) csv.Row(bar.name, bar.value, bar.low, bar.high);
  }

  void operator()(const Diagram& diagram) {
    csv.Line({"kind", "index", "x", "y", "label", "from", "to"});
    for (std::size_t i = 0; i < diagram.nodes.size(); ++i) {
      const Diagram::Node& node = diagram.nodes[i];
      csv.Row("node", i, node.x, node.y, node.label, "", "");
    }
    for (std::size_t i = 0; i < diagram.arrows.size(); ++i) {
      const Diagram::Arrow& arrow = diagram.arrows[i];
      csv.Row("arrow", i, "", "", "", arrow.from, arrow.to);
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
  CsvFormatter formatter;
  std::visit(formatter, figure.content);
  return formatter.csv.text();
}

FigureFiles FilesOf(const Figure& figure, const std::filesystem::path& directory) {
  FigureFiles files{directory / (figure.name + ".svg"), directory / (figure.name + ".csv"), {}};
  if (std::holds_alternative<HeatMap>(figure.content)) files.npy = directory / (figure.name + ".npy");
  return files;
}

std::string WriteFigure(const Figure& figure, const std::filesystem::path& directory) {
  RequirePlainName(figure);
  // Drawn before the first file is written: when gnuplot is missing, nothing is.
  std::string svg = std::visit([&](const auto& content) { return Draw(figure, content); }, figure.content);
  const FigureFiles files = FilesOf(figure, directory);
  WriteFile(files.csv, FormatCsv(figure));
  if (const auto* map = std::get_if<HeatMap>(&figure.content)) {
    WriteFile(files.npy, FormatNpy(map->rows, map->columns, map->values));
  }
  WriteFile(files.svg, svg);
  return svg;
}

}  // namespace heed::lab
