#include "book/comparison/crossover.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <ranges>

namespace heed::lab {
namespace {

using Cost = std::function<int64_t(int64_t length)>;  // multiply-adds

// The smallest length where a >= b; a / b must not fall with the length, and a >= b must hold at `limit`.
int64_t SmallestWhereAtLeast(const Cost& a, const Cost& b, int64_t limit) {
  return *std::ranges::partition_point(std::views::iota(int64_t{1}, limit + 1), [&](int64_t n) { return a(n) < b(n); });
}

}  // namespace

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

}  // namespace heed::lab
