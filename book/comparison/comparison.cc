#include "book/comparison/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <ranges>
#include <utility>

#include "book/comparison/counting.h"
#include "book/comparison/nn_layer.h"
#include "book/comparison/output.h"
#include "heed/error.h"
#include "lab/report/progress.h"
#include "lab/training/interrupt.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

// Bounds within which every formula stays below 2^63.
constexpr int64_t kLongest = int64_t{1} << 20;

std::vector<std::string> IdsOf(const std::vector<const Layer*>& layers) {
  std::vector<std::string> ids;
  ids.reserve(layers.size());
  for (const Layer* layer : layers) ids.push_back(layer->facts().id);
  return ids;
}

void CheckOptions(const ComparisonOptions& options) {
  ComparisonOptions own = options;
  std::vector<std::string> ids = IdsOf(options.layers);
  Check(FieldsOf(own, ids));
  const auto refuse = [](const std::string& name, const std::string& expected, int64_t got) {
    throw InvalidArgument(name + ": expected " + expected + ", got " + std::to_string(got));
  };
  const auto falling = std::ranges::adjacent_find(options.lengths, std::ranges::greater_equal());
  if (falling != options.lengths.end()) refuse("lengths", "numbers that increase", *std::next(falling));
  if (options.kernel % 2 == 0) refuse("kernel", "an odd number", options.kernel);
  if (options.width % options.heads != 0) {
    refuse("heads", "a divisor of the width (" + std::to_string(options.width) + ")", options.heads);
  }
  if (options.influence_length == 1) refuse("influence", "0 or two tokens at least", options.influence_length);
}

// 1, 2, 4, ... and all of them.
std::vector<int> DoublingThreads(int all) {
  std::vector<int> counts;
  for (int threads = 1; threads < all; threads *= 2) counts.push_back(threads);
  counts.push_back(all);
  return counts;
}

std::vector<double> RandomInput(int64_t size, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(size);
  for (double& value : values) value = normal(generator);
  return values;
}

// In units of epsilon times the largest value.
double ValueError(const std::vector<double>& values, const std::vector<double>& reference) {
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = std::fabs(values[i] - reference[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
    scale = std::max(scale, std::fabs(reference[i]));
  }
  return error / (scale * std::numeric_limits<double>::epsilon());
}

// Two orders of summing m terms differ by at most 2 m epsilon times the sum of the terms' sizes. With terms of random sign that
// sum is some four times the largest result; a layer has at most four sums one after the other, and a recurrence, whose weights
// contract, passes on about as much error again.
double ValueBound(const ComparisonRow& row) { return 2.0 * static_cast<double>(row.expected.longest_sum) * 4.0 * 4.0; }

// What --heads, --kernel and the others make of a layer. Of a dilated stack it is the second layer: the first is contiguous.
LayerShape ShapeOf(const ComparisonOptions& options, const Layer& layer) {
  return {.width = options.width,
          .kernel = options.kernel,
          .heads = options.heads,
          .window = options.window,
          .level = layer.facts().changes_with_level ? 1 : 0};
}

void CountRow(const ComparisonOptions& options, const NnLayer& module, ComparisonRow& row) {
  const std::vector<double> x = RandomInput(row.length * row.shape.width, options.seed);
  const CountedRun run = CountAll(*row.layer, row.shape, module.Weights(), x);
  row.found = run.numbers;
  row.error = LargestDifference(row.found, row.expected);
  row.value_error = ValueError(run.values, module.Forward(x));
}

ComparisonRow MakeRow(const ComparisonOptions& options, const Layer& layer, const NnLayer& module, int64_t length) {
  ComparisonRow row{};
  row.layer = &layer;
  row.shape = ShapeOf(options, layer);
  row.length = length;
  row.expected = layer.Expected(row.shape, length);
  row.value_bound = ValueBound(row);
  row.counted = row.expected.multiply_adds() <= options.counting_limit && length <= options.longest_trace;
  if (row.counted) CountRow(options, module, row);
  for (const int threads : options.thread_counts) row.seconds.push_back(module.FastestSeconds(length, threads));
  return row;
}

std::vector<double> SecondsOf(const Comparison& comparison, const std::string& layer) {
  std::vector<double> seconds;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.layer->name() == layer) seconds.push_back(row.best_seconds());
  }
  return seconds;
}

