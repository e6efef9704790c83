#include "book/positions/positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/positions.h"
#include "lab/training/options.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

PositionsOptions Options(int64_t steps, int64_t width, int64_t first, int64_t last) {
  PositionsOptions options;
  options.steps = steps;
  options.width = width;
  options.first_column = first;
  options.last_column = last;
  return options;
}

TEST(BinaryTable, CountsAsTheBookDoes) {
  const std::vector<std::string> lines = BinaryTable(8);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0], "0 in binary is 000");
  EXPECT_EQ(lines[6], "6 in binary is 110");
  EXPECT_EQ(lines[7], "7 in binary is 111");
  EXPECT_EQ(BinaryTable(9)[8], "8 in binary is 1000");
  EXPECT_EQ(BinaryTable(9)[1], "1 in binary is 0001");
  EXPECT_EQ(BinaryTable(1), std::vector<std::string>{"0 in binary is 0"});
  EXPECT_THROW(BinaryTable(0), InvalidArgument);
}

// Four decimals of rows 1 and 59 at width 32, as the book's own code prints them.
TEST(PositionFigures, AreTheBooks) {
  const std::vector<Figure> figures = PositionFigures({});
  ASSERT_GE(figures.size(), 2u);
  const auto& plot = std::get<LinePlot>(figures[0].content);
  EXPECT_EQ(plot.x_label, "Row (position)");
  ASSERT_EQ(plot.series.size(), 4u);
  const double last_row[] = {-0.8758, -0.4827, -0.3739, 0.9275};
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(plot.series[s].name, "Col " + std::to_string(6 + s));
    ASSERT_EQ(plot.series[s].y.size(), 60u);
    EXPECT_EQ(plot.series[s].x.back(), 59);
    EXPECT_NEAR(plot.series[s].y.back(), last_row[s], 5e-5);
  }
  const auto& map = std::get<HeatMap>(figures[1].content);
  EXPECT_EQ(map.x_label, "Column (encoding dimension)");
  EXPECT_EQ(map.y_label, "Row (position)");
  EXPECT_EQ(map.rows, 60);
  EXPECT_EQ(map.columns, 32);
  const double row_one[] = {0.8415, 0.5403, 0.5332, 0.8460};
  for (std::size_t c = 0; c < 4; ++c) EXPECT_NEAR(map.values[32 + c], row_one[c], 5e-5);
}

TEST(PositionFigures, OfOtherSizesAndNames) {
  PositionsOptions options = Options(100, 20, 4, 8);
  options.column_label = "dim";
  const std::vector<Figure> figures = PositionFigures(options);
  const auto& plot = std::get<LinePlot>(figures[0].content);
  ASSERT_EQ(plot.series.size(), 4u);
  EXPECT_EQ(plot.series[3].name, "dim 7");
  EXPECT_NEAR(plot.series[0].y[99], std::sin(99 / std::pow(10000.0, 4 / 20.0)), 1e-6);
  EXPECT_NEAR(plot.series[3].y[99], std::cos(99 / std::pow(10000.0, 6 / 20.0)), 1e-6);
  EXPECT_EQ(CommandOf(options, "my folder"),
            "heed positions --steps 100 --width 20 --columns 4:8 --label dim --out 'my folder'");
}

double LargestSpread(const Figure& figure) {
  const Series& series = std::get<LinePlot>(figure.content).series[0];
  double largest = 0;
  for (std::size_t i = 0; i < series.y.size(); ++i) largest = std::max(largest, series.high[i] - series.low[i]);
  return largest;
}

TEST(PositionFigures, SimilarityDependsOnTheDistanceAloneForEvenWidths) {
  // 33 products of values rounded to float, each off by at most 2^-24.
  EXPECT_LT(LargestSpread(PositionFigures(Options(60, 32, 6, 10))[2]), 33 * std::ldexp(2.0, -24));
  // Far enough that the last sine, of a period of 36,000 rows, is no longer nearly zero.
  EXPECT_GT(LargestSpread(PositionFigures(Options(6000, 33, 6, 10))[2]), 0.1);
}

