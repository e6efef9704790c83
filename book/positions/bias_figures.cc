#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "book/positions/figures.h"
#include "book/positions/table.h"
#include "heed/positions.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;

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
  return Drawn("alibi-heads", "Linear biases of attention heads", std::move(plot));
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
  Figure figure = Drawn("alibi-matrix", "The linear bias of head " + std::to_string(options.first_column), std::move(map));
  figure.width = 480, figure.height = 400;
  return figure;
}

using NumberOfHead = std::function<double(int64_t head, int64_t offset)>;

// Mean, least and greatest over the heads at each distance, for keys before and behind the query. The number is asked of
// offsets 1 - steps .. steps - 1.
Figure DistanceFigure(const std::string& scheme, int64_t steps, int64_t heads, const Words& words, const NumberOfHead& number) {
  LinePlot plot{"Distance (positions)", words.label, false, false, {}};
  for (const int64_t sign : {-1, 1}) {
    Series series{sign < 0 ? "keys before the query" : "keys behind the query", {}, {}, {}, {}};
    for (int64_t distance = 0; distance < steps; ++distance) {
      double sum = 0, low = number(0, sign * distance), high = low;
      for (int64_t head = 0; head < heads; ++head) {
        const double value = number(head, sign * distance);
        sum += value, low = std::min(low, value), high = std::max(high, value);
      }
      series.x.push_back(static_cast<double>(distance));
      series.y.push_back(sum / static_cast<double>(heads));
      series.low.push_back(low);
      series.high.push_back(high);
    }
    plot.series.push_back(std::move(series));
  }
  Figure figure = Drawn("bias-similarity", "What is added to a score against the distance", std::move(plot));
  figure.name = FigureName(scheme, "similarity");
  return figure;
}

Figure HeadLines(const PositionsOptions& options, const SchemeTable& table, const Words& words, const NumberOfHead& number) {
  LinePlot plot{"Offset (key position - query position)", words.label, false, false, {}};
  for (int64_t head = options.first_column; head < std::min(options.last_column, table.rows); ++head) {
    Series series{"Head " + std::to_string(head), {}, {}, {}, {}};
    for (int64_t offset = 1 - options.steps; offset < options.steps; ++offset) {
      series.x.push_back(static_cast<double>(offset));
      series.y.push_back(number(head, offset));
    }
    plot.series.push_back(std::move(series));
  }
  return {.name = FigureName(table.scheme, "heads"),
          .title = words.subject + " in attention heads" + StartNote(table, words),
          .caption = CaptionOf(table, words),
          .command = {},
          .content = std::move(plot),
          .height = 320};
}

Figure HeadMap(const SchemeTable& table, const Words& words) {
  const std::string reach = std::to_string((table.columns - 1) / 2);
  Figure figure =
      Drawn("bias-map", words.subject + " of every head and offset",
            HeatMap{"Column (offset + " + reach + ")", "Head", table.rows, table.columns, table.values}, "reach"_a = reach);
  figure.name = FigureName(table.scheme, "heat-map"), figure.width = 640, figure.height = 260;
  return figure;
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
  return Drawn("t5-buckets", "T5's bucket of each offset",
               LinePlot{"Offset (key position - query position)", "Bucket", false, false, {std::move(series)}});
}

Figure FarQueryFigure(const SchemeTable& table, const Words& words) {
  LinePlot plot{"Distance to the key (positions)", words.label, false, false, {}};
  for (const FarQuery& query : table.far_queries) {
    plot.series.push_back({"query at " + std::to_string(query.position), query.distances, query.numbers, {}, {}});
  }
  Figure figure = Drawn("far-queries", words.subject + " along a text, in the first head", std::move(plot));
  figure.name = FigureName(table.scheme, "queries");
  return figure;
}

}  // namespace

std::string FigureName(const std::string& scheme, const std::string& kind) {
  std::string name = "positions-" + scheme + "-" + kind;
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string CaptionOf(const SchemeTable& table, const Words& words) {
  return table.trained && !words.learnt.empty() ? words.learnt : words.caption;
}

std::string StartNote(const SchemeTable& table, const Words& words) {
  return table.trained || words.learnt.empty() ? "" : " as it starts";
}

std::vector<Figure> AlibiFigures(const PositionsOptions& options, const SchemeTable&, const Words& words) {
  const std::vector<float> table = EmittedAlibi(options);
  const int64_t offsets = 2 * options.steps - 1;
  const auto bias = [&](int64_t head, int64_t offset) -> double {
    return table[static_cast<std::size_t>(head * offsets + offset + options.steps - 1)];
  };
  return {AlibiLines(options, table), AlibiMatrix(options, table),
          DistanceFigure("alibi", options.steps, options.width, words, bias)};
}

std::vector<Figure> BiasFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words) {
  const int64_t reach = (table.columns - 1) / 2;
  const auto number = [&](int64_t head, int64_t offset) {
    return table.values[static_cast<std::size_t>(head * table.columns + std::clamp(offset, -reach, reach) + reach)];
  };
  return {HeadLines(options, table, words, number), HeadMap(table, words),
          DistanceFigure(table.scheme, options.steps, table.rows, words, number)};
}

std::vector<Figure> BucketFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words) {
  std::vector<Figure> figures = BiasFigures(options, table, words);
  if (!table.trained) figures.push_back(BucketFigure(options));
  return figures;
}

std::vector<Figure> FarQueryFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words) {
  std::vector<Figure> figures = BiasFigures(options, table, words);
  if (!table.far_queries.empty()) figures.insert(figures.end() - 1, FarQueryFigure(table, words));
  return figures;
}

}  // namespace heed::lab
