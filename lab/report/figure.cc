#include "lab/report/figure.h"

#include <algorithm>
#include <cstddef>

#include "heed/error.h"
#include "lab/report/csv.h"
#include "lab/report/draw.h"
#include "lab/report/file.h"
#include "lab/report/npy.h"

namespace heed::lab {
namespace {

// Throws InvalidArgument naming the figure unless `condition` holds.
void Require(const Figure& figure, bool condition, const std::string& expected) {
  if (!condition) throw InvalidArgument("figure '" + figure.name + "': " + expected);
}

std::string Counts(std::size_t found, std::size_t expected) {
  return std::to_string(found) + " where " + std::to_string(expected) + " were expected";
}

void CheckSpread(const Figure& figure, const std::string& what, const std::vector<double>& low, const std::vector<double>& high,
                 std::size_t points) {
  Require(figure, low.size() == high.size(), what + ": low has " + Counts(low.size(), high.size()) + " as in high");
  Require(figure, low.empty() || low.size() == points, what + ": low and high have " + Counts(low.size(), points));
}

struct Checker {
  const Figure& figure;

  void operator()(const LinePlot& plot) const {
    Require(figure, !plot.series.empty(), "a line plot needs at least one series");
    for (const Series& series : plot.series) {
      const std::string what = "series '" + series.name + "'";
      Require(figure, series.x.size() == series.y.size(), what + ": y has " + Counts(series.y.size(), series.x.size()));
      CheckSpread(figure, what, series.low, series.high, series.x.size());
    }
  }

  void operator()(const HeatMap& map) const {
    Require(figure, map.rows > 0 && map.columns > 0, "a heat map needs at least one row and one column");
    const bool fits = static_cast<uint64_t>(map.columns) <= map.values.max_size() / static_cast<uint64_t>(map.rows);
    Require(figure, fits && map.values.size() == static_cast<std::size_t>(map.rows) * static_cast<std::size_t>(map.columns),
            "values has " + std::to_string(map.values.size()) + " entries, not rows x columns = " + std::to_string(map.rows) +
                " x " + std::to_string(map.columns));
  }

  void operator()(const BarChart& chart) const {
    Require(figure, !chart.names.empty(), "a bar chart needs at least one bar");
    Require(figure, chart.values.size() == chart.names.size(), "values has " + Counts(chart.values.size(), chart.names.size()));
    CheckSpread(figure, "bars", chart.low, chart.high, chart.names.size());
  }

  void operator()(const Diagram& diagram) const {
    Require(figure, !diagram.nodes.empty(), "a diagram needs at least one node");
    const int nodes = static_cast<int>(diagram.nodes.size());
    for (const Diagram::Arrow& arrow : diagram.arrows) {
      Require(figure, arrow.from >= 0 && arrow.from < nodes && arrow.to >= 0 && arrow.to < nodes,
              "arrow " + std::to_string(arrow.from) + " -> " + std::to_string(arrow.to) + " leaves the " +
                  std::to_string(nodes) + " nodes");
    }
  }
};

void Check(const Figure& figure) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  Require(figure, !figure.name.empty() && std::all_of(figure.name.begin(), figure.name.end(), plain),
          "the name may hold letters, digits and '-' only");
  constexpr int kSmallest = 200, kLargest = 4000;  // pixels: below, axes leave no room for data
  Require(figure, std::min(figure.width, figure.height) >= kSmallest && std::max(figure.width, figure.height) <= kLargest,
          "width and height must be between " + std::to_string(kSmallest) + " and " + std::to_string(kLargest) + " pixels");
  std::visit(Checker{figure}, figure.content);
}

struct Drawer {
  const Figure& figure;
  std::string operator()(const LinePlot& plot) const { return DrawLinePlot(figure, plot); }
  std::string operator()(const HeatMap& map) const { return DrawHeatMap(figure, map); }
  std::string operator()(const BarChart& chart) const { return DrawBarChart(figure, chart); }
  std::string operator()(const Diagram& diagram) const { return DrawDiagram(figure, diagram); }
};

}  // namespace

FigureFiles FilesOf(const Figure& figure, const std::filesystem::path& directory) {
  FigureFiles files{directory / (figure.name + ".svg"), directory / (figure.name + ".csv"), {}};
  if (std::holds_alternative<HeatMap>(figure.content)) files.npy = directory / (figure.name + ".npy");
  return files;
}

FigureFiles WriteFigure(const Figure& figure, const std::filesystem::path& directory) {
  Check(figure);
  // Drawn before the first file is written: when gnuplot is missing, nothing is.
  const std::string svg = std::visit(Drawer{figure}, figure.content);
  FigureFiles files = FilesOf(figure, directory);
  WriteFile(files.csv, FormatCsv(figure));
  if (const auto* map = std::get_if<HeatMap>(&figure.content)) {
    WriteFile(files.npy, FormatNpy(map->rows, map->columns, map->values));
  }
  WriteFile(files.svg, svg);
  return files;
}

}  // namespace heed::lab
