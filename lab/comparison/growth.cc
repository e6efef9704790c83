#include "lab/comparison/growth.h"

#include <cmath>
#include <cstddef>
#include <functional>

#include "lab/comparison/formulas.h"

namespace heed::lab {
namespace {

using Cost = std::function<int64_t(int64_t length)>;  // multiply-adds

// The smallest length where a >= b; a / b must not fall with the length, and a >= b must hold at `limit`.
int64_t SmallestWhereAtLeast(const Cost& a, const Cost& b, int64_t limit) {
  int64_t low = 1, high = limit;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (a(middle) >= b(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

PowerLaw FitPowerLaw(const std::vector<double>& x, const std::vector<double>& y) {
  const double points = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) mean_x += std::log(x[i]) / points, mean_y += std::log(y[i]) / points;
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (std::log(x[i]) - mean_x) * (std::log(x[i]) - mean_x);
    xy += (std::log(x[i]) - mean_x) * (std::log(y[i]) - mean_y);
  }
  const double slope = xy / xx;
  double residual = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = std::log(y[i]) - mean_y - slope * (std::log(x[i]) - mean_x);
    residual += off * off;
  }
  return {slope, x.size() > 2 ? std::sqrt(residual / (points - 2) / xx) : 0.0};
}

std::vector<Crossover> CountedCrossovers(const std::vector<LayerShape>& layers) {
  const LayerShape& attention = layers.back();
  const auto whole = [](LayerShape layer) {
    return Cost([layer](int64_t n) { return ExpectedNumbers(layer, n).multiply_adds(); });
  };
  const Cost scores = [attention](int64_t n) { return ExpectedNumbers(attention, n).mixing.multiply_adds; };
  const Cost projections = [attention](int64_t n) { return ExpectedNumbers(attention, n).projections.multiply_adds; };
  // Scores cost 2 n^2 d, so they reach the projections at 2 d, a recurrence at d and a convolution at k d / 2 at the latest.
  const int64_t limit = attention.width * (layers.front().kernel + 2);

  const std::string whole_name = NameOf(attention.kind), scores_name = "scores and sums of attention";
  std::vector<Crossover> crossovers = {
      {scores_name, "projections of attention", SmallestWhereAtLeast(scores, projections, limit), 0, "-"}};
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    const std::string name = NameOf(layers[i].kind);
    crossovers.push_back({scores_name, name, SmallestWhereAtLeast(scores, whole(layers[i]), limit), 0, "-"});
    crossovers.push_back({whole_name, name, SmallestWhereAtLeast(whole(attention), whole(layers[i]), limit), 0, "-"});
  }
  return crossovers;
}

void MeasureCrossover(const std::vector<int64_t>& lengths, const std::vector<double>& dearer, const std::vector<double>& than,
                      Crossover& crossover) {
  std::size_t first = lengths.size();  // the first of the lengths from which `dearer` is never below
  while (first > 0 && dearer[first - 1] >= than[first - 1]) --first;
  if (first == lengths.size()) {
    crossover.seconds_in_words = "beyond " + std::to_string(lengths.back());
    return;
  }
  if (first == 0) {
    crossover.seconds_in_words = "below " + std::to_string(lengths.front());
    return;
  }
  const double before = std::log(than[first - 1] / dearer[first - 1]), after = std::log(dearer[first] / than[first]);
  const double from = std::log(static_cast<double>(lengths[first - 1])), to = std::log(static_cast<double>(lengths[first]));
  crossover.seconds = std::exp(from + (to - from) * before / (before + after));
  crossover.seconds_in_words = "about " + std::to_string(std::llround(crossover.seconds));
}

}  // namespace heed::lab
