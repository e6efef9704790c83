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
    Series series{options.column_label + " " + std::to_string(column), {}, {}, {}, {}};
    for (int64_t row = 0; row < options.steps; ++row) {
      series.x.push_back(static_cast<double>(row));
      series.y.push_back(table.At(row, column));
    }
    plot.series.push_back(std::move(series));
  }
  Figure figure;
  figure.name = "positions-columns";
  figure.title = "Columns of the sinusoidal encoding";
  figure.caption =
      "Each pair of columns holds the sine and the cosine of one frequency: they differ by a quarter of a period, and the "
      "frequency falls from pair to pair.";
  figure.content = std::move(plot);
  figure.height = 290;
  return figure;
}

Figure TableFigure(const PositionsOptions& options, const Rows<float>& table) {
  Figure figure;
  figure.name = "positions-heat-map";
  figure.title = "The sinusoidal encoding as a heat map";
  figure.caption =
      "A row is one position. Columns at the left alternate fast from row to row, columns at the right slowly, like the digits "
      "of a binary number read from its end.";
  figure.content = HeatMap{"Column (encoding dimension)", "Row (position)", options.steps, options.width,
                           std::vector<double>(table.values.begin(), table.values.end())};
  figure.width = 440;
  figure.height = 480;
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

Figure SimilarityFigure(const PositionsOptions& options, const Rows<float>& table) {
  Figure figure;
  figure.name = "positions-similarity";
  figure.title = "Similarity of two positions against their distance";
  figure.caption =
      options.width % 2 == 0
          ? "The dot product of two rows depends on their distance alone: the band from the least to the greatest value over "
            "all "
            "positions is as thin as the line."
          : "The band runs from the least to the greatest dot product over all positions. It has a width because the last sine "
            "of an odd width has no cosine beside it; without that column the dot product depends on the distance alone.";
  figure.content = LinePlot{"Distance (positions)", "Dot product of two rows", false, false, {Similarity(table)}};
  figure.height = 320;
  return figure;
}

}  // namespace

std::vector<Figure> SinusoidalFigures(const PositionsOptions& options, const SchemeTable&, const Words&) {
  const std::vector<float> values = EmittedSinusoidal(options);
  const Rows<float> table{values, options.steps, options.width};
  return {ColumnsFigure(options, table), TableFigure(options, table), SimilarityFigure(options, table)};
}

std::vector<Figure> LearnedFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  const Rows<double> rows{table.values, table.rows, table.columns};
  Figure map;
  map.name = "positions-learned-heat-map";
  map.title = table.trained ? "The learned table of a trained model" : "A learned table as it starts";
  map.caption = table.trained ? "A row is one position. What neighbouring rows have in common comes from training."
                              : "A row is one position. Entries are independent, with a standard deviation of 0.02.";
  map.content = HeatMap{"Column (encoding dimension)", "Row (position)", table.rows, table.columns, table.values};
  map.width = 440;
  map.height = 480;
  Figure similarity;
  similarity.name = "positions-learned-similarity";
  similarity.title = "Similarity of two learned positions against their distance";
  similarity.caption =
      "The dot product of two rows: mean over the positions, and the band from the least to the greatest. A table that has "
      "learnt distances falls from the left; one that has not is flat but for distance 0.";
  similarity.content = LinePlot{"Distance (positions)", "Dot product of two rows", false, false, {Similarity(rows)}};
  similarity.height = 320;
  return {map, similarity};
}

std::vector<Figure> RandomFourierFigures(const PositionsOptions& options, const SchemeTable& table, const Words&) {
  const auto count = static_cast<double>(table.rows);
  Figure map;
  map.name = FigureName(options.scheme, "heat-map");
  map.title = "Random Fourier features of positions from 0 to 1";
  map.caption =
      "A row is one position. The left half are cosines, the right half the sines of the same frequencies, which are drawn "
      "from "
      "N(0, 1) and in no order.";
  map.content = HeatMap{"Column (encoding dimension)", "Row (position times " + std::to_string(table.rows) + ")", table.rows,
                        table.columns, table.values};
  map.width = 440;
  map.height = 480;
  Series drawn = Similarity(Rows<double>{table.values, table.rows, table.columns}), bell{"bell curve", {}, {}, {}, {}};
  for (double& x : drawn.x) {
    x /= count;
    bell.x.push_back(x);
    bell.y.push_back(static_cast<double>(table.columns) / 2 * std::exp(-2 * std::pow(std::numbers::pi * x, 2)));
  }
  Figure similarity;
  similarity.name = FigureName(options.scheme, "similarity");
  similarity.title = "Similarity of two positions against their distance";
  similarity.caption =
      "The dot product of two rows depends on their distance alone. It approximates width/2 exp(-2 (pi d)^2), the better the "
      "wider the encoding.";
  similarity.content = LinePlot{"Distance", "Dot product of two rows", false, false, {std::move(drawn), std::move(bell)}};
  similarity.height = 320;
  return {map, similarity};
}

std::vector<Figure> VectorFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  const int64_t reach = (table.rows - 1) / 2;
  Figure map;
  map.name = "positions-shaw-heat-map";
  map.title = table.trained ? "Shaw's key vectors of a trained model" : "Shaw's key vectors as they start";
  map.caption = "A row is one offset, row " + std::to_string(reach) +
                " that of a token to itself; its vector is added to the key that a query sees there. Farther offsets share the "
                "first and the last row.";
  map.content = HeatMap{"Column (head dimension)", "Row (offset + " + std::to_string(reach) + ")", table.rows, table.columns,
                        table.values};
  map.width = 440;
  map.height = 480;
  Figure similarity;
  similarity.name = "positions-shaw-similarity";
  similarity.title = "Similarity of two offsets' vectors against their difference";
  similarity.caption = "The dot product of two rows: mean over the offsets, and the band from the least to the greatest.";
  Series series = Similarity(Rows<double>{table.values, table.rows, table.columns});
  series.name = "mean over offsets";
  similarity.content = LinePlot{"Difference of offsets", "Dot product of two rows", false, false, {std::move(series)}};
  similarity.height = 320;
  return {map, similarity};
}

}  // namespace heed::lab
