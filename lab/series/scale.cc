#include "lab/series/scale.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace heed::lab {
namespace {

constexpr double kRounding = 1e-14;  // beside a mean

// The root of the mean of squares that are too small or too large for a double themselves.
double RootMeanSquare(const std::vector<double>& values, double centre) {
  double largest = 0, squares = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value - centre));
  // A power of two, which changes no digit but keeps the squares of small numbers from vanishing.
  const double unit = largest > 0 ? std::exp2(std::max(-1000, std::ilogb(largest))) : 1;
  for (const double value : values) squares += (value - centre) / unit * ((value - centre) / unit);
  return unit * std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

Moments MomentsOf(const std::vector<double>& values) {
  const double first = values.front();
  double sum = 0;
  for (const double value : values) sum += value - first;  // the sum of equal values themselves is rounded once a value
  const double mean = first + sum / static_cast<double>(values.size());
  const double deviation = RootMeanSquare(values, mean);
  return {mean, deviation > kRounding * std::abs(mean) ? deviation : 1.0};
}

double ScaleOfChanges(const std::vector<double>& changes, double mean) {
  if (changes.empty()) return 1;
  const double scale = RootMeanSquare(changes, 0);
  return scale > kRounding * std::abs(mean) ? scale : 1.0;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 1;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace heed::lab