TEST(PositionFigures, AlibiFallsWithTheDistanceByTheHeadsSlope) {
  PositionsOptions options = Options(10, 8, 0, 8);
  options.scheme = "alibi";
  const std::vector<Figure> figures = PositionFigures(options);
  const auto& plot = std::get<LinePlot>(figures[0].content);
  ASSERT_EQ(plot.series.size(), 8u);
  EXPECT_EQ(plot.series[2].name, "Head 2");
  EXPECT_EQ(plot.series[2].x.front(), -9);
  EXPECT_EQ(plot.series[2].y.front(), -9 * 0.125);
  EXPECT_EQ(plot.series[2].y[9], 0);
  const auto& map = std::get<HeatMap>(figures[1].content);
  EXPECT_EQ(map.values[3 * 10 + 5], -0.5 * 2) << "query 3, key 5, head 0 of slope 1/2";
  EXPECT_EQ(map.values[5 * 10 + 3], -0.5 * 2);
}

std::vector<Figure> FiguresOf(const std::string& scheme, int64_t steps, int64_t width,
                              const std::optional<SchemeTable>& trained = std::nullopt) {
  PositionsOptions options = Options(steps, width, 0, 2);
  options.scheme = scheme;
  options.max_distance = 20;
  return PositionFigures(options, trained);
}

LinePlot PlotNamed(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& figure : figures) {
    if (figure.name == name) return std::get<LinePlot>(figure.content);
  }
  throw InvalidArgument("no figure " + name);
}

TEST(PositionFigures, AlibiSaysTheMeanBiasOfADistance) {
  const LinePlot plot = PlotNamed(FiguresOf("alibi", 10, 8), "positions-alibi-similarity");
  ASSERT_EQ(plot.series.size(), 2u);
  const double mean = (1 - std::ldexp(1.0, -8)) / 8;  // of 1/2, 1/4, .. 1/256
  for (const Series& series : plot.series) {
    EXPECT_DOUBLE_EQ(series.y[9], -9 * mean);
    EXPECT_DOUBLE_EQ(series.low[9], -4.5);
    EXPECT_DOUBLE_EQ(series.high[9], -9 * std::ldexp(1.0, -8));
  }
}

TEST(PositionFigures, RotaryScoresAreSumsOfCosines) {
  const std::vector<Figure> figures = FiguresOf("rotary", 50, 16);
  const auto& map = std::get<HeatMap>(figures.front().content);
  EXPECT_EQ(map.rows, 50);
  EXPECT_EQ(map.columns, 8);
  EXPECT_DOUBLE_EQ(map.values[7 * 8 + 3], std::cos(7 * std::pow(10000.0, -6 / 16.0)));
  const Series score = PlotNamed(figures, "positions-rotary-similarity").series[0];
  EXPECT_DOUBLE_EQ(score.y[0], 16);
  double sum = 0;
  for (int t = 0; t < 8; ++t) sum += 2 * std::cos(31 * std::pow(10000.0, -2 * t / 16.0));
  EXPECT_NEAR(score.y[31], sum, 1e-12);
  EXPECT_NE(WhatOf<InvalidArgument>([] { FiguresOf("rotary", 50, 15); }).find("width:"), std::string::npos);
}

TEST(PositionFigures, BiasesStartAtZeroAndFollowTheTable) {
  for (const char* scheme : {"relative", "t5"}) {
    const std::vector<Figure> start = FiguresOf(scheme, 30, 4);
    const LinePlot zeros = PlotNamed(start, std::string("positions-") + scheme + "-heads");
    ASSERT_EQ(zeros.series.size(), 2u);
    EXPECT_EQ(zeros.series[1].x.front(), -29);
    EXPECT_EQ(zeros.series[1].y, std::vector<double>(59, 0.0));
  }
  // Two heads, offsets -1, 0, 1; what is farther has the ends' numbers.
  const SchemeTable table{"relative", 2, 3, {-1, 0, 3, -5, 0, 7}, true};
  const std::vector<Figure> figures = FiguresOf("relative", 3, 2, table);
  EXPECT_EQ(PlotNamed(figures, "positions-relative-heads").series[1].y, (std::vector<double>{-5, -5, 0, 7, 7}));
  const LinePlot distance = PlotNamed(figures, "positions-relative-similarity");
  EXPECT_EQ(distance.series[0].y, (std::vector<double>{0, -3, -3}));
  EXPECT_EQ(distance.series[1].y, (std::vector<double>{0, 5, 5}));
  EXPECT_EQ(distance.series[1].high, (std::vector<double>{0, 7, 7}));
}