// Over the longer half of the lengths, where cost has stopped being overhead, but over two lengths at least.
std::vector<TimeGrowth> FitTime(const Comparison& comparison) {
  const std::vector<int64_t>& lengths = comparison.options.lengths;
  if (lengths.size() < 2 || comparison.options.no_time) return {};
  const auto skip = static_cast<std::ptrdiff_t>(std::min(lengths.size() / 2, lengths.size() - 2));
  const std::vector<double> x(lengths.begin() + skip, lengths.end());
  std::vector<TimeGrowth> growth;
  for (const Layer* layer : comparison.options.layers) {
    const std::vector<double> seconds = SecondsOf(comparison, layer->name());
    growth.push_back({layer->name(), FitPowerLaw({x}, {seconds.begin() + skip, seconds.end()}).front()});
  }
  return growth;
}

using Cost = std::function<int64_t(int64_t length)>;  // multiply-adds

// The smallest length where a >= b; a / b must not fall with the length, and a >= b must hold at `limit`.
int64_t SmallestWhereAtLeast(const Cost& a, const Cost& b, int64_t limit) {
  return *std::ranges::partition_point(std::views::iota(int64_t{1}, limit + 1), [&](int64_t n) { return a(n) < b(n); });
}

std::vector<Crossover> FindCrossovers(const Comparison& comparison) {
  const ComparisonOptions& options = comparison.options;
  const auto attention = std::ranges::find(options.layers, &LayerNamed("attention"));
  if (attention == options.layers.end()) return {};
  std::vector<Crossover> crossovers = CountedCrossovers(**attention, options.layers, ShapeOf(options, **attention));
  if (options.no_time) return crossovers;
  for (Crossover& crossover : crossovers) {
    if (crossover.whole == 0) continue;  // projections are not a layer that could be timed
    MeasureCrossover(options.lengths, SecondsOf(comparison, (*attention)->name()), SecondsOf(comparison, crossover.than),
                     crossover);
  }
  return crossovers;
}

ComparisonCheck CheckExponents(const Comparison& comparison) {
  int64_t exponents = 0;
  const TermExponents* farthest = &comparison.exponents.front();
  for (const TermExponents& entry : comparison.exponents) {
    exponents += static_cast<int64_t>(entry.exponents.size());
    if (entry.LargestDeviation() > farthest->LargestDeviation()) farthest = &entry;
  }
  return {"exponents: within " + FormatNumber(kExponentTolerance) + " of theory",
          farthest->LargestDeviation() <= kExponentTolerance,
          std::to_string(exponents) + " exponents, largest deviation " +
              FormatNumber(std::round(farthest->LargestDeviation() * 1e4) / 1e4) + " (" + farthest->layer + ", " +
              farthest->quantity + ")"};
}

void CheckLayer(const Comparison& comparison, const Layer& layer, std::vector<ComparisonCheck>& checks) {
  int64_t lengths = 0, uncounted = 0, error = 0;
  double value_share = 0;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.layer != &layer) continue;
    ++lengths;
    if (!row.counted) {
      ++uncounted;
      continue;
    }
    error = std::max(error, row.error);
    value_share = std::max(value_share, row.value_error / row.value_bound);
  }
  std::string missing;
  if (uncounted > 0) missing = "; " + std::to_string(uncounted) + " lengths are too large to be counted at this width";
  checks.push_back({layer.name() + ": counts equal the formulas", error == 0 && uncounted == 0,
                    std::to_string(Entries({}).size()) + " numbers at " + std::to_string(lengths - uncounted) +
                        " lengths, largest difference " + std::to_string(error) + missing});
  const std::string twin = layer.name().starts_with("linear recurrence") ? "LibTorch" : "heed::nn";
  checks.push_back(
      {layer.name() + ": values equal those of " + twin, value_share <= 1 && uncounted == 0,
       "largest difference " + FormatNumber(std::round(value_share * 1e4) / 100) + " % of what rounding allows" + missing});
}

}  // namespace

Fields FieldsOf(ComparisonOptions& options, std::vector<std::string>& layers) {
  return {Names("encoders", &layers, LayerNames(), "Layers to compare"),
          Whole("lengths", &options.lengths, 1, kLongest, "Tokens: numbers with commas, and ranges 16:128 that double"),
          Whole("width", &options.width, 1, 8192, "Width of the layers"),
          Whole("kernel", &options.kernel, 1, 1023, "Window of the convolutions, odd"),
          Whole("heads", &options.heads, 1, 8192, "Heads of self-attention and linear attention; divides the width"),
          Whole("window", &options.window, 1, kLongest, "Tokens that windowed self-attention sees to either side"),
          Whole("influence", &options.influence_length, 0, 4096, "Tokens of the influence curves; 0: none"),
          Switch("no_time", options.no_time, "Count only; the output is then the same every time"),
          Seed(options.seed)};
}

std::string CommandOf(const ComparisonOptions& options, const std::filesystem::path& folder) {
  ComparisonOptions own = options, defaults;
  std::vector<std::string> layers = IdsOf(own.layers), all = LayerNames();
  return CommandLine("compare", "", "", FieldsOf(own, layers), FieldsOf(defaults, all), folder);
}

