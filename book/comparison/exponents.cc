#include "book/comparison/exponents.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

// One factor of the grid's points, for the fit.
template <class Factor>
std::vector<double> Column(const std::vector<GridPoint>& grid, const Factor& factor) {
  std::vector<double> column;
  column.reserve(grid.size());
  for (const GridPoint& point : grid) column.push_back(static_cast<double>(factor(point)));
  return column;
}

Products CountProducts(const Layer& layer, const GridPoint& point) {
  LayerWeights<double> weights;
  for (const int64_t size : layer.WeightSizes(point.shape)) weights.emplace_back(size, 0.0);
  return CountRun(layer, point.shape, weights, std::vector<double>(point.length * point.shape.width)).products;
}

TermExponents FitTerm(const Layer& layer, const TermGrowth& growth, const std::vector<GridPoint>& grid,
                      const std::vector<Products>& counts) {
  std::vector<double> cost;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const double log_n = growth.power.times_log_n ? std::log2(static_cast<double>(grid[i].length)) : 1;
    cost.push_back(static_cast<double>(counts[i][static_cast<int>(growth.term)]) / log_n);
  }
  std::vector<std::vector<double>> factors = {Column(grid, [](const GridPoint& point) { return point.length; }),
                                              Column(grid, [](const GridPoint& point) { return point.shape.width; })};
  const Reach reach = layer.facts().reach;
  if (reach != Reach::kNone) factors.push_back(Column(grid, [](const GridPoint& point) { return point.reach; }));
  const std::vector<Exponent> fitted = FitPowerLaw(factors, cost);
  TermExponents result{layer.name(),
                       NameOf(growth.term),
                       growth.power.times_log_n,
                       {{"n", fitted[0], growth.power.n}, {"d", fitted[1], growth.power.d}}};
  if (reach != Reach::kNone) {
    result.exponents.push_back({reach == Reach::kKernel ? "k" : "2w + 1", fitted[2], growth.power.k});
  }
  return result;
}

// In n - 1, the distance, and in what one hop covers at most. Powers of two for both, so that nothing is rounded up.
TermExponents FitHops(const Layer& layer, const PowerOfSizes& power) {
  const std::vector<GridPoint> grid = Grid(layer, {65, 129, 257}, {1});
  std::vector<double> hops;
  hops.reserve(grid.size());
  for (const GridPoint& point : grid) {
    hops.push_back(static_cast<double>(TracePaths(layer, point.shape, point.length).hops.Hops(0, point.length - 1)));
  }
  std::vector<std::vector<double>> factors = {Column(grid, [](const GridPoint& point) { return point.length - 1; })};
  const Reach reach = layer.facts().reach;
  if (reach != Reach::kNone) factors.push_back(Column(grid, [](const GridPoint& point) { return point.reach - 1; }));
  const std::vector<Exponent> fitted = FitPowerLaw(factors, hops);
  TermExponents result{layer.name(), "hops", false, {{"n", fitted[0], power.n}}};
  if (reach != Reach::kNone) result.exponents.push_back({reach == Reach::kKernel ? "k - 1" : "w", fitted[1], power.k});
  return result;
}

}  // namespace

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
  for (const TermGrowth& growth : layer.facts().growth) all.push_back(FitTerm(layer, growth, grid, counts));
  if (layer.facts().path) all.push_back(FitHops(layer, *layer.facts().path));
  return all;
}

}  // namespace heed::lab