TEST(PositionFigures, T5sBucketsAreTheEngines) {
  const Series buckets = PlotNamed(FiguresOf("t5", 30, 4), "positions-t5-buckets").series[0];
  EXPECT_EQ(buckets.y[29], 0) << "a token to itself";
  EXPECT_EQ(buckets.y[28], 1);
  EXPECT_EQ(buckets.y[30], 17) << "keys behind the query have the other half";
  EXPECT_EQ(buckets.y.front(), 15) << "from 20 on the last bucket of a side";
}

TEST(PositionFigures, TablesOfRowsAreComparedByTheirDotProducts) {
  const SchemeTable table{"learned", 3, 2, {1, 0, 1, 1, 0, 2}, true};
  const std::vector<Figure> figures = FiguresOf("learned", 3, 2, table);
  EXPECT_EQ(std::get<HeatMap>(figures.front().content).values, table.values);
  const Series similarity = PlotNamed(figures, "positions-learned-similarity").series[0];
  EXPECT_EQ(similarity.y, (std::vector<double>{7.0 / 3, 1.5, 0}));
  EXPECT_EQ(similarity.low, (std::vector<double>{1, 1, 0}));
  EXPECT_EQ(similarity.high, (std::vector<double>{4, 2, 0}));
}

TEST(PositionFigures, TellTheSeedOfWhatIsRandom) {
  for (const char* scheme :
       {"sinusoidal", "rotary", "axial_rotary", "xpos", "alibi", "relative", "t5", "sandwich", "temperature"}) {
    for (const Figure& figure : FiguresOf(scheme, 10, 4)) EXPECT_EQ(figure.seeds, "") << figure.name;
  }
  for (const char* scheme :
       {"learned", "random_fourier", "shaw", "kerple", "fire", "transformer_xl", "deberta", "cope", "swin", "swin_v2"}) {
    for (const Figure& figure : FiguresOf(scheme, 10, 4)) EXPECT_EQ(figure.seeds, "seed 0") << figure.name;
  }
  const SchemeTable trained{"relative", 4, 3, std::vector<double>(12, 0.5), true};
  for (const Figure& figure : FiguresOf("relative", 10, 4, trained)) EXPECT_EQ(figure.seeds, "seed 0") << figure.name;
}

TEST(PositionFigures, OfARunTellItAndWhatIsDrawnOfIt) {
  PositionsOptions options = Options(10, 4, 1, 3);
  options.scheme = "alibi", options.run = "a folder", options.layer = 1, options.column_label = "head";
  EXPECT_EQ(CommandOf(options, "out"), "heed positions --run 'a folder' --layer 1 --columns 1:3 --label head --out out");
}

TEST(PositionFigures, AreOfASchemeWithNumbers) {
  EXPECT_EQ(WhatOf<InvalidArgument>([] { FiguresOf("none", 10, 4); }), "scheme: none has no numbers to draw");
  EXPECT_NE(WhatOf<InvalidArgument>([] { FiguresOf("spiral", 10, 4); }).find("'spiral' is unknown"), std::string::npos);
}

TEST(PositionFigures, ThereAreOfEverySchemeButNone) {
  std::set<std::string> paragraphs;
  for (const std::string& scheme : PositionSchemeNames()) EXPECT_EQ(HasPicture(scheme), scheme != "none") << scheme;
  for (const std::string& scheme : PictureNames()) {
    SCOPED_TRACE(scheme);
    const std::vector<Figure> figures = FiguresOf(scheme, 30, 4);
    ASSERT_GE(figures.size(), 2u);
    const bool says_a_distance = std::ranges::any_of(figures, [](const Figure& f) { return f.name.ends_with("similarity"); });
    EXPECT_TRUE(says_a_distance);
    for (const Figure& figure : figures) EXPECT_FALSE(figure.title.empty() || figure.caption.empty()) << figure.name;
    const std::string paragraph = AboutScheme(scheme);
    EXPECT_EQ(paragraph.find('\n'), std::string::npos);
    EXPECT_NE(paragraph.find("istance"), std::string::npos);
    EXPECT_TRUE(paragraph.ends_with(".") && paragraph.size() > 200) << paragraph;
    EXPECT_TRUE(paragraphs.insert(paragraph).second);
  }
}

TEST(PositionFigures, OfModulesWithoutANameAreNoSchemesOfModels) {
  const std::vector<std::string> schemes = PositionSchemeNames();
  for (const char* scheme : {"random_fourier", "axial_rotary", "swin", "swin_v2"}) {
    EXPECT_TRUE(HasPicture(scheme)) << scheme;
    EXPECT_EQ(std::ranges::count(schemes, scheme), 0) << scheme;
  }
}