std::vector<Crossover> CountedCrossovers(const Layer& attention, const std::vector<const Layer*>& layers,
                                         const LayerShape& shape) {
  const auto whole = [shape](const Layer& layer) {
    return Cost([&layer, shape](int64_t n) { return layer.Expected(shape, n).multiply_adds(); });
  };
  const Cost scores = [&](int64_t n) { return attention.Expected(shape, n).scores_and_sums(); };
  const Cost projections = [&](int64_t n) { return attention.Expected(shape, n).Of(Term::kProjections); };
  // Scores and sums take 2 n^2 d. The other layers take at most (k + 19) n d^2 and 28 n d, and a scan n d log2 n < n^2 d.
  const int64_t limit = (shape.width + 1) * (shape.kernel + 13);
  std::vector<Crossover> crossovers = {{"its own projections", SmallestWhereAtLeast(scores, projections, limit)}};
  for (const Layer* layer : layers) {
    const bool attends = layer->Expected(shape, 2).Of(Term::kScores) > 0;
    if (attends || layer->facts().changes_with_level) continue;
    crossovers.push_back({layer->name(), SmallestWhereAtLeast(scores, whole(*layer), limit),
                          SmallestWhereAtLeast(whole(attention), whole(*layer), limit)});
  }
  return crossovers;
}

void MeasureCrossover(const std::vector<int64_t>& lengths, const std::vector<double>& dearer, const std::vector<double>& than,
                      Crossover& crossover) {
  std::size_t first = lengths.size();  // the first of the lengths from which `dearer` is never below
  while (first > 0 && dearer[first - 1] >= than[first - 1]) --first;
  if (first == lengths.size()) {
    crossover.in_words = "beyond " + std::to_string(lengths.back());
    return;
  }
  if (first == 0) {
    crossover.in_words = "below " + std::to_string(lengths.front());
    return;
  }
  const double before = std::log(than[first - 1] / dearer[first - 1]), after = std::log(dearer[first] / than[first]);
  const double from = std::log(static_cast<double>(lengths[first - 1])), to = std::log(static_cast<double>(lengths[first]));
  crossover.seconds = std::exp(from + (to - from) * before / (before + after));
  crossover.in_words = "about " + std::to_string(std::llround(crossover.seconds));
}

std::vector<ComparisonCheck> Checks(const Comparison& comparison) {
  std::vector<ComparisonCheck> checks;
  for (const Layer* layer : comparison.options.layers) CheckLayer(comparison, *layer, checks);
  if (!comparison.exponents.empty()) checks.push_back(CheckExponents(comparison));
  return checks;
}

bool Comparison::AllAgree() const {
  return std::ranges::all_of(Checks(*this), [](const ComparisonCheck& check) { return check.passed; });
}

Comparison Compare(const ComparisonOptions& options) {
  CheckOptions(options);
  Comparison comparison;
  comparison.options = options;
  comparison.largest_error = 0;
  if (options.no_time) comparison.options.thread_counts.clear();
  if (!options.no_time && options.thread_counts.empty()) {
    comparison.options.thread_counts = DoublingThreads(ComputeThreads());
  }
  Progress progress("compare", static_cast<int64_t>(options.layers.size() * (options.lengths.size() + 1)), options.quiet);
  int64_t done = 0;
  const auto next = [&](const std::string& what) {
    if (Interrupted()) throw Interruption("compare: interrupted before anything was written");
    progress.Update(done++, what);
  };
  for (const Layer* layer : options.layers) {
    const NnLayer module(*layer, ShapeOf(options, *layer), options.seed);
    for (const int64_t length : options.lengths) {
      next(layer->name() + ", " + std::to_string(length) + " tokens");
      comparison.rows.push_back(MakeRow(comparison.options, *layer, module, length));
      comparison.largest_error = std::max(comparison.largest_error, comparison.rows.back().error);
    }
    next(layer->name() + ", exponents");
    if (!options.fit_exponents) continue;
    const std::vector<TermExponents> exponents = FitExponents(*layer);
    comparison.exponents.insert(comparison.exponents.end(), exponents.begin(), exponents.end());
  }
  progress.Update(done, "influence");
  if (options.influence_length != 0) {
    comparison.influence = MeasureInfluences({.length = options.influence_length,
                                              .width = options.width,
                                              .kernel = options.kernel,
                                              .heads = options.heads,
                                              .seed = options.seed});
  }
  comparison.crossovers = FindCrossovers(comparison);
  comparison.time_growth = FitTime(comparison);
  comparison.figures = ComparisonFigures(comparison);
  return comparison;
}

}  // namespace heed::lab
