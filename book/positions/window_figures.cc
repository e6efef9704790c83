// Of schemes whose tokens stand in a square.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "book/positions/portrait.h"
#include "heed/positions.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;

// The numbers of keys in the query's own row: [heads, 2 * side - 1].
SchemeTable OwnRow(const SchemeTable& table, int64_t side) {
  const int64_t offsets = 2 * side - 1;
  SchemeTable row{table.scheme, table.rows, offsets, {}, table.trained};
  for (int64_t head = 0; head < table.rows; ++head) {
    const auto first = table.values.begin() + (head * table.columns + (side - 1) * offsets);
    row.values.insert(row.values.end(), first, first + offsets);
  }
  return row;
}

HeatMap SquareOf(int64_t side, std::vector<double> values) {
  const std::string reach = std::to_string(side - 1);
  return {"Columns from query to key + " + reach, "Rows from query to key + " + reach, 2 * side - 1, 2 * side - 1,
          std::move(values)};
}

// sign(d) log2(1 + 8|d|/(side - 1))/3.
double LogarithmicOffset(double offset, int64_t side) {
  const double share = 8 * std::fabs(offset) / static_cast<double>(std::max<int64_t>(1, side - 1));
  return std::copysign(std::log2(1 + share) / 3, offset);
}

}  // namespace

std::vector<Figure> WindowFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words) {
  PositionsOptions along = options;
  along.steps = SideOf(options);
  std::vector<Figure> figures = BiasFigures(along, OwnRow(table, along.steps), words);
  const auto first = table.values.begin() + options.first_column * table.columns;
  figures[1] = Drawn("window-square",
                     "The bias of head " + std::to_string(options.first_column) + " over the window" + StartNote(table, words),
                     SquareOf(along.steps, {first, first + table.columns}));
  figures[1].name = FigureName(table.scheme, "heat-map"), figures[1].width = 480, figures[1].height = 400;
  figures[2].title += ", along a row";
  return figures;
}

std::vector<Figure> LogarithmicFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words) {
  std::vector<Figure> figures = WindowFigures(options, table, words);
  LinePlot plot = std::get<LinePlot>(figures.front().content);
  plot.x_label = "Offset on the logarithmic scale";
  for (Series& series : plot.series) {
    for (double& x : series.x) x = LogarithmicOffset(x, SideOf(options));
  }
  Figure drawn =
      Drawn("window-network", words.subject + " over what its network is given" + StartNote(table, words), std::move(plot));
  drawn.name = FigureName(table.scheme, "network");
  figures.insert(figures.end() - 1, std::move(drawn));
  return figures;
}

namespace {

// The cosines of the angles of every token of the square, row after row, and pair of columns.
Figure AxialAngles(const PositionsOptions& options, const std::vector<double>& frequencies) {
  const int64_t side = SideOf(options);
  HeatMap cosines{"Pair of columns", "Token (row by row)", side * side, options.width / 2, {}};
  for (int64_t token = 0; token < side * side; ++token) {
    for (const int64_t position : {token / side, token % side}) {
      for (const double frequency : frequencies) cosines.values.push_back(std::cos(static_cast<double>(position) * frequency));
    }
  }
  return Drawn("axial-rotary-heat-map", "How far axial rotary positions turn each pair of columns", std::move(cosines),
               "side"_a = side);
}

}  // namespace

std::vector<Figure> AxialRotaryFigures(const PositionsOptions& options, const SchemeTable&, const Words&) {
  const std::vector<double> frequencies = SinusoidalFrequencies(options.width / 2);
  // Half of the product of two vectors of ones, each turned by its place: what one axis gives at a distance along it.
  const auto half = [&](int64_t distance) {
    double sum = 0;
    for (const double frequency : frequencies) sum += 2 * std::cos(static_cast<double>(distance) * frequency);
    return sum;
  };
  const int64_t side = SideOf(options);
  std::vector<double> products;
  for (int64_t rows = 1 - side; rows < side; ++rows) {
    for (int64_t columns = 1 - side; columns < side; ++columns) products.push_back(half(rows) + half(columns));
  }
  Figure square =
      Drawn("axial-rotary-square", "Score of a constant query and key over their offset", SquareOf(side, std::move(products)));
  square.width = 480, square.height = 400;
  LinePlot plot{"Distance (positions)", "Dot product before scaling", false, false, {}};
  plot.series = {CurveOf("along one axis", 0, options.steps, [&](int64_t distance) { return half(distance) + half(0); }),
                 CurveOf("along both axes", 0, options.steps, [&](int64_t distance) { return 2 * half(distance); })};
  return {AxialAngles(options, frequencies), std::move(square),
          Drawn("axial-rotary-similarity", "Score of a constant query and key against their distance", std::move(plot))};
}

}  // namespace heed::lab
