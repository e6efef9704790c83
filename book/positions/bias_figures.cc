#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

#include "book/positions/portrait.h"
#include "heed/positions.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;

Figure AlibiMatrix(const PositionsOptions& options, const SchemeTable& table) {
  HeatMap map{"Key position", "Query position", options.steps, options.steps, {}};
  map.values.reserve(static_cast<std::size_t>(options.steps * options.steps));
  for (int64_t query = 0; query < options.steps; ++query) {
    const auto of_query = table.values.begin() + options.first_column * table.columns + options.steps - 1 - query;
    map.values.insert(map.values.end(), of_query, of_query + options.steps);
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
    plot.series.push_back(SpreadOf(sign < 0 ? "keys before the query" : "keys behind the query", steps, [&](int64_t distance) {
      std::vector<double> numbers;
      for (int64_t head = 0; head < heads; ++head) numbers.push_back(number(head, sign * distance));
      return numbers;
    }));
  }
  Figure figure = Drawn("bias-similarity", "What is added to a score against the distance", std::move(plot));
  figure.name = FigureName(scheme, "similarity");
  return figure;
}

Figure HeadLines(const PositionsOptions& options, const SchemeTable& table, const Words& words, const NumberOfHead& number) {
  LinePlot plot{"Offset (key position - query position)", words.label, false, false, {}};
  for (int64_t head = options.first_column; head < std::min(options.last_column, table.rows); ++head) {
    plot.series.push_back(CurveOf("Head " + std::to_string(head), 1 - options.steps, options.steps,
                                  [&](int64_t offset) { return number(head, offset); }));
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
  const Series series = CurveOf("bucket", 1 - options.steps, options.steps, [&](int64_t offset) {
    return static_cast<double>(buckets[static_cast<std::size_t>(offset + options.steps - 1)]);
  });
  return Drawn("t5-buckets", "T5's bucket of each offset",
               LinePlot{"Offset (key position - query position)", "Bucket", false, false, {series}});
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

Series CurveOf(std::string name, int64_t first, int64_t last, const std::function<double(int64_t x)>& y) {
  Series series{std::move(name), {}, {}, {}, {}};
  for (int64_t x = first; x < last; ++x) {
    series.x.push_back(static_cast<double>(x));
    series.y.push_back(y(x));
  }
  return series;
}

Series SpreadOf(std::string name, int64_t distances, const std::function<std::vector<double>(int64_t distance)>& numbers) {
  Series series{std::move(name), {}, {}, {}, {}};
  for (int64_t distance = 0; distance < distances; ++distance) {
    const std::vector<double> all = numbers(distance);
    const auto [low, high] = std::ranges::minmax(all);
    series.x.push_back(static_cast<double>(distance));
    series.y.push_back(std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()));
    series.low.push_back(low);
    series.high.push_back(high);
  }
  return series;
}

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

std::vector<Figure> BiasFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words) {
  const int64_t reach = (table.columns - 1) / 2;
  const auto number = [&](int64_t head, int64_t offset) {
    return table.values[static_cast<std::size_t>(head * table.columns + std::clamp(offset, -reach, reach) + reach)];
  };
  return {HeadLines(options, table, words, number), HeadMap(table, words),
          DistanceFigure(table.scheme, options.steps, table.rows, words, number)};
}

std::vector<Figure> AlibiFigures(const PositionsOptions& options, const SchemeTable&, const Words& words) {
  const int64_t offsets = 2 * options.steps - 1;
  std::vector<float> biases(static_cast<std::size_t>(options.width * offsets));
  AlibiTable(AlibiSlopes(options.width), options.steps - 1,
             View<float, 2>::Contiguous(biases.data(), {options.width, offsets}));
  const SchemeTable table{options.scheme, options.width, offsets, {biases.begin(), biases.end()}};
  std::vector<Figure> figures = BiasFigures(options, table, words);
  figures[0] = Drawn("alibi-heads", "Linear biases of attention heads", std::move(figures[0].content));
  figures[1] = AlibiMatrix(options, table);
  return figures;
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
