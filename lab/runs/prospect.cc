#include "lab/runs/prospect.h"

#include <cmath>

namespace heed::lab {
namespace {

constexpr double kOneRun = 0.05;  // share of the loss that another seed may make, where there is one run

// Twice the deviation of the mean difference between two runs by the blocks.
double ReachOfBlocks(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& weights) {
  double sum = 0, weight = 0, squares = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * (a[i] - b[i]), weight += weights[i];
  for (std::size_t i = 0; i < weights.size(); ++i) squares += std::pow(weights[i] / weight * (a[i] - b[i] - sum / weight), 2);
  const double blocks = static_cast<double>(weights.size());
  return blocks < 2 ? INFINITY : 2 * std::sqrt(squares * blocks / (blocks - 1));
}

}  // namespace

double MayEndAhead(const Prospect& one, const Prospect& other, const std::vector<double>& weights) {
  const double chance = std::hypot(ReachOfBlocks(one.blocks, other.blocks, weights), kOneRun * std::abs(other.end.loss));
  return other.end.loss - one.end.loss + std::hypot(chance, one.end.error, other.end.error);
}

}  // namespace heed::lab
