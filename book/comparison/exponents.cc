#include "book/comparison/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <numeric>

#include "book/comparison/counting.h"

namespace heed::lab {
namespace {

constexpr int64_t kReaches[] = {3, 5, 9};  // k, or 2w + 1

struct GridPoint {
  int64_t length;
  LayerShape shape;
  int64_t reach;
};

std::vector<GridPoint> Grid(const Layer& layer, const std::vector<int64_t>& lengths, const std::vector<int64_t>& widths) {
  std::vector<GridPoint> grid;
  for (const int64_t length : lengths) {
    for (const int64_t width : widths) {
      for (const int64_t reach : kReaches) {
        const LayerShape shape{
            .width = width, .kernel = reach, .window = (reach - 1) / 2, .level = layer.facts().changes_with_level ? 1 : 0};
        grid.push_back({length, shape, reach});
        if (layer.facts().reach == Reach::kNone) break;
      }
    }
  }
  return grid;
}

Products CountProducts(const Layer& layer, const GridPoint& point) {
  LayerWeights weights;
  for (const int64_t size : layer.WeightSizes(point.shape)) weights.emplace_back(size);
  return CountRun(layer, point.shape, weights, std::vector<double>(point.length * point.shape.width)).numbers.products;
}

// What number(point) is over the grid. Hops do not depend on the width, and grow with n - 1, the distance, and with what one of
// them covers at most.
TermExponents Fit(const Layer& layer, const std::string& quantity, const PowerOfSizes& power, bool hops,
                  const std::vector<GridPoint>& grid, const std::function<double(std::size_t i)>& number) {
  TermExponents result{layer.name(), quantity, power.times_log_n, {}};
  std::vector<double> y;
  for (std::size_t i = 0; i < grid.size(); ++i) y.push_back(number(i));
  std::vector<std::vector<double>> x;
  const auto add = [&](const char* of, double theory, const std::function<double(const GridPoint&)>& factor) {
    result.exponents.push_back({of, {}, theory});
    std::ranges::transform(grid, std::back_inserter(x.emplace_back()), factor);
  };
  const int64_t less = hops ? 1 : 0;
  add("n", power.n, [less](const GridPoint& point) { return point.length - less; });
  if (!hops) add("d", power.d, [](const GridPoint& point) { return point.shape.width; });
  const bool kernel = layer.facts().reach == Reach::kKernel;
  if (layer.facts().reach != Reach::kNone) {
    add(hops ? (kernel ? "k - 1" : "w") : (kernel ? "k" : "2w + 1"), power.k,
        [less](const GridPoint& point) { return point.reach - less; });
  }
  const std::vector<Exponent> fitted = FitPowerLaw(x, y);
  for (std::size_t f = 0; f < fitted.size(); ++f) result.exponents[f].fitted = fitted[f];
  return result;
}

// Logarithms less their mean.
std::vector<double> Centred(const std::vector<double>& values) {
  std::vector<double> logarithms;
  double mean = 0;
  for (const double value : values) {
    logarithms.push_back(std::log(value));
    mean += logarithms.back() / static_cast<double>(values.size());
  }
  for (double& logarithm : logarithms) logarithm -= mean;
  return logarithms;
}

double Inner(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

std::vector<Exponent> FitPowerLaw(const std::vector<std::vector<double>>& x, const std::vector<double>& y) {
  std::vector<double> rest = Centred(y), variances;
  std::vector<Exponent> exponents;
  for (const std::vector<double>& factor : x) {  // uncorrelated, so that each has a regression of its own
    const std::vector<double> logarithms = Centred(factor);
    variances.push_back(Inner(logarithms, logarithms));
    exponents.push_back({Inner(logarithms, rest) / variances.back(), 0});
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= exponents.back().value * logarithms[i];
  }
  if (y.size() <= x.size() + 1) return exponents;
  const double spread = Inner(rest, rest) / static_cast<double>(y.size() - x.size() - 1);
  for (std::size_t f = 0; f < exponents.size(); ++f) exponents[f].standard_error = std::sqrt(spread / variances[f]);
  return exponents;
}

double TermExponents::LargestDeviation() const {
  double largest = 0;
  for (const FittedExponent& one : exponents) {
    const double deviation = std::fabs(one.fitted.value - one.theory);
    largest = std::isnan(deviation) ? INFINITY : std::max(largest, deviation);
  }
  return largest;
}

std::vector<TermExponents> FitExponents(const Layer& layer) {
  const std::vector<GridPoint> grid = Grid(layer, {512, 1024, 2048}, {1, 2, 4});
  std::vector<Products> counts;
  counts.reserve(grid.size());
  for (const GridPoint& point : grid) counts.push_back(CountProducts(layer, point));
  std::vector<TermExponents> all;
  for (const TermGrowth& growth : layer.facts().growth) {
    all.push_back(Fit(layer, kTermNames[static_cast<int>(growth.term)], growth.power, false, grid, [&](std::size_t i) {
      const double log_n = growth.power.times_log_n ? std::log2(static_cast<double>(grid[i].length)) : 1;
      return static_cast<double>(counts[i][static_cast<int>(growth.term)]) / log_n;
    }));
  }
  if (!layer.facts().path) return all;
  // Powers of two for both factors, so that nothing is rounded up.
  const std::vector<GridPoint> paths = Grid(layer, {65, 129, 257}, {1});
  all.push_back(Fit(layer, "hops", *layer.facts().path, true, paths, [&](std::size_t i) {
    return static_cast<double>(TracePaths(layer, paths[i].shape, paths[i].length).hops.Hops(0, paths[i].length - 1));
  }));
  return all;
}

}  // namespace heed::lab
