#include "lab/comparison/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "heed/error.h"
#include "lab/comparison/counting.h"
#include "lab/comparison/figures.h"
#include "lab/comparison/formulas.h"
#include "lab/comparison/nn_layer.h"
#include "lab/report/progress.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

// Bounds within which every formula stays below 2^63.
constexpr int64_t kLongest = int64_t{1} << 20, kWidest = 8192, kLargestKernel = 1023;

void CheckOptions(const ComparisonOptions& options) {
  const auto refuse = [](const std::string& name, const std::string& expected, int64_t got) {
    throw InvalidArgument(name + ": expected " + expected + ", got " + std::to_string(got));
  };
  if (options.lengths.empty()) throw InvalidArgument("lengths: expected at least one length, got none");
  for (std::size_t i = 0; i < options.lengths.size(); ++i) {
    const int64_t length = options.lengths[i];
    if (length < 1 || length > kLongest) refuse("lengths", "numbers from 1 to " + std::to_string(kLongest), length);
    if (i > 0 && length <= options.lengths[i - 1]) refuse("lengths", "numbers that increase", length);
  }
  if (options.width < 1 || options.width > kWidest)
    refuse("width", "a number from 1 to " + std::to_string(kWidest), options.width);
  if (options.kernel < 1 || options.kernel > kLargestKernel || options.kernel % 2 == 0) {
    refuse("kernel", "an odd number from 1 to " + std::to_string(kLargestKernel), options.kernel);
  }
  if (options.heads < 1 || options.width % options.heads != 0) {
    refuse("heads", "a divisor of the width (" + std::to_string(options.width) + ")", options.heads);
  }
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
double ValueBound(const LayerShape& layer, int64_t length) {
  const int64_t taps = layer.kind == LayerKind::kRecurrence ? 2 : layer.kind == LayerKind::kSelfAttention ? 1 : layer.kernel;
  const int64_t terms = std::max(taps * layer.width, layer.kind == LayerKind::kSelfAttention ? length : 0);
  return 2.0 * static_cast<double>(terms) * 4.0 * 4.0;
}

void CountRow(const ComparisonOptions& options, const NnLayer& module, ComparisonRow& row) {
  const std::vector<double> x = RandomInput(row.length * row.layer.width, options.seed);
  const CountedRun run = CountRun(row.layer, module.Weights(), x);
  row.found = CountedNumbers(row.layer, run, TraceRun(row.layer, row.length));
  row.error = LargestDifference(row.found, row.expected);
  row.value_error = ValueError(run.values, module.Forward(x));
}

ComparisonRow MakeRow(const ComparisonOptions& options, const LayerShape& layer, const NnLayer& module, int64_t length) {
  ComparisonRow row{};
  row.layer = layer;
  row.length = length;
  row.expected = ExpectedNumbers(layer, length);
  row.value_bound = ValueBound(layer, length);
  row.counted = row.expected.multiply_adds() <= options.counting_limit && length <= options.longest_trace;
  if (row.counted) CountRow(options, module, row);
  if (options.measure_time) row.seconds = module.MedianSeconds(length);
  return row;
}

std::vector<LayerShape> Layers(const ComparisonOptions& options) {
  std::vector<LayerShape> layers;
  for (const LayerKind kind : kAllLayers) layers.push_back({kind, options.width, options.kernel, options.heads});
  return layers;
}

// One column of one layer's rows, by length.
template <class Column>
std::vector<double> Collect(const std::vector<ComparisonRow>& rows, const std::string& layer, const Column& column) {
  std::vector<double> values;
  for (const ComparisonRow& row : rows) {
    if (NameOf(row.layer.kind) == layer) values.push_back(static_cast<double>(column(row)));
  }
  return values;
}

double SecondsOf(const ComparisonRow& row) { return row.seconds; }

// Over the longer half of the lengths, where cost has stopped being overhead, but over two lengths at least.
std::vector<Growth> FitGrowth(const Comparison& comparison) {
  const std::vector<int64_t>& lengths = comparison.options.lengths;
  if (lengths.size() < 2) return {};
  const auto skip = static_cast<std::ptrdiff_t>(std::min(lengths.size() / 2, lengths.size() - 2));
  const std::vector<double> x(lengths.begin() + skip, lengths.end());
  const auto fit = [&](const std::vector<double>& y) { return FitPowerLaw(x, {y.begin() + skip, y.end()}); };
  std::vector<Growth> growth;
  for (const LayerKind kind : kAllLayers) {
    const auto multiply_adds = [](const ComparisonRow& row) { return row.expected.multiply_adds(); };
    Growth of{NameOf(kind), fit(Collect(comparison.rows, NameOf(kind), multiply_adds)), {}};
    if (comparison.options.measure_time) of.seconds = fit(Collect(comparison.rows, NameOf(kind), SecondsOf));
    growth.push_back(of);
  }
  return growth;
}

std::vector<Crossover> FindCrossovers(const Comparison& comparison) {
  std::vector<Crossover> crossovers = CountedCrossovers(Layers(comparison.options));
  for (Crossover& crossover : crossovers) {
    const std::vector<double> dearer = Collect(comparison.rows, crossover.dearer, SecondsOf);
    const std::vector<double> than = Collect(comparison.rows, crossover.than, SecondsOf);
    if (!comparison.options.measure_time || dearer.empty() || than.empty()) continue;
    MeasureCrossover(comparison.options.lengths, dearer, than, crossover);
  }
  return crossovers;
}

}  // namespace

std::vector<ComparisonCheck> Checks(const Comparison& comparison) {
  std::vector<ComparisonCheck> checks;
  for (const LayerKind kind : kAllLayers) {
    int64_t lengths = 0, uncounted = 0, error = 0;
    double value_share = 0;
    for (const ComparisonRow& row : comparison.rows) {
      if (row.layer.kind != kind) continue;
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
    checks.push_back({NameOf(kind) + ": counts equal the formulas", error == 0 && uncounted == 0,
                      std::to_string(Entries({}).size()) + " numbers at " + std::to_string(lengths - uncounted) +
                          " lengths, largest difference " + std::to_string(error) + missing});
    checks.push_back(
        {NameOf(kind) + ": values equal those of heed::nn", value_share <= 1 && uncounted == 0,
         "largest difference " + FormatNumber(std::round(value_share * 1e4) / 100) + " % of what rounding allows" + missing});
  }
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
  Progress progress("compare", static_cast<int64_t>(std::size(kAllLayers) * options.lengths.size()), options.quiet);
  for (const LayerShape& layer : Layers(options)) {
    const NnLayer module(layer, options.seed);
    for (const int64_t length : options.lengths) {
      progress.Update(static_cast<int64_t>(comparison.rows.size()),
                      NameOf(layer.kind) + ", " + std::to_string(length) + " tokens");
      if (Interrupted()) throw Interruption("compare: interrupted before anything was written");
      comparison.rows.push_back(MakeRow(options, layer, module, length));
      comparison.largest_error = std::max(comparison.largest_error, comparison.rows.back().error);
    }
  }
  progress.Update(static_cast<int64_t>(comparison.rows.size()));
  comparison.crossovers = FindCrossovers(comparison);
  comparison.growth = FitGrowth(comparison);
  comparison.figures = ComparisonFigures(comparison);
  return comparison;
}

}  // namespace heed::lab
