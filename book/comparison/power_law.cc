#include "book/comparison/power_law.h"

#include <cmath>
#include <cstddef>
#include <numeric>

namespace heed::lab {
namespace {

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

}  // namespace heed::lab
