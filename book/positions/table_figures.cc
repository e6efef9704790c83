#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "book/positions/figures.h"
#include "book/positions/table.h"

namespace heed::lab {
namespace {

// Rows of numbers: positions, or offsets.
template <class Number>
struct Rows {
  const std::vector<Number>& values;  // row-major
  int64_t count, width;

  double At(int64_t row, int64_t column) const { return values[static_cast<std::size_t>(row * width + column)]; }
  double Dot(int64_t row, int64_t other) const {
    double sum = 0;
    for (int64_t column = 0; column < width; ++column) sum += At(row, column) * At(other, column);
    return sum;
  }
};

Figure ColumnsFigure(const PositionsOptions& options, const Rows<float>& table) {
  LinePlot plot{"Row (position)", "", false, false, {}};
  for (int64_t column = options.first_column; column < options.last_column; ++column) {
    plot.series.push_back(CurveOf(options.column_label + " " + std::to_string(column), 0, options.steps,
                                  [&](int64_t row) { return table.At(row, column); }));
  }
  Figure figure = Drawn("columns", "Columns of the sinusoidal encoding", std::move(plot));
  figure.height = 290;
  return figure;
}

// Mean, least and greatest dot product of rows at each distance, over at most 512 rows spread evenly: the time stays linear in
// the rows for each distance drawn, of which there are at most 1024.
template <class Number>
Series Similarity(const Rows<Number>& table) {
  constexpr int64_t kMostRows = 512, kMostDistances = 1024;
  Series series{"mean over positions", {}, {}, {}, {}};
  for (int64_t distance = 0; distance < std::min(table.count, kMostDistances); ++distance) {
    const int64_t rows = table.count - distance, stride = (rows + kMostRows - 1) / kMostRows;
    double sum = 0, low = INFINITY, high = -INFINITY;
    for (int64_t row = 0; row < rows; row += stride) {
      const double dot = table.Dot(row, row + distance);
      sum += dot, low = std::min(low, dot), high = std::max(high, dot);
    }
    series.x.push_back(static_cast<double>(distance));
    const int64_t taken = (rows + stride - 1) / stride;
    series.y.push_back(sum / static_cast<double>(taken));
    series.low.push_back(low);
    series.high.push_back(high);
  }
  return series;
}

template <class Number>
LinePlot SimilarityPlot(const Rows<Number>& table) {
  return {"Distance (positions)", "Dot product of two rows", false, false, {Similarity(table)}};
}

}  // namespace

std::vector<Figure> SinusoidalFigures(const PositionsOptions& options, const SchemeTable&, const Words&) {
  const std::vector<float> values = EmittedSinusoidal(options);
  const Rows<float> table{values, options.steps, options.width};
  HeatMap map{"Column (encoding dimension)", "Row (position)", options.steps, options.width, {values.begin(), values.end()}};
  Figure similarity = Drawn("similarity", "Similarity of two positions against their distance", SimilarityPlot(table));
  if (options.width % 2 != 0) similarity.caption = PositionTexts()("similarity-odd");
  return {ColumnsFigure(options, table), Drawn("heat-map", "The sinusoidal encoding as a heat map", std::move(map)),
          std::move(similarity)};
}

std::vector<Figure> LearnedFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  const Rows<double> rows{table.values, table.rows, table.columns};
  Figure map = Drawn(table.trained ? "learned-heat-map-trained" : "learned-heat-map",
                     table.trained ? "The learned table of a trained model" : "A learned table as it starts",
                     HeatMap{"Column (encoding dimension)", "Row (position)", table.rows, table.columns, table.values});
  map.name = "positions-learned-heat-map";
  return {std::move(map),
          Drawn("learned-similarity", "Similarity of two learned positions against their distance", SimilarityPlot(rows))};
}

std::vector<Figure> RandomFourierFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  const auto count = static_cast<double>(table.rows);
  HeatMap map{"Column (encoding dimension)", "Row (position times " + std::to_string(table.rows) + ")", table.rows,
              table.columns, table.values};
  Series drawn = Similarity(Rows<double>{table.values, table.rows, table.columns}), bell{"bell curve", {}, {}, {}, {}};
  for (double& x : drawn.x) {
    x /= count;
    bell.x.push_back(x);
    bell.y.push_back(static_cast<double>(table.columns) / 2 * std::exp(-2 * std::pow(std::numbers::pi * x, 2)));
  }
  LinePlot plot{"Distance", "Dot product of two rows", false, false, {std::move(drawn), std::move(bell)}};
  return {Drawn("random-fourier-heat-map", "Random Fourier features of positions from 0 to 1", std::move(map)),
          Drawn("random-fourier-similarity", "Similarity of two positions against their distance", std::move(plot))};
}

std::vector<Figure> VectorFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  using namespace fmt::literals;
  const std::string reach = std::to_string((table.rows - 1) / 2);
  HeatMap map{"Column (head dimension)", "Row (offset + " + reach + ")", table.rows, table.columns, table.values};
  Series series = Similarity(Rows<double>{table.values, table.rows, table.columns});
  series.name = "mean over offsets";
  LinePlot plot{"Difference of offsets", "Dot product of two rows", false, false, {std::move(series)}};
  return {Drawn("shaw-heat-map", table.trained ? "Shaw's key vectors of a trained model" : "Shaw's key vectors as they start",
                std::move(map), "reach"_a = reach),
          Drawn("shaw-similarity", "Similarity of two offsets' vectors against their difference", std::move(plot))};
}

}  // namespace heed::lab
