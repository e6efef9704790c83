#include "book/positions/portrait.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numbers>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/nn/rotations.h"
#include "heed/nn/window_biases.h"
#include "heed/positions.h"
#include "positions_prose.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;

double At(const SchemeTable& table, int64_t row, int64_t column) {
  return table.values[static_cast<std::size_t>(row * table.columns + column)];
}

double Dot(const SchemeTable& table, int64_t row, int64_t other) {
  double sum = 0;
  for (int64_t column = 0; column < table.columns; ++column) sum += At(table, row, column) * At(table, other, column);
  return sum;
}

Figure ColumnsFigure(const PositionsOptions& options, const SchemeTable& table) {
  LinePlot plot{"Row (position)", "", false, false, {}};
  for (int64_t column = options.first_column; column < options.last_column; ++column) {
    plot.series.push_back(CurveOf(options.column_label + " " + std::to_string(column), 0, options.steps,
                                  [&](int64_t row) { return At(table, row, column); }));
  }
  Figure figure = Drawn("columns", "Columns of the sinusoidal encoding", std::move(plot));
  figure.height = 290;
  return figure;
}

// The dot product of rows at each distance, over at most 512 rows spread evenly: the time stays linear in the rows for each
// distance drawn, of which there are at most 1024.
Series Similarity(const SchemeTable& table) {
  constexpr int64_t kMostRows = 512, kMostDistances = 1024;
  return SpreadOf("mean over positions", std::min(table.rows, kMostDistances), [&](int64_t distance) {
    std::vector<double> products;
    const int64_t rows = table.rows - distance, stride = (rows + kMostRows - 1) / kMostRows;
    for (int64_t row = 0; row < rows; row += stride) products.push_back(Dot(table, row, row + distance));
    return products;
  });
}

LinePlot SimilarityPlot(const SchemeTable& table) {
  return {"Distance (positions)", "Dot product of two rows", false, false, {Similarity(table)}};
}

// Of the engine's table: chosen columns, heat map, similarity.
std::vector<Figure> SinusoidalFigures(const PositionsOptions& options, const SchemeTable&, const Words&) {
  const std::vector<float> values = EmittedSinusoidal(options);
  const SchemeTable table{options.scheme, options.steps, options.width, {values.begin(), values.end()}};
  HeatMap map{"Column (encoding dimension)", "Row (position)", table.rows, table.columns, table.values};
  Figure similarity = Drawn("similarity", "Similarity of two positions against their distance", SimilarityPlot(table));
  if (options.width % 2 != 0) similarity.caption = PositionTexts()("similarity-odd");
  return {ColumnsFigure(options, table), Drawn("heat-map", "The sinusoidal encoding as a heat map", std::move(map)),
          std::move(similarity)};
}

// Of a table with a row for each position: heat map, similarity.
std::vector<Figure> LearnedFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  Figure map = Drawn(table.trained ? "learned-heat-map-trained" : "learned-heat-map",
                     table.trained ? "The learned table of a trained model" : "A learned table as it starts",
                     HeatMap{"Column (encoding dimension)", "Row (position)", table.rows, table.columns, table.values});
  map.name = "positions-learned-heat-map";
  return {std::move(map),
          Drawn("learned-similarity", "Similarity of two learned positions against their distance", SimilarityPlot(table))};
}

// Of rows of random waves: heat map, similarity beside the bell curve.
std::vector<Figure> RandomFourierFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  const auto count = static_cast<double>(table.rows);
  HeatMap map{"Column (encoding dimension)", "Row (position times " + std::to_string(table.rows) + ")", table.rows,
              table.columns, table.values};
  Series drawn = Similarity(table), bell{"bell curve", {}, {}, {}, {}};
  for (double& x : drawn.x) {
    x /= count;
    bell.x.push_back(x);
    bell.y.push_back(static_cast<double>(table.columns) / 2 * std::exp(-2 * std::pow(std::numbers::pi * x, 2)));
  }
  LinePlot plot{"Distance", "Dot product of two rows", false, false, {std::move(drawn), std::move(bell)}};
  return {Drawn("random-fourier-heat-map", "Random Fourier features of positions from 0 to 1", std::move(map)),
          Drawn("random-fourier-similarity", "Similarity of two positions against their distance", std::move(plot))};
}

