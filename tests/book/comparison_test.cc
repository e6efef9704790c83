// The comparison as a whole: counted layers beside the layers of heed::nn, rows, crossovers, files and checks that fail when
// they must.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "book/comparison/comparison.h"
#include "book/comparison/counting.h"
#include "book/comparison/nn_layer.h"
#include "book/comparison/output.h"
#include "heed/error.h"
#include "lab/options/fields.h"
#include "lab/report/page.h"
#include "lab/training/side_by_side.h"
#include "tests/lab/waves.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

ComparisonOptions Small() {
  ComparisonOptions options;
  options.lengths = {1, 2, 5, 16, 33};
  options.width = 6;
  options.no_time = true, options.fit_exponents = false;
  options.influence_length = 0;
  return options;
}

// Largest |counted - nn| in units of epsilon times the largest value.
double Difference(const Layer& layer, const LayerShape& shape, int64_t length, uint64_t seed) {
  const NnLayer module(layer, shape, seed);
  const std::vector<double> x = Waves(length * shape.width, static_cast<double>(seed));
  const std::vector<double> counted = CountRun(layer, shape, module.Weights(), x).values, reference = module.Forward(x);
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
// four such sums: 2 * 45 * 16 = 1440 epsilon. A wrong tap, gate, head or position is off by 1e15.
constexpr double kRoundings = 1440;

void ExpectNnValues(const Layer& layer, const LayerShape& shape, int64_t length) {
  EXPECT_LE(Difference(layer, shape, length, 3), kRoundings)
      << layer.name() << " d=" << shape.width << " k=" << shape.kernel << " heads=" << shape.heads << " w=" << shape.window
      << " level=" << shape.level << " n=" << length;
}

TEST(CountedLayers, GiveTheValuesOfTheNnLayers) {
  for (const Layer* layer : AllLayers()) {
    for (const int64_t width : {1, 4, 9}) {
      for (const int64_t length : {1, 2, 3, 8, 45}) ExpectNnValues(*layer, {.width = width, .window = 3}, length);
    }
  }
}

TEST(CountedLayers, GiveTheValuesOfTheNnLayersForEveryKernelAndDilation) {
  for (const char* id : {"convolution", "convolution-causal", "dilated", "dilated-causal"}) {
    const Layer& layer = LayerNamed(id);
    for (const int64_t kernel : {1, 2, 3, 4, 5}) {
      if (kernel % 2 == 0 && !layer.facts().causal) continue;
      for (const int64_t level : {0, 1, 2}) {
        if (level > 0 && !layer.facts().changes_with_level) continue;
        for (const int64_t length : {1, 2, 7, 30}) {
          ExpectNnValues(layer, {.width = 4, .kernel = kernel, .level = level}, length);
        }
      }
    }
  }
}

TEST(CountedLayers, GiveTheValuesOfTheNnLayersForEveryWindowAndHeads) {
  for (const char* id : {"attention", "attention-causal", "attention-window", "linear", "linear-chunked", "retention", "mamba2",
                         "gated-delta"}) {
    for (const int64_t heads : {1, 2, 3, 6}) {
      for (const int64_t window : {1, 4, 50}) {
        for (const int64_t length : {1, 7, 40}) {
          ExpectNnValues(LayerNamed(id), {.width = 6, .heads = heads, .window = window}, length);
        }
      }
    }
  }
}

// The module's chunks of 64 hand a state on; 130 terms where kRoundings has 45.
TEST(CountedLayers, GiveTheValuesOfTheNnLayersBeyondAChunk) {
  for (const char* id : {"linear", "linear-chunked", "retention", "mamba2", "gated-delta"}) {
    for (const int64_t length : {64, 65, 130}) {
      EXPECT_LE(Difference(LayerNamed(id), {.width = 6, .heads = 2}, length, 3), kRoundings * 130 / 45) << id << ' ' << length;
    }
  }
}

TEST(NnLayer, HasWeightsThatFollowTheSeed) {
  const Layer& layer = LayerNamed("rnn");
  const LayerShape shape{.width = 4};
  const std::vector<double> x = Waves(8, 1);  // two steps: the first has no state that weights could read
  EXPECT_EQ(NnLayer(layer, shape, 1).Forward(x), NnLayer(layer, shape, 1).Forward(x));
  EXPECT_NE(NnLayer(layer, shape, 1).Forward(x), NnLayer(layer, shape, 2).Forward(x));
}

TEST(NnLayer, LeavesTheNumberOfThreadsAsItWas) {
  const int before = ComputeThreads();
  EXPECT_GT(NnLayer(LayerNamed("gru"), {.width = 4}, 1).FastestSeconds(3, before + 1, 0), 0);
  EXPECT_EQ(ComputeThreads(), before);
}

TEST(Layers, AreNamedOnce) {
  std::set<std::string> ids, names;
  for (const Layer* layer : AllLayers()) {
    ids.insert(layer->facts().id);
    names.insert(layer->name());
    EXPECT_EQ(&LayerNamed(layer->facts().id), layer);
  }
  EXPECT_EQ(ids.size(), AllLayers().size());
  EXPECT_EQ(names.size(), AllLayers().size());
  EXPECT_THROW(LayersNamed({"rnn", "mamba"}), InvalidArgument);
  EXPECT_THROW(LayersNamed({}), InvalidArgument);
}

TEST(Compare, FindsNoErrorAtAnyLength) {
  ComparisonOptions options = Small();
  for (const int64_t kernel : {1, 3, 7}) {
    for (const int64_t heads : {1, 3}) {
      options.kernel = kernel;
      options.heads = heads;
      options.window = heads;
      const Comparison comparison = Compare(options);
      ASSERT_EQ(comparison.rows.size(), AllLayers().size() * options.lengths.size());
      EXPECT_EQ(comparison.largest_error, 0);
      EXPECT_TRUE(comparison.AllAgree());
      for (const ComparisonRow& row : comparison.rows) {
        EXPECT_TRUE(row.counted);
        EXPECT_EQ(row.error, 0) << row.layer->name() << ' ' << row.length;
        EXPECT_TRUE(row.seconds.empty());
      }
    }
  }
}

TEST(Compare, MeasuresTimeOfEveryRowOnEveryNumberOfThreads) {
  ComparisonOptions options = Small();
  options.layers = LayersNamed({"convolution", "rnn", "attention"});
  options.lengths = {8, 16};
  options.no_time = false;
  options.thread_counts = {1, 2};
  const Comparison comparison = Compare(options);
  for (const ComparisonRow& row : comparison.rows) {
    ASSERT_EQ(row.seconds.size(), 2U);
    EXPECT_GT(row.seconds[0], 0);
    EXPECT_GT(row.seconds[1], 0);
  }
  EXPECT_EQ(comparison.time_growth.size(), 3U);
  for (const Crossover& crossover : comparison.crossovers) {
    // Projections alone are not a layer that could be timed.
    EXPECT_EQ(crossover.in_words == "-", crossover.than == "its own projections") << crossover.than;
  }
}

TEST(Compare, TakesTheLayersAskedFor) {
  ComparisonOptions options = Small();
  options.layers = LayersNamed({"lstm", "rnn"});  // in the order of the table all the same
  const Comparison comparison = Compare(options);
  ASSERT_EQ(comparison.rows.size(), 2 * options.lengths.size());
  EXPECT_EQ(comparison.rows.front().layer->name(), "RNN");
  EXPECT_EQ(comparison.rows.back().layer->name(), "LSTM");
  EXPECT_TRUE(comparison.crossovers.empty());  // without self-attention
}

// The causal convolution, with what its formulas say changed.
class WrongLayer final : public Layer {
 public:
  using Change = std::function<void(LayerNumbers&)>;
  WrongLayer(LayerFacts facts, Change change) : Layer(std::move(facts)), change_(std::move(change)) {}

  LayerNumbers Expected(const LayerShape& shape, int64_t length) const override {
    LayerNumbers numbers = right_.Expected(shape, length);
    change_(numbers);
    return numbers;
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const override { return right_.WeightSizes(shape); }
  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const override {
    return right_.Run(shape, weights, x);
  }

 private:
  const Layer& right_ = LayerNamed("convolution-causal");
  Change change_;
};

TEST(Checks, FailOnEveryWrongFormulaAndNameTheLayer) {
  const std::vector<WrongLayer::Change> changes = {[](LayerNumbers& n) { n.Of(Term::kConvolution) += 1; },
                                                   [](LayerNumbers& n) { n.Of(Term::kScores) -= 1; },
                                                   [](LayerNumbers& n) { n.operations.additions += 1; },
                                                   [](LayerNumbers& n) { n.operations.sigmoids += 1; },
                                                   [](LayerNumbers& n) { n.sequential_steps += 1; },
                                                   [](LayerNumbers& n) { n.rounds += 1; },
                                                   [](LayerNumbers& n) { n.span -= 1; },
                                                   [](LayerNumbers& n) { n.memory += 1; },
                                                   [](LayerNumbers& n) { n.path_length += 1; },
                                                   [](LayerNumbers& n) { n.longest_path += 1; },
                                                   [](LayerNumbers& n) { n.layers_to_connect += 1; }};
  ComparisonOptions options = Small();
  const WrongLayer::Change nothing = [](LayerNumbers&) {};
  const WrongLayer right(LayerNamed("convolution-causal").facts(), nothing);
  options.layers = {&LayerNamed("convolution"), &right};
  EXPECT_TRUE(Compare(options).AllAgree());
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const WrongLayer wrong(LayerNamed("convolution-causal").facts(), changes[i]);
    options.layers.back() = &wrong;
    const Comparison comparison = Compare(options);
    EXPECT_EQ(comparison.largest_error, 1) << i;
    EXPECT_FALSE(comparison.AllAgree()) << i;
    for (const ComparisonCheck& check : Checks(comparison)) {
      EXPECT_EQ(check.passed, check.what != "convolution (causal): counts equal the formulas") << check.what;
    }
  }
}

TEST(Checks, FailOnAWrongExponent) {
  LayerFacts facts = LayerNamed("convolution-causal").facts();
  facts.growth.front().power.k = 0.9;  // of k n d^2
  const WrongLayer wrong(facts, [](LayerNumbers&) {});
  ComparisonOptions options = Small();
  options.fit_exponents = true;
  options.layers = {&wrong};
  const std::vector<ComparisonCheck> checks = Checks(Compare(options));
  EXPECT_FALSE(checks.back().passed);
  EXPECT_NE(checks.back().what.find("exponents"), std::string::npos);
  EXPECT_NE(checks.back().found.find("convolution (causal), convolution products"), std::string::npos);
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
  options.counting_limit = 2 * 33 * 6 * 6;  // an RNN just fits, self-attention of that length does not
  options.layers = LayersNamed({"convolution", "rnn", "attention"});
  for (const ComparisonRow& row : Compare(options).rows) {
    if (row.length != 33) continue;
    EXPECT_EQ(row.counted, row.layer->name() == "RNN") << row.layer->name();
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
  EXPECT_EQ(message([](auto& o) { o.kernel = 4; }), "kernel: expected an odd number, got 4");
  EXPECT_EQ(message([](auto& o) { o.kernel = -1; }).substr(0, 7), "kernel:");
  EXPECT_EQ(message([](auto& o) { o.heads = 4; }), "heads: expected a divisor of the width (6), got 4");
  EXPECT_EQ(message([](auto& o) { o.window = 0; }), "window: 0 is outside 1..1048576");
  EXPECT_EQ(message([](auto& o) { o.influence_length = 1; }), "influence: expected 0 or two tokens at least, got 1");
  EXPECT_EQ(message([](auto& o) { o.layers = {}; }).substr(0, 9), "encoders:");
}

// Multiply-adds counted on the running layer.
LayerNumbers CountProducts(const Layer& layer, const LayerShape& shape, int64_t length) {
  LayerWeights weights;
  for (const int64_t size : layer.WeightSizes(shape)) weights.emplace_back(size, 1.0);
  return CountRun(layer, shape, weights, Waves(length * shape.width, 2)).numbers;
}

TEST(Crossovers, LieWhereTheCountsOfRunningLayersCross) {
  const Layer& attention = LayerNamed("attention");
  for (const int64_t width : {1, 4, 6}) {
    for (const int64_t kernel : {1, 3, 7, 21}) {
      const LayerShape shape{.width = width, .kernel = kernel};
      const auto than = [&](const std::string& name, int64_t n) {
        for (const Layer* layer : AllLayers()) {
          if (layer->name() == name) return CountProducts(*layer, shape, n).multiply_adds();
        }
        return CountProducts(attention, shape, n).Of(Term::kProjections);
      };
      for (const Crossover& crossover : CountedCrossovers(attention, AllLayers(), shape)) {
        const std::string where = crossover.than + " d=" + std::to_string(width) + " k=" + std::to_string(kernel);
        const auto scores = [&](int64_t n) { return CountProducts(attention, shape, n).scores_and_sums(); };
        const int64_t at = crossover.scores;
        EXPECT_GE(scores(at), than(crossover.than, at)) << where;
        if (at > 1) {
          EXPECT_LT(scores(at - 1), than(crossover.than, at - 1)) << where;
        }
        const auto whole = [&](int64_t n) { return CountProducts(attention, shape, n).multiply_adds(); };
        if (crossover.whole == 0) continue;
        EXPECT_GE(whole(crossover.whole), than(crossover.than, crossover.whole)) << where;
        if (crossover.whole > 1) {
          EXPECT_LT(whole(crossover.whole - 1), than(crossover.than, crossover.whole - 1)) << where;
        }
      }
    }
  }
}

TEST(Crossovers, AreTheWidthForAnRnnAndTwiceTheWidthForTheProjections) {
  for (const int64_t width : {8, 64, 512}) {
    const std::vector<Crossover> crossovers = CountedCrossovers(LayerNamed("attention"), AllLayers(), {.width = width});
    EXPECT_EQ(crossovers.front().than, "its own projections");
    EXPECT_EQ(crossovers.front().scores, 2 * width);
    const auto rnn = std::ranges::find(crossovers, "RNN", &Crossover::than);
    ASSERT_NE(rnn, crossovers.end());
    EXPECT_EQ(rnn->scores, width);
    EXPECT_EQ(rnn->whole, 1);  // its projections alone cost twice as much
  }
}

TEST(MeasuredCrossover, IsInterpolatedOnLogarithms) {
  // n^2 against 20 n: straight lines on logarithms, which meet at 20.
  Crossover crossover{};
  MeasureCrossover({4, 16, 64, 256}, {16, 256, 4096, 65536}, {80, 320, 1280, 5120}, crossover);
  EXPECT_NEAR(crossover.seconds, 20, 1e-12);
  EXPECT_EQ(crossover.in_words, "about 20");
  MeasureCrossover({4, 16}, {5, 6}, {1, 2}, crossover);
  EXPECT_EQ(crossover.in_words, "below 4");
  MeasureCrossover({4, 16}, {1, 2}, {5, 6}, crossover);
  EXPECT_EQ(crossover.in_words, "beyond 16");
}

TEST(ArchitecturesFigure, ShowsWhichOfFiveTokensReadsWhich) {
  const Diagram diagram = std::get<Diagram>(ArchitecturesFigure().content);
  EXPECT_EQ(diagram.nodes.size(), 5 * (3 + 2 + 2));
  // Two convolutions with 2 + 3 + 3 + 3 + 2 taps, a recurrence with 5 inputs and 4 steps, self-attention with 25 pairs.
  EXPECT_EQ(diagram.arrows.size(), 2 * 13 + 9 + 25);
}

TEST(AttentionModelsFigure, ShowsWhatEachOfTheFourReads) {
  const Diagram diagram = std::get<Diagram>(AttentionModelsFigure().content);
  EXPECT_EQ(diagram.nodes.size(), 5 * (2 + 2 + 3 + 3));
  // Five inputs and ten pairs of a tape; 25 pairs; twice the inputs and steps of an LSTM and the 15 states up to each token.
  EXPECT_EQ(diagram.arrows.size(), (5 + 10) + 25 + 2 * (5 + 4 + 15));
}

TEST(ComparisonFigures, DrawTheAttentionModelsWhereOneIsCompared) {
  ComparisonOptions options = Small();
  const auto drawn = [&](const char* id) {
    options.layers = {&LayerNamed(id)};
    const std::vector<Figure> figures = ComparisonFigures(Compare(options));
    return std::ranges::count(figures, "compare-attention-models", &Figure::name);
  };
  EXPECT_EQ(drawn("lstmn"), 1);
  EXPECT_EQ(drawn("gru"), 0);
}

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ComparisonFiles, HoldEveryRow) {
  const ScratchFolder scratch;
  const std::filesystem::path directory = scratch.path() / "out";
  ComparisonOptions options = Small();
  options.longest_trace = 16;  // the last length stays uncounted
  options.influence_length = 8;
  const Comparison comparison = Compare(options);
  EXPECT_EQ(WriteComparison(comparison, directory), directory / "report.html");

  const std::string csv = Contents(directory / "compare.csv");
  EXPECT_EQ(csv, ComparisonCsv(comparison));
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line.substr(0, 68), "layer,length,width,kernel,heads,window,level,multiply_adds,expected_");
  const auto commas = std::ranges::count(line, ',');
  for (const ComparisonRow& row : comparison.rows) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(std::ranges::count(line, ','), commas);
    const std::string counted = row.counted ? std::to_string(row.found.multiply_adds()) : "";
    std::string start = row.layer->name();
    start += "," + std::to_string(row.length) + ",6,3,1,8,";
    start += row.layer->facts().changes_with_level ? "1," : "0,";
    start += counted + ",";
    EXPECT_TRUE(line.starts_with(start)) << line;
  }
  EXPECT_FALSE(std::getline(lines, line));

  const nlohmann::json json = nlohmann::json::parse(Contents(directory / "compare.json"));
  ASSERT_EQ(json["rows"].size(), comparison.rows.size());
  EXPECT_EQ(json["rows"][2]["counted"]["multiply_adds"], 13 * 36);
  EXPECT_TRUE(json["rows"][4]["counted"].is_null());
  EXPECT_TRUE(json["rows"][0]["seconds"].is_null());
  EXPECT_EQ(json["all_agree"], false);
  ASSERT_EQ(json["influence"].size(), EncoderNames().size());
  EXPECT_EQ(json["influence"][1]["encoder"], "convolution");
  EXPECT_TRUE(json["influence"][1]["log10"][5].is_null());  // two layers of a window of three reach four tokens
  EXPECT_TRUE(json["influence"][1]["log10"][4].is_number());

  for (const Figure& figure : comparison.figures) {
    EXPECT_GT(std::filesystem::file_size(directory / (figure.name + ".svg")), 500U) << figure.name;
    EXPECT_NE(Contents(directory / "report.html").find(figure.title), std::string::npos);
  }
}

