#include "lab/positions/positions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "heed/error.h"
#include "lab/positions/table.h"

namespace heed::lab {
namespace {

// The command that makes the figures of these options again.
std::string Command(const PositionsOptions& options) {
  std::string command = "heed positions --steps " + std::to_string(options.steps) + " --width " +
                        std::to_string(options.width) + " --columns " + std::to_string(options.first_column) + ":" +
                        std::to_string(options.last_column);
  if (options.scheme != "sinusoidal") command += " --scheme " + options.scheme;
  if (options.column_label != PositionsOptions().column_label) command += " --label " + options.column_label;
  return command + " --out DIR";
}

double At(const std::vector<float>& table, int64_t width, int64_t row, int64_t column) {
  return table[static_cast<std::size_t>(row * width + column)];
}

Figure ColumnsFigure(const PositionsOptions& options, const std::vector<float>& table) {
  LinePlot plot{"Row (position)", "", false, false, {}};
  for (int64_t column = options.first_column; column < options.last_column; ++column) {
    Series series{options.column_label + " " + std::to_string(column), {}, {}, {}, {}};
    for (int64_t row = 0; row < options.steps; ++row) {
      series.x.push_back(static_cast<double>(row));
      series.y.push_back(At(table, options.width, row, column));
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

Figure TableFigure(const PositionsOptions& options, const std::vector<float>& table) {
  Figure figure;
  figure.name = "positions-heat-map";
  figure.title = "The sinusoidal encoding as a heat map";
  figure.caption =
      "A row is one position. Columns at the left alternate fast from row to row, columns at the right slowly, like the digits "
      "of a binary number read from its end.";
  figure.content = HeatMap{"Column (encoding dimension)", "Row (position)", options.steps, options.width,
                           std::vector<double>(table.begin(), table.end())};
  figure.width = 440;
  figure.height = 480;
  return figure;
}

double Dot(const std::vector<float>& table, int64_t width, int64_t row, int64_t other) {
  double sum = 0;
  for (int64_t column = 0; column < width; ++column) sum += At(table, width, row, column) * At(table, width, other, column);
  return sum;
}

// Mean, least and greatest dot product of rows at each distance, over at most 512 rows spread evenly: the time stays linear in
// the steps for each distance drawn, of which there are at most 1024.
Figure SimilarityFigure(const PositionsOptions& options, const std::vector<float>& table) {
  constexpr int64_t kMostRows = 512, kMostDistances = 1024;
  Series series{"mean over positions", {}, {}, {}, {}};
  for (int64_t distance = 0; distance < std::min(options.steps, kMostDistances); ++distance) {
    const int64_t rows = options.steps - distance, stride = (rows + kMostRows - 1) / kMostRows;
    double sum = 0, low = INFINITY, high = -INFINITY;
    for (int64_t row = 0; row < rows; row += stride) {
      const double dot = Dot(table, options.width, row, row + distance);
      sum += dot, low = std::min(low, dot), high = std::max(high, dot);
    }
    series.x.push_back(static_cast<double>(distance));
    const int64_t taken = (rows + stride - 1) / stride;
    series.y.push_back(sum / static_cast<double>(taken));
    series.low.push_back(low);
    series.high.push_back(high);
  }
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
  figure.content = LinePlot{"Distance (positions)", "Dot product of two rows", false, false, {std::move(series)}};
  figure.height = 320;
  return figure;
}

Figure AlibiLines(const PositionsOptions& options, const std::vector<float>& table) {
  LinePlot plot{"Offset (key position - query position)", "Bias added to the score", false, false, {}};
  const int64_t offsets = 2 * options.steps - 1;
  for (int64_t head = options.first_column; head < options.last_column; ++head) {
    Series series{"Head " + std::to_string(head), {}, {}, {}, {}};
    for (int64_t offset = 0; offset < offsets; ++offset) {
      series.x.push_back(static_cast<double>(offset - (options.steps - 1)));
      series.y.push_back(At(table, offsets, head, offset));
    }
    plot.series.push_back(std::move(series));
  }
  Figure figure;
  figure.name = "positions-alibi-heads";
  figure.title = "Linear biases of attention heads";
  figure.caption = "Each head lowers the scores of distant keys by a slope of its own; the slopes fall geometrically.";
  figure.content = std::move(plot);
  figure.height = 320;
  return figure;
}

Figure AlibiMatrix(const PositionsOptions& options, const std::vector<float>& table) {
  HeatMap map{"Key position", "Query position", options.steps, options.steps, {}};
  map.values.reserve(static_cast<std::size_t>(options.steps * options.steps));
  for (int64_t query = 0; query < options.steps; ++query) {
    for (int64_t key = 0; key < options.steps; ++key) {
      map.values.push_back(At(table, 2 * options.steps - 1, options.first_column, key - query + options.steps - 1));
    }
  }
  Figure figure;
  figure.name = "positions-alibi-matrix";
  figure.title = "The linear bias of head " + std::to_string(options.first_column);
  figure.caption = "The bias depends on the offset alone, so it is constant along each diagonal.";
  figure.content = std::move(map);
  figure.width = 480;
  return figure;
}

}  // namespace

std::vector<Figure> PositionFigures(const PositionsOptions& options) {
  CheckPositionsOptions(options);
  std::vector<Figure> figures;
  if (options.scheme == "sinusoidal") {
    const std::vector<float> table = EmittedSinusoidal(options);
    figures = {ColumnsFigure(options, table), TableFigure(options, table), SimilarityFigure(options, table)};
  } else {
    const std::vector<float> table = EmittedAlibi(options);
    figures = {AlibiLines(options, table), AlibiMatrix(options, table)};
  }
  for (Figure& figure : figures) figure.command = Command(options);
  return figures;
}

std::vector<std::string> BinaryTable(int64_t count) {
  if (count < 1) throw InvalidArgument("count: expected at least 1, got " + std::to_string(count));
  const int digits = std::max<int>(std::bit_width(static_cast<uint64_t>(count - 1)), 1);
  std::vector<std::string> lines;
  for (int64_t number = 0; number < count; ++number) {
    std::string line = std::to_string(number) + " in binary is ";
    for (int digit = digits - 1; digit >= 0; --digit) line += (number >> digit & 1) != 0 ? '1' : '0';
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace heed::lab