// Of a table with a vector for each offset: heat map over offsets, similarity of two of them.
std::vector<Figure> VectorFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  const std::string reach = std::to_string((table.rows - 1) / 2);
  HeatMap map{"Column (head dimension)", "Row (offset + " + reach + ")", table.rows, table.columns, table.values};
  Series series = Similarity(table);
  series.name = "mean over offsets";
  LinePlot plot{"Difference of offsets", "Dot product of two rows", false, false, {std::move(series)}};
  return {Drawn("shaw-heat-map", table.trained ? "Shaw's key vectors of a trained model" : "Shaw's key vectors as they start",
                std::move(map), "reach"_a = reach),
          Drawn("shaw-similarity", "Similarity of two offsets' vectors against their difference", std::move(plot))};
}

constexpr char kScore[] = "Score of a constant query and key against their distance";

// Of pairs of ones, `distance` positions apart: the product of each pair of columns, sines cancelling, and their sum, the
// score.
std::pair<HeatMap, LinePlot> PairsOfOnes(const std::string& rows, int64_t distances, int64_t pairs,
                                         const std::function<double(int64_t distance, int64_t pair)>& product) {
  HeatMap products{"Pair of columns", rows, distances, pairs, {}};
  Series score = CurveOf("", 0, distances, [&](int64_t distance) {
    double sum = 0;
    for (int64_t pair = 0; pair < pairs; ++pair) sum += 2 * products.values.emplace_back(product(distance, pair));
    return sum;
  });
  LinePlot plot{"Distance (positions)", "Dot product before scaling", false, false, {std::move(score)}};
  return {std::move(products), std::move(plot)};
}

// The angles of every position and pair of columns, as their cosines, and the score of a constant query and key.
std::vector<Figure> RotaryFigures(const PositionsOptions& options, const SchemeTable&, const Words&) {
  // Su et al. 2021, section 3.2.2: the frequencies are those of the sinusoidal encoding.
  const std::vector<double> frequencies = SinusoidalFrequencies(options.width);
  auto [cosines, score] = PairsOfOnes("Position", options.steps, std::ssize(frequencies), [&](int64_t position, int64_t pair) {
    return std::cos(static_cast<double>(position) * frequencies[static_cast<std::size_t>(pair)]);
  });
  return {Drawn("rotary-heat-map", "How far rotary positions turn each pair of columns", std::move(cosines)),
          Drawn("rotary-similarity", kScore, std::move(score))};
}

// The products of pairs of columns by distance, and the score of a constant query and key.
std::vector<Figure> FadingFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  auto [products, score] = PairsOfOnes("Distance (positions)", table.columns, table.rows, [&](int64_t distance, int64_t pair) {
    return table.values[static_cast<std::size_t>(pair * table.columns + distance)];
  });
  return {Drawn("xpos-heat-map", "What is left of each pair of columns at a distance", std::move(products)),
          Drawn("xpos-similarity", kScore, std::move(score))};
}

// What becomes of a score in chosen heads, and over the distance, on which it does not depend.
std::vector<Figure> MultiplierFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words) {
  const int64_t first = options.first_column, last = std::min(options.last_column, table.rows);
  LinePlot factors{"Score before", "Score after", false, false, {}};
  LinePlot flat{"Distance (positions)", "Factor of the score", false, false, {}};
  for (int64_t head = first; head < last; ++head) {
    const double factor = table.values[static_cast<std::size_t>(head)];
    const std::string name = "Head " + std::to_string(head);
    factors.series.push_back({name, {-4, 0, 4}, {-4 * factor, 0, 4 * factor}, {}, {}});
    flat.series.push_back(CurveOf(name, 0, options.steps, [factor](int64_t) { return factor; }));
  }
  Figure distance = Drawn("temperature-similarity", "The factor of a score against the distance", std::move(flat));
  distance.name = FigureName(table.scheme, "similarity");
  return {{.name = FigureName(table.scheme, "heads"),
           .title = words.subject + StartNote(table, words),
           .caption = PositionTexts()("constant", "caption"_a = CaptionOf(table, words)),
           .command = {},
           .content = std::move(factors),
           .height = 320},
          std::move(distance)};
}

using enum WidthUnit;

using Options = const PositionsOptions&;
using Made = std::shared_ptr<nn::AttentionPosition>;

