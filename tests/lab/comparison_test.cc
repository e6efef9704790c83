// The comparison as a whole: counted layers beside the layers of heed::nn, rows, crossovers, files and checks that fail when
// they must.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "heed/error.h"
#include "lab/comparison/comparison.h"
#include "lab/comparison/counting.h"
#include "lab/comparison/figures.h"
#include "lab/comparison/nn_layer.h"
#include "lab/comparison/output.h"
#include "lab/report/html.h"

namespace heed::lab {
namespace {

std::vector<double> Waves(int64_t size, double seed) {
  std::vector<double> values(size);
  for (int64_t i = 0; i < size; ++i) values[i] = std::sin(0.7 * static_cast<double>(i) + seed);
  return values;
}

ComparisonOptions Small() {
  ComparisonOptions options;
  options.lengths = {1, 2, 5, 16, 33};
  options.width = 6;
  options.measure_time = false;
  return options;
}

// Largest |counted - nn| in units of epsilon times the largest value.
double Difference(const LayerShape& layer, int64_t length, uint64_t seed) {
  const NnLayer module(layer, seed);
  const std::vector<double> x = Waves(length * layer.width, static_cast<double>(seed));
  const std::vector<double> counted = CountRun(layer, module.Weights(), x).values, reference = module.Forward(x);
  EXPECT_EQ(counted.size(), reference.size());
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    difference = std::max(difference, std::fabs(counted[i] - reference[i]));
    scale = std::max(scale, std::fabs(reference[i]));
  }
  EXPECT_GT(scale, 0);
  return difference / (scale * std::numeric_limits<double>::epsilon());
}

// Two orders of summing m terms differ by at most 2 m epsilon times the sum of the sizes of the terms. The longest sum here has
// m = max(k d, n) <= 45 terms; their sizes add up to at most four times the largest result, and a value passes through at most
// four such sums: 2 * 45 * 16 = 1440 epsilon. A wrong tap, head or position is off by 1e15.
constexpr double kRoundings = 1440;

TEST(CountedLayers, GiveTheValuesOfTheNnLayers) {
  for (const LayerKind kind : kAllLayers) {
    for (const int64_t kernel : {1, 3, 5}) {
      for (const int64_t width : {1, 4, 9}) {
        for (const int64_t length : {1, 2, 3, 8, 45}) {
          const LayerShape layer{kind, width, kernel, 1};
          EXPECT_LE(Difference(layer, length, 3), kRoundings) << NameOf(kind) << ' ' << kernel << ' ' << width << ' ' << length;
        }
      }
    }
  }
}

TEST(CountedLayers, GiveTheValuesOfTheNnLayersWithSeveralHeads) {
  for (const int64_t heads : {2, 3, 6}) {
    for (const int64_t length : {1, 7, 40}) {
      EXPECT_LE(Difference({LayerKind::kSelfAttention, 6, 3, heads}, length, 5), kRoundings) << heads << ' ' << length;
    }
  }
}

TEST(CountedLayers, GiveTheValuesOfCausalNnLayersWithAnEvenKernel) {
  for (const int64_t length : {1, 2, 9}) {
    EXPECT_LE(Difference({LayerKind::kCausalConvolution, 4, 4, 1}, length, 7), kRoundings) << length;
  }
}

TEST(NnLayer, HasWeightsThatFollowTheSeed) {
  const LayerShape layer{LayerKind::kRecurrence, 4, 3, 1};
  EXPECT_EQ(NnLayer(layer, 1).Weights(), NnLayer(layer, 1).Weights());
  EXPECT_NE(NnLayer(layer, 1).Weights(), NnLayer(layer, 2).Weights());
}

TEST(Compare, FindsNoErrorAtAnyLength) {
  ComparisonOptions options = Small();
  for (const int64_t kernel : {1, 3, 7}) {
    for (const int64_t heads : {1, 3}) {
      options.kernel = kernel;
      options.heads = heads;
      const Comparison comparison = Compare(options);
      ASSERT_EQ(comparison.rows.size(), 4 * options.lengths.size());
      EXPECT_EQ(comparison.largest_error, 0);
      EXPECT_TRUE(comparison.AllAgree());
      for (const ComparisonRow& row : comparison.rows) {
        EXPECT_TRUE(row.counted);
        EXPECT_EQ(row.error, 0) << NameOf(row.layer.kind) << ' ' << row.length;
        EXPECT_EQ(row.seconds, 0);
      }
    }
  }
}

TEST(Compare, MeasuresTimeOfEveryRow) {
  ComparisonOptions options = Small();
  options.lengths = {8, 16};
  options.measure_time = true;
  const Comparison comparison = Compare(options);
  for (const ComparisonRow& row : comparison.rows) EXPECT_GT(row.seconds, 0);
  for (const Crossover& crossover : comparison.crossovers) {
    // Scores alone are not a layer that could be timed.
    EXPECT_EQ(crossover.seconds_in_words == "-", crossover.dearer != "self-attention") << crossover.dearer;
  }
}

TEST(Checks, FailOnAPlantedWrongCountAndNameTheLayer) {
  Comparison comparison = Compare(Small());
  ASSERT_TRUE(comparison.AllAgree());
  ComparisonRow& row = comparison.rows[7];
  row.expected.mixing.multiply_adds += 1;  // what a wrong formula would give
  row.error = LargestDifference(row.found, row.expected);
  EXPECT_EQ(row.error, 1);
  EXPECT_FALSE(comparison.AllAgree());
  for (const ComparisonCheck& check : Checks(comparison)) {
    EXPECT_EQ(check.passed, check.what != "convolution (causal): counts equal the formulas") << check.what;
  }
}

TEST(Checks, FailOnAWrongValue) {
  Comparison comparison = Compare(Small());
  comparison.rows.back().value_error = 2 * comparison.rows.back().value_bound;
  EXPECT_FALSE(comparison.AllAgree());
}

TEST(Checks, DoNotPassWhatWasNotCounted) {
  ComparisonOptions options = Small();
  options.longest_trace = 16;
  const Comparison traced = Compare(options);
  EXPECT_FALSE(traced.AllAgree());
  EXPECT_FALSE(traced.rows.back().counted);
  EXPECT_TRUE(traced.rows.front().counted);

  options = Small();
  options.counting_limit = 2 * 33 * 6 * 6;  // a recurrence just fits, self-attention of that length does not
  const Comparison counted = Compare(options);
  for (const ComparisonRow& row : counted.rows) {
    if (row.length != 33) continue;
    const bool fits = row.layer.kind == LayerKind::kRecurrence;
    EXPECT_EQ(row.counted, fits) << NameOf(row.layer.kind);
  }
}

TEST(Compare, RefusesOptionsThatMakeNoSenseNamingThem) {
  const auto message = [](auto&& change) -> std::string {
    ComparisonOptions options = Small();
    change(options);
    try {
      Compare(options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message([](auto& o) { o.lengths = {}; }).substr(0, 8), "lengths:");
  EXPECT_EQ(message([](auto& o) { o.lengths = {0}; }).substr(0, 8), "lengths:");
  EXPECT_EQ(message([](auto& o) { o.lengths = {4, 4}; }).substr(0, 8), "lengths:");
  EXPECT_EQ(message([](auto& o) { o.lengths = {int64_t{1} << 40}; }).substr(0, 8), "lengths:");
  EXPECT_EQ(message([](auto& o) { o.width = 0; }).substr(0, 6), "width:");
  EXPECT_EQ(message([](auto& o) { o.width = 1 << 20; }).substr(0, 6), "width:");
  EXPECT_EQ(message([](auto& o) { o.kernel = 4; }), "kernel: expected an odd number from 1 to 1023, got 4");
  EXPECT_EQ(message([](auto& o) { o.kernel = -1; }).substr(0, 7), "kernel:");
  EXPECT_EQ(message([](auto& o) { o.heads = 4; }), "heads: expected a divisor of the width (6), got 4");
}

// Multiply-adds counted on the running layer, apart for the scores and sums and for the whole.
int64_t Counted(const LayerShape& layer, int64_t length, bool scores_only) {
  LayerWeights<double> weights;
  for (const int64_t size : WeightSizes(layer)) weights.push_back(Waves(size, 1));
  const CountedRun run = CountRun(layer, weights, Waves(length * layer.width, 2));
  return run.mixing.multiply_adds + (scores_only ? 0 : run.projections.multiply_adds);
}

TEST(Crossovers, LieWhereTheCountsOfRunningLayersCross) {
  for (const int64_t width : {1, 4, 6}) {
    for (const int64_t kernel : {1, 3, 7, 21}) {
      std::vector<LayerShape> layers;
      for (const LayerKind kind : kAllLayers) layers.push_back({kind, width, kernel, 1});
      for (const Crossover& crossover : CountedCrossovers(layers)) {
        const auto dearer = [&](int64_t n) { return Counted(layers.back(), n, crossover.dearer != "self-attention"); };
        const auto than = [&](int64_t n) {
          for (const LayerShape& layer : layers) {
            if (NameOf(layer.kind) == crossover.than) return Counted(layer, n, false);
          }
          return Counted(layers.back(), n, false) - Counted(layers.back(), n, true);  // its projections
        };
        const int64_t at = crossover.multiply_adds;
        EXPECT_GE(dearer(at), than(at)) << crossover.dearer << " / " << crossover.than << " d=" << width << " k=" << kernel;
        const bool dearer_before = at > 1 && dearer(at - 1) >= than(at - 1);
        EXPECT_FALSE(dearer_before) << crossover.dearer << " / " << crossover.than;
      }
    }
  }
}

TEST(Crossovers, AreTheWidthForARecurrenceAndTwiceTheWidthForTheProjections) {
  for (const int64_t width : {8, 64, 512}) {
    std::vector<LayerShape> layers;
    for (const LayerKind kind : kAllLayers) layers.push_back({kind, width, 3, 1});
    const std::vector<Crossover> crossovers = CountedCrossovers(layers);
    const auto at = [&](const std::string& dearer, const std::string& than) {
      const auto found = std::ranges::find_if(crossovers, [&](const auto& c) { return c.dearer == dearer && c.than == than; });
      return found == crossovers.end() ? -1 : found->multiply_adds;
    };
    EXPECT_EQ(at("scores and sums of attention", "recurrence"), width);
    EXPECT_EQ(at("scores and sums of attention", "projections of attention"), 2 * width);
    EXPECT_EQ(at("self-attention", "recurrence"), 1);  // its projections alone cost twice as much
  }
}

TEST(MeasuredCrossover, IsInterpolatedOnLogarithms) {
  // n^2 against 20 n: straight lines on logarithms, which meet at 20.
  Crossover crossover{};
  MeasureCrossover({4, 16, 64, 256}, {16, 256, 4096, 65536}, {80, 320, 1280, 5120}, crossover);
  EXPECT_NEAR(crossover.seconds, 20, 1e-12);
  EXPECT_EQ(crossover.seconds_in_words, "about 20");
  MeasureCrossover({4, 16}, {5, 6}, {1, 2}, crossover);
  EXPECT_EQ(crossover.seconds_in_words, "below 4");
  MeasureCrossover({4, 16}, {1, 2}, {5, 6}, crossover);
  EXPECT_EQ(crossover.seconds_in_words, "beyond 16");
}

TEST(FitPowerLaw, RecoversAnExponentAndItsSpread) {
  const PowerLaw exact =
      FitPowerLaw({2, 4, 8, 16}, {3 * std::pow(2, 1.5), 3 * std::pow(4, 1.5), 3 * std::pow(8, 1.5), 3 * 64.0});
  EXPECT_NEAR(exact.exponent, 1.5, 1e-12);
  EXPECT_NEAR(exact.standard_error, 0, 1e-7);
  EXPECT_GT(FitPowerLaw({1, 2, 4}, {1, 3, 4}).standard_error, 0.01);
  EXPECT_EQ(FitPowerLaw({1, 2}, {1, 4}).standard_error, 0);
}

TEST(ArchitecturesFigure, ShowsWhichOfFiveTokensReadsWhich) {
  const Diagram diagram = std::get<Diagram>(ArchitecturesFigure().content);
  EXPECT_EQ(diagram.nodes.size(), 5 * (3 + 2 + 2));
  // Two convolutions with 2 + 3 + 3 + 3 + 2 taps, a recurrence with 5 inputs and 4 steps, self-attention with 25 pairs.
  EXPECT_EQ(diagram.arrows.size(), 2 * 13 + 9 + 25);
}

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ComparisonFiles, HoldEveryRow) {
  const std::filesystem::path directory = std::filesystem::temp_directory_path() / "heed-comparison-test";
  std::filesystem::remove_all(directory);
  ComparisonOptions options = Small();
  options.longest_trace = 16;  // the last length stays uncounted
  const Comparison comparison = Compare(options);
  Report report("comparison");
  AddComparison(comparison, directory, report);
  report.Write(directory / "compare.html");

  const std::string csv = Contents(directory / "compare.csv");
  EXPECT_EQ(csv, ComparisonCsv(comparison));
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line.substr(0, 55), "layer,length,width,kernel,heads,multiply_adds,expected_");
  const auto commas = std::ranges::count(line, ',');
  for (const ComparisonRow& row : comparison.rows) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(std::ranges::count(line, ','), commas);
    const std::string counted = row.counted ? std::to_string(row.found.multiply_adds()) : "";
    EXPECT_EQ(line.find(NameOf(row.layer.kind) + "," + std::to_string(row.length) + ",6,3,1," + counted + ","), 0U) << line;
  }
  EXPECT_FALSE(std::getline(lines, line));