HeatMap MapNamed(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& figure : figures) {
    if (figure.name == name) return std::get<HeatMap>(figure.content);
  }
  throw InvalidArgument("no figure " + name);
}

// Two heads in a window of 2 x 2: offsets of rows -1, 0, 1 below each other.
TEST(PositionFigures, WindowsShowTheBiasOfAHeadAndOfTheQuerysOwnRow) {
  const SchemeTable table{"swin", 2, 9, {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18}, true};
  const std::vector<Figure> figures = FiguresOf("swin", 5, 2, table);
  EXPECT_EQ(PlotNamed(figures, "positions-swin-heads").series[1].y, (std::vector<double>{13, 14, 15}));
  EXPECT_EQ(PlotNamed(figures, "positions-swin-heads").series[1].x, (std::vector<double>{-1, 0, 1}));
  const HeatMap map = MapNamed(figures, "positions-swin-heat-map");
  EXPECT_EQ(map.rows, 3);
  EXPECT_EQ(map.values, (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(PlotNamed(figures, "positions-swin-similarity").series[1].high, (std::vector<double>{14, 15}));
}

TEST(PositionFigures, SwinV2sOffsetsAreOnALogarithmicScale) {
  const std::vector<Figure> figures = FiguresOf("swin_v2", 25, 4);
  const LinePlot plot = PlotNamed(figures, "positions-swin-v2-network");
  EXPECT_EQ(plot.series[0].y, PlotNamed(figures, "positions-swin-v2-heads").series[0].y);
  ASSERT_EQ(plot.series[0].x.size(), 9u);
  EXPECT_EQ(plot.series[0].x[4], 0);
  EXPECT_NEAR(plot.series[0].x[5], std::log2(3.0) / 3, 1e-15);
  EXPECT_NEAR(plot.series[0].x[0], -std::log2(9.0) / 3, 1e-15);
  EXPECT_EQ(figures.back().name, "positions-swin-v2-similarity");
}

TEST(PositionFigures, AxialRotaryScoresAreSumsOverTheAxes) {
  const std::vector<Figure> figures = FiguresOf("axial_rotary", 30, 8);
  const HeatMap angles = MapNamed(figures, "positions-axial-rotary-heat-map");
  EXPECT_EQ(angles.rows, 25);
  ASSERT_EQ(angles.columns, 4);
  EXPECT_DOUBLE_EQ(angles.values[13 * 4], std::cos(2.0)) << "token 13 stands in row 2, column 3";
  EXPECT_DOUBLE_EQ(angles.values[13 * 4 + 3], std::cos(3 * 0.01));
  const auto half = [](double distance) { return 2 * (std::cos(distance) + std::cos(distance / 100)); };
  const HeatMap square = MapNamed(figures, "positions-axial-rotary-square");
  EXPECT_NEAR(square.values[(4 - 2) * 9 + 4 + 3], half(2) + half(3), 1e-12);
  const LinePlot plot = PlotNamed(figures, "positions-axial-rotary-similarity");
  EXPECT_NEAR(plot.series[0].y[29], half(29) + 4, 1e-12);
  EXPECT_NEAR(plot.series[1].y[29], 2 * half(29), 1e-12);
}

TEST(PositionFigures, RandomFourierApproachesItsBellCurve) {
  const LinePlot plot = PlotNamed(FiguresOf("random_fourier", 20, 20000), "positions-random-fourier-similarity");
  ASSERT_EQ(plot.series.size(), 2u);
  EXPECT_DOUBLE_EQ(plot.series[0].x[5], 0.25);
  EXPECT_NEAR(plot.series[1].y[5], 10000 * std::exp(-M_PI * M_PI / 8), 1e-9);
  // Six standard errors of a sum of 10,000 cosines.
  for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(plot.series[0].y[i], plot.series[1].y[i], 6 * std::sqrt(10000 / 2.0));
}

TEST(PositionFigures, XPosFadesAndTurns) {
  const std::vector<Figure> figures = FiguresOf("xpos", 50, 16);
  const auto& map = std::get<HeatMap>(figures.front().content);
  ASSERT_EQ(map.rows, 50);
  ASSERT_EQ(map.columns, 8);
  const double zeta = (2 * 3 + 0.4 * 16) / (1.4 * 16);
  EXPECT_NEAR(map.values[7 * 8 + 3], std::cos(7 * std::pow(10000.0, -6 / 16.0)) * std::pow(zeta, 7 / 512.0), 1e-12);
  EXPECT_NEAR(PlotNamed(figures, "positions-xpos-similarity").series[0].y[0], 16, 1e-12);
}

TEST(PositionFigures, SandwichIsTheSameOnBothSidesAndNothingAtTheQuery) {
  const Series bias = PlotNamed(FiguresOf("sandwich", 30, 4), "positions-sandwich-heads").series[0];
  ASSERT_EQ(bias.y.size(), 59u);
  EXPECT_NEAR(bias.y[29], 0, 1e-12);
  double product = 0;
  for (int t = 1; t <= 64; ++t) product += std::cos(9 * std::pow(10000.0, -t / 64.0));
  for (const int at : {29 - 9, 29 + 9}) EXPECT_NEAR(bias.y[at], (product - 64) / 2, 1e-11) << "8h/H is 2 for the first of 4";
}

TEST(PositionFigures, FireSaysTheSameOfTheFirstTokenFromBeyondItsThreshold) {
  const LinePlot plot = PlotNamed(FiguresOf("fire", 30, 4), "positions-fire-queries");
  ASSERT_EQ(plot.series.size(), 4u);
  EXPECT_EQ(plot.series[3].name, "query at 2048");
  EXPECT_EQ(plot.series[3].x.back(), 2048);
  EXPECT_NEAR(plot.series[2].y.back(), plot.series[3].y.back(), 1e-6);
  EXPECT_EQ(plot.series[0].x[64], plot.series[1].x[32]);
  EXPECT_DOUBLE_EQ(plot.series[0].y[64], plot.series[1].y[32]) << "within the threshold the distance alone counts";
  EXPECT_NE(plot.series[3].y[8], plot.series[1].y[32]) << "at distance 128, far along a text";
}

TEST(PositionFigures, TheTemperatureIsLevel) {
  const SchemeTable table{"temperature", 2, 1, {0.5, 3}, true};
  const std::vector<Figure> figures = FiguresOf("temperature", 10, 2, table);
  EXPECT_EQ(std::get<LinePlot>(figures[0].content).series[1].y, (std::vector<double>{-12, 0, 12}));
  EXPECT_EQ(PlotNamed(figures, "positions-temperature-similarity").series[0].y, std::vector<double>(10, 0.5));
}

TEST(CheckPositionsOptions, NamesTheOption) {
  const auto error = [](const PositionsOptions& options) {
    return WhatOf<InvalidArgument>([&] { CheckPositionsOptions(options); });
  };
  EXPECT_EQ(error(Options(60, 32, 6, 10)), "");
  EXPECT_EQ(error(Options(0, 32, 6, 10)).find("steps:"), 0u);
  EXPECT_EQ(error(Options(60, 0, 6, 10)).find("width:"), 0u);
  EXPECT_EQ(error(Options(60, 9, 6, 10)).find("columns:"), 0u);
  EXPECT_EQ(error(Options(60, 32, 6, 6)).find("columns:"), 0u);
  EXPECT_EQ(error(Options(60, 32, -1, 6)).find("columns:"), 0u);
  EXPECT_EQ(error(Options(std::numeric_limits<int64_t>::max(), 32, 6, 10)).find("steps:"), 0u);
  PositionsOptions options;
  options.scheme = "rotatory";
  EXPECT_NE(error(options).find("'rotatory'"), std::string::npos);
  options = Options(60, 9, 0, 4);
  options.scheme = "xpos";
  EXPECT_EQ(error(options).find("width: expected an even number for xpos"), 0u);
  options = Options(60, 6, 0, 4);
  options.scheme = "axial_rotary";
  EXPECT_EQ(error(options), "width: expected a multiple of 4 for axial_rotary, got 6");
  options = Options(4097, 4, 0, 4);
  options.scheme = "swin_v2";
  EXPECT_EQ(error(options).find("steps: expected at most 4096 for swin_v2"), 0u);
  options.scheme = "kerple";
  EXPECT_EQ(error(options).find("steps: expected at most 4096 for kerple"), 0u);
  options.steps = 4096, options.width = 4096;
  EXPECT_EQ(error(options).find("steps: expected at most 2048 for kerple of width 4096"), 0u);
  options.steps = 10, options.width = 4097;
  EXPECT_EQ(error(options).find("width: expected at most 4096 for kerple"), 0u);
  options = Options(60, 129, 0, 4);
  options.scheme = "deberta";
  EXPECT_EQ(error(options).find("width: expected at most 128 heads for deberta"), 0u);
  options = Options(60, 4, 0, 4);
  options.scheme = "transformer_xl", options.max_distance = 1 << 30;
  EXPECT_EQ(error(options).find("max-distance:"), 0u);
}

TEST(CheckRotation, HoldsForEveryShiftOfTheEmittedTable) {
  PositionsOptions rotary = Options(60, 32, 6, 10);
  rotary.scheme = "rotary";
  for (const PositionsOptions& options :
       {Options(60, 32, 6, 10), Options(100, 20, 4, 8), Options(3, 2, 0, 1), Options(500, 64, 0, 1), rotary}) {
    const RotationCheck check = CheckRotation(options);
    EXPECT_LT(check.table_error, RotationCheck::kBound);
    EXPECT_LT(check.rotation_error, RotationCheck::kBound);
    EXPECT_LE(check.least_squares_share, 1);
    EXPECT_EQ(check.shifts, options.steps * options.steps) << "every i with every delta that stays in the table";
    EXPECT_EQ(check.unpaired_columns, 0);
    EXPECT_TRUE(check.Passed());
    EXPECT_GT(check.table_error, 0) << "a float table cannot be exact";
  }
}

TEST(CheckRotation, LeavesOutTheUnpairedSineOfAnOddWidthAndSaysSo) {
  const RotationCheck check = CheckRotation(Options(60, 33, 6, 10));
  EXPECT_EQ(check.unpaired_columns, 1);
  EXPECT_TRUE(check.Passed());
}

std::vector<float> RowsOf(int64_t steps, int64_t width, const SinusoidalOptions& options = {}) {
  std::vector<float> table(static_cast<std::size_t>(steps * width));
  SinusoidalTable(options, 0, View<float, 2>::Contiguous(table.data(), {steps, width}));
  return table;
}

RotationCheck Check(const std::vector<float>& table, int64_t steps, int64_t width) {
  return CheckRotation(View<const float, 2>::Contiguous(table.data(), {steps, width}));
}

TEST(CheckRotation, SeesOneWrongValue) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{59 * 33 + 7}, std::size_t{30 * 33 + 32}}) {
    std::vector<float> table = RowsOf(60, 33);
    table[at] += 2e-6f;
    EXPECT_FALSE(Check(table, 60, 33).Passed()) << at;
    table[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(Check(table, 60, 33).Passed()) << at;
  }
}

