#include <algorithm>
#include <cstddef>
#include <utility>

#include "heed/positions.h"
#include "lab/positions/figures.h"
#include "lab/positions/table.h"

namespace heed::lab {
namespace {

Figure AlibiLines(const PositionsOptions& options, const std::vector<float>& table) {
  LinePlot plot{"Offset (key position - query position)", "Bias added to the score", false, false, {}};
  const int64_t offsets = 2 * options.steps - 1;
  for (int64_t head = options.first_column; head < options.last_column; ++head) {
    Series series{"Head " + std::to_string(head), {}, {}, {}, {}};
    for (int64_t offset = 0; offset < offsets; ++offset) {
      series.x.push_back(static_cast<double>(offset - (options.steps - 1)));
      series.y.push_back(table[static_cast<std::size_t>(head * offsets + offset)]);
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
  const int64_t offsets = 2 * options.steps - 1;
  map.values.reserve(static_cast<std::size_t>(options.steps * options.steps));
  for (int64_t query = 0; query < options.steps; ++query) {
    for (int64_t key = 0; key < options.steps; ++key) {
      map.values.push_back(table[static_cast<std::size_t>(options.first_column * offsets + key - query + options.steps - 1)]);
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

// Mean, least and greatest over the heads at each distance, for keys before and behind the query. bias(head, offset) is asked
// for offsets 1 - steps .. steps - 1.
template <class Bias>
Figure DistanceFigure(const std::string& scheme, int64_t steps, int64_t heads, const Bias& bias) {
  LinePlot plot{"Distance (positions)", "Bias added to the score", false, false, {}};
  for (const int64_t sign : {-1, 1}) {
    Series series{sign < 0 ? "keys before the query" : "keys behind the query", {}, {}, {}, {}};
    for (int64_t distance = 0; distance < steps; ++distance) {
      double sum = 0, low = bias(0, sign * distance), high = low;
      for (int64_t head = 0; head < heads; ++head) {
        const double value = bias(head, sign * distance);
        sum += value, low = std::min(low, value), high = std::max(high, value);
      }
      series.x.push_back(static_cast<double>(distance));
      series.y.push_back(sum / static_cast<double>(heads));
      series.low.push_back(low);
      series.high.push_back(high);
    }
    plot.series.push_back(std::move(series));
  }
  Figure figure;
  figure.name = "positions-" + scheme + "-similarity";
  figure.title = "Bias against distance";
  figure.caption = "Mean over the heads, and the band from the least to the greatest. What lies lower is looked at less.";
  figure.content = std::move(plot);
  figure.height = 320;
  return figure;
}

}  // namespace

std::vector<Figure> AlibiFigures(const PositionsOptions& options) {
  const std::vector<float> table = EmittedAlibi(options);
  const int64_t offsets = 2 * options.steps - 1;
  const auto bias = [&](int64_t head, int64_t offset) -> double {
    return table[static_cast<std::size_t>(head * offsets + offset + options.steps - 1)];
  };
  return {AlibiLines(options, table), AlibiMatrix(options, table), DistanceFigure("alibi", options.steps, options.width, bias)};
}

std::vector<Figure> BiasFigures(const PositionsOptions& options, const SchemeTable& table) {
  const int64_t heads = table.rows, reach = (table.columns - 1) / 2;
  const auto bias = [&](int64_t head, int64_t offset) {
    return table.values[static_cast<std::size_t>(head * table.columns + std::clamp(offset, -reach, reach) + reach)];
  };
  const std::string name = table.scheme == "t5" ? "T5's bias" : "The relative bias";
  Figure lines;
  lines.name = "positions-" + table.scheme + "-heads";
  lines.title = name + " of attention heads" + (table.trained ? "" : " as it starts");
  lines.caption = table.trained
                      ? "One trained number for each head and " + std::string(table.scheme == "t5" ? "bucket" : "offset") +
                            ". Offsets beyond the ends share the last number."
                      : "All numbers start at zero; heed positions --run DIR shows what a training made of them.";
  LinePlot plot{"Offset (key position - query position)", "Bias added to the score", false, false, {}};
  for (int64_t head = options.first_column; head < std::min(options.last_column, heads); ++head) {
    Series series{"Head " + std::to_string(head), {}, {}, {}, {}};
    for (int64_t offset = 1 - options.steps; offset < options.steps; ++offset) {
      series.x.push_back(static_cast<double>(offset));
      series.y.push_back(bias(head, offset));
    }
    plot.series.push_back(std::move(series));
  }
  lines.content = std::move(plot);
  lines.height = 320;
  Figure map;
  map.name = "positions-" + table.scheme + "-heat-map";
  map.title = name + " of every head and offset";
  map.caption =
      "Column " + std::to_string(reach) + " is the offset of a token to itself; keys before the query lie to its left.";
  map.content = HeatMap{"Column (offset + " + std::to_string(reach) + ")", "Head", heads, table.columns, table.values};
  map.height = 260;
  return {lines, map, DistanceFigure(table.scheme, options.steps, heads, bias)};
}

Figure BucketFigure(const PositionsOptions& options) {
  const int64_t offsets = 2 * options.steps - 1;
  const T5Options t5{options.buckets, options.max_distance, /*bidirectional=*/true};
  std::vector<int64_t> buckets(static_cast<std::size_t>(offsets));
  T5Buckets(t5, options.steps - 1, View<int64_t, 1>::Contiguous(buckets.data(), {offsets}));
  Series series{"bucket", {}, {}, {}, {}};
  for (int64_t i = 0; i < offsets; ++i) {
    series.x.push_back(static_cast<double>(i - (options.steps - 1)));
    series.y.push_back(static_cast<double>(buckets[static_cast<std::size_t>(i)]));
  }
  Figure figure;
  figure.name = "positions-t5-buckets";
  figure.title = "T5's bucket of each offset";
  figure.caption =
      "Near offsets have a bucket each, farther ones share buckets that grow; all keys of a bucket get one number.";
  figure.content = LinePlot{"Offset (key position - query position)", "Bucket", false, false, {std::move(series)}};
  figure.height = 320;
  return figure;
}

}  // namespace heed::lab
