#include "lab/report/figure.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>

#include <boost/algorithm/string/replace.hpp>

#include "lab/report/file.h"
#include "lab/report/svg.h"

namespace heed::lab {
namespace {

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

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return "\"" + boost::replace_all_copy(text, "\"", "\"\"") + "\"";
}

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

void CsvText::Line(const std::vector<std::string>& cells) {
  const char* separator = "";
  for (const std::string& cell : cells) {
    text_ += separator + Quoted(cell);
    separator = ",";
  }
  text_ += '\n';
}

std::string NpyHeader(const std::string& type, const std::vector<int64_t>& shape) {
  constexpr char kMagic[] = "\x93NUMPY\x01";           // and, as the terminating zero, minor version 0
  constexpr std::size_t kPrefix = sizeof(kMagic) + 2;  // the header's length follows as two bytes, low first
  constexpr std::size_t kAlignment = 64;               // of the first value
  const char order = std::endian::native == std::endian::little ? '<' : '>';
  std::string header = std::string("{'descr': '") + order + type + "', 'fortran_order': False, 'shape': (";
  // As Python writes a tuple: one of one item has a comma.
  for (std::size_t i = 0; i < shape.size(); ++i) header += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  header += shape.size() == 1 ? ",), }" : "), }";
  const std::size_t unpadded = kPrefix + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ').push_back('\n');

  std::string file(kMagic, sizeof(kMagic));
  file.push_back(static_cast<char>(header.size() & 0xff));
  file.push_back(static_cast<char>(header.size() >> 8));
  return file + header;
}

std::string FormatNpy(int64_t rows, int64_t columns, const std::vector<double>& values) {
  std::string file = NpyHeader("f8", {rows, columns});
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  return file;
}

}  // namespace heed::lab