TEST(ComparisonFigures, AreTheDrawingAloneForASingleLength) {
  ComparisonOptions options = Small();
  options.lengths = {7}, options.layers = {&LayerNamed("attention")};
  const Comparison comparison = Compare(options);
  EXPECT_TRUE(comparison.AllAgree());
  EXPECT_EQ(comparison.figures.size(), 1U);
  EXPECT_EQ(ComparisonTables(comparison).size(), 3U);  // formulas, counts, crossovers
}

TEST(ComparisonFigures, MarkWhereTheTermsOfSelfAttentionCross) {
  ComparisonOptions options = Small();
  options.lengths = {4, 8, 16, 32};
  const Comparison comparison = Compare(options);
  const auto figure = std::ranges::find(comparison.figures, "compare-terms", &Figure::name);
  ASSERT_NE(figure, comparison.figures.end());
  const std::vector<Series>& series = std::get<LinePlot>(figure->content).series;
  ASSERT_EQ(series.size(), 3U);
  EXPECT_EQ(series[0].y, (std::vector<double>{4 * 4 * 36, 4 * 8 * 36, 4 * 16 * 36, 4 * 32 * 36}));
  EXPECT_EQ(series[1].y, (std::vector<double>{2 * 16 * 6, 2 * 64 * 6, 2 * 256 * 6, 2 * 1024 * 6}));
  EXPECT_EQ(series[2].x, (std::vector<double>{12, 12}));
}

}  // namespace
}  // namespace heed::lab