const Portrait kPortraits[] = {
    {.name = "sinusoidal", .unit = kEncoding, .draw = &SinusoidalFigures},
    {.name = "learned", .unit = kEncoding, .random = true, .rows = &LearnedRows, .draw = &LearnedFigures},
    {.name = "random_fourier",
     .unit = kEncoding,
     .multiple = 2,
     .random = true,
     .rows = &RandomFourierRows,
     .draw = &RandomFourierFigures},
    {.name = "rotary", .unit = kHead, .multiple = 2, .draw = &RotaryFigures},
    {.name = "axial_rotary",
     .unit = kHead,
     .multiple = 4,
     .square = true,
     .make = [](Options o) -> Made { return nn::AxialRotary(o.width).ptr(); },
     .draw = &AxialRotaryFigures},
    {.name = "xpos", .unit = kHead, .multiple = 2, .numbers = &PairsByDistance, .draw = &FadingFigures},
    {.name = "alibi", .unit = kHeads, .draw = &AlibiFigures},
    {.name = "relative", .unit = kHeads, .clips = true, .numbers = &TableOfScheme, .draw = &BiasFigures},
    {.name = "t5", .unit = kHeads, .clips = true, .numbers = &TableOfScheme, .draw = &BucketFigures},
    {.name = "kerple", .unit = kHeads, .random = true, .numbers = &BiasByOffset, .draw = &BiasFigures},
    {.name = "kerple_power", .unit = kHeads, .random = true, .numbers = &BiasByOffset, .draw = &BiasFigures},
    {.name = "sandwich", .unit = kHeads, .numbers = &BiasByOffset, .draw = &BiasFigures},
    {.name = "fire", .unit = kHeads, .random = true, .numbers = &BiasByOffsetAndQuery, .draw = &FarQueryFigures},
    {.name = "sinusoidal_bias", .unit = kHeads, .numbers = &BiasByOffset, .draw = &BiasFigures},
    {.name = "temperature", .unit = kHeads, .numbers = &Multipliers, .draw = &MultiplierFigures},
    {.name = "shaw", .unit = kHead, .clips = true, .random = true, .numbers = &TableOfScheme, .draw = &VectorFigures},
    {.name = "transformer_xl", .unit = kHeads, .clips = true, .random = true, .numbers = &TermByOffset, .draw = &BiasFigures},
    {.name = "deberta", .unit = kHeads, .clips = true, .random = true, .numbers = &TermByOffset, .draw = &BiasFigures},
    {.name = "cope", .unit = kHeads, .clips = true, .random = true, .numbers = &TermByOffset, .draw = &BiasFigures},
    {.name = "swin",
     .unit = kHeads,
     .square = true,
     .random = true,
     .make = [](Options o) -> Made { return nn::SwinBias(o.width, SideOf(o)).ptr(); },
     .numbers = &TableOfScheme,
     .draw = &WindowFigures},
    {.name = "swin_v2",
     .unit = kHeads,
     .square = true,
     .random = true,
     .make = [](Options o) -> Made { return nn::SwinV2Bias(o.width, SideOf(o)).ptr(); },
     .numbers = &TableOfScheme,
     .draw = &LogarithmicFigures}};

}  // namespace

const Prose& PositionTexts() {
  static const Prose prose(text::kPositionsProseTxt);
  return prose;
}

std::string AboutOf(const Portrait& portrait) { return PositionTexts()(portrait.name); }

Words WordsOf(const Portrait& portrait) {
  Words words;
  const auto read = [&](const char* name, std::string& text) {
    const std::string full = fmt::format("{} {}", portrait.name, name);
    if (PositionTexts().has(full)) text = PositionTexts()(full);
  };
  read("subject", words.subject);
  read("caption", words.caption);
  read("learnt", words.learnt);
  read("label", words.label);
  return words;
}

std::vector<std::string> PictureNames() {
  std::vector<std::string> names;
  names.reserve(std::size(kPortraits));
  for (const Portrait& portrait : kPortraits) names.emplace_back(portrait.name);
  return names;
}

const Portrait* FindPortrait(const std::string& scheme) {
  const auto* const found = std::ranges::find(kPortraits, scheme, &Portrait::name);
  return found == std::end(kPortraits) ? nullptr : found;
}

const Portrait& PortraitOf(const std::string& scheme) {
  if (scheme == "none") throw InvalidArgument("scheme: none has no numbers to draw");
  const Portrait* found = FindPortrait(scheme);
  if (found != nullptr) return *found;
  throw InvalidArgument(fmt::format("scheme: '{}' is unknown; expected one of {}", scheme, fmt::join(PictureNames(), ", ")));
}

}  // namespace heed::lab