  const nlohmann::json json = nlohmann::json::parse(Contents(directory / "compare.json"));
  ASSERT_EQ(json["rows"].size(), comparison.rows.size());
  EXPECT_EQ(json["rows"][2]["counted"]["multiply_adds"], 13 * 36);
  EXPECT_TRUE(json["rows"][4]["counted"].is_null());
  EXPECT_TRUE(json["rows"][0]["seconds"].is_null());
  EXPECT_EQ(json["all_agree"], false);

  for (const Figure& figure : comparison.figures) {
    EXPECT_GT(std::filesystem::file_size(directory / (figure.name + ".svg")), 500U) << figure.name;
    EXPECT_NE(Contents(directory / "compare.html").find(figure.title), std::string::npos);
  }
  std::filesystem::remove_all(directory);
}

TEST(ComparisonFigures, AreTheDrawingAloneForASingleLength) {
  ComparisonOptions options = Small();
  options.lengths = {7};
  const Comparison comparison = Compare(options);
  EXPECT_TRUE(comparison.AllAgree());
  EXPECT_EQ(comparison.figures.size(), 1U);
  EXPECT_TRUE(comparison.growth.empty());
  EXPECT_EQ(ComparisonTables(comparison).size(), 3U);
}

}  // namespace
}  // namespace heed::lab