TEST(CheckRotation, SeesATableThatTurnsByOtherAngles) {
  SinusoidalOptions other;
  other.base = 9999;
  const RotationCheck check = Check(RowsOf(60, 32, other), 60, 32);
  EXPECT_GT(check.rotation_error, RotationCheck::kBound);
  EXPECT_GT(check.least_squares_share, 1);
  SinusoidalOptions halves;
  halves.layout = SinusoidalLayout::kHalves;
  EXPECT_FALSE(Check(RowsOf(60, 32, halves), 60, 32).Passed());
}

// The fit sees the table alone: a table of another rotation gives back that rotation's map.
TEST(CheckRotation, TheFittedMapIsThatOfTheTable) {
  constexpr double kTurn = 0.25;  // radians a step where 1 is expected
  std::vector<float> table;
  for (int i = 0; i < 40; ++i) {
    table.push_back(static_cast<float>(std::sin(kTurn * i)));
    table.push_back(static_cast<float>(std::cos(kTurn * i)));
  }
  const double difference = std::max(std::fabs(std::cos(kTurn) - std::cos(1.0)), std::fabs(std::sin(kTurn) - std::sin(1.0)));
  EXPECT_NEAR(Check(table, 40, 2).least_squares_error, difference, 1e-6);
}

TEST(CheckRotation, RefusesWhatItCannotCheck) {
  PositionsOptions alibi;
  alibi.scheme = "alibi";
  EXPECT_EQ(WhatOf<InvalidArgument>([&] { CheckRotation(alibi); }).find("scheme:"), 0u);
  EXPECT_EQ(WhatOf<InvalidArgument>([] { CheckRotation(Options(2, 32, 0, 1)); }).find("steps:"), 0u);
  EXPECT_EQ(WhatOf<InvalidArgument>([] { CheckRotation(Options(60, 1, 0, 1)); }).find("width:"), 0u);
  EXPECT_EQ(WhatOf<InvalidArgument>([] { CheckRotation(Options(1000000, 2, 0, 1)); }).find("steps:"), 0u);
}

}  // namespace
}  // namespace heed::lab
