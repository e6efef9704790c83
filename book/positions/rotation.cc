#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "book/positions/portrait.h"
#include "heed/error.h"
#include "heed/positions.h"
#include "heed/rotary.h"

namespace heed::lab {
namespace {

constexpr double kBase = 10000.0;

// The sine and cosine that should stand at (position, 2t) and (position, 2t + 1).
struct Pair {
  double sine, cosine;
};

Pair Angles(int64_t position, int64_t t, int64_t width) {
  const double frequency = std::pow(kBase, -2.0 * static_cast<double>(t) / static_cast<double>(width));
  const double angle = static_cast<double>(position) * frequency;
  return {std::sin(angle), std::cos(angle)};
}

// The larger error; one that is not a number is the largest of all, where std::max might drop it.
double Larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

double Distance(const Pair& a, const Pair& b) { return Larger(std::fabs(a.sine - b.sine), std::fabs(a.cosine - b.cosine)); }

// sin(a + b) and cos(a + b) from the sines and cosines of a and b.
Pair Turned(const Pair& pair, const Pair& by) {
  return {pair.sine * by.cosine + pair.cosine * by.sine, pair.cosine * by.cosine - pair.sine * by.sine};
}

// The columns of one frequency.
std::vector<Pair> Columns(const View<const float, 2>& table, int64_t t) {
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < table.extent[0]; ++i) pairs.push_back({table(i, 2 * t), table(i, 2 * t + 1)});
  return pairs;
}

std::vector<Pair> Exact(int64_t steps, int64_t t, int64_t width) {
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < steps; ++i) pairs.push_back(Angles(i, t, width));
  return pairs;
}

double LargestRotationError(const std::vector<Pair>& emitted, const std::vector<Pair>& exact) {
  const auto steps = static_cast<int64_t>(emitted.size());
  double largest = 0;
  for (int64_t delta = 1 - steps; delta < steps; ++delta) {
    Pair by = exact[static_cast<std::size_t>(std::abs(delta))];
    if (delta < 0) by.sine = -by.sine;
    for (int64_t i = std::max<int64_t>(0, -delta); i < std::min(steps, steps - delta); ++i) {
      const Pair turned = Turned(emitted[static_cast<std::size_t>(i)], by);
      largest = Larger(largest, Distance(turned, exact[static_cast<std::size_t>(i + delta)]));
    }
  }
  return largest;
}

struct Fit {
  double error;  // largest |fitted - rotation| over the four entries
  double bound;  // the largest that rounding the table to float can cause
};

// Fits the 2 x 2 matrix M of X M = Y by least squares (normal equations in double), where X are the rows of one frequency but
// the last and Y those but the first, and compares it with the rotation by one step R. The table is exact up to half a unit in
// the last place of float, u = 2^-25: X = X0 + E, Y = X0 R + F, so M - R = pinv(X) (F - E R), which is at most
// 2 u sqrt(2 rows) / (smallest singular value of X).
Fit FitShift(const std::vector<Pair>& emitted, const Pair& one_step) {
  double ss = 0, sc = 0, cc = 0;              // X^T X
  double s_s = 0, s_c = 0, c_s = 0, c_c = 0;  // X^T Y
  const std::size_t rows = emitted.size() - 1;
  for (std::size_t i = 0; i < rows; ++i) {
    const Pair &x = emitted[i], &y = emitted[i + 1];
    ss += x.sine * x.sine, sc += x.sine * x.cosine, cc += x.cosine * x.cosine;
    s_s += x.sine * y.sine, s_c += x.sine * y.cosine, c_s += x.cosine * y.sine, c_c += x.cosine * y.cosine;
  }
  const double determinant = ss * cc - sc * sc;
  const Pair from_sine{(cc * s_s - sc * c_s) / determinant, (cc * s_c - sc * c_c) / determinant};
  const Pair from_cosine{(ss * c_s - sc * s_s) / determinant, (ss * c_c - sc * s_c) / determinant};
  const double error = Larger(Distance(from_sine, {one_step.cosine, -one_step.sine}), Distance(from_cosine, one_step));
  const double largest_eigenvalue = (ss + cc) / 2 + std::hypot((ss - cc) / 2, sc);
  const double smallest_singular_value = std::sqrt(std::max(determinant, 0.0) / largest_eigenvalue);
  return {error, 2 * std::ldexp(1.0, -25) * std::sqrt(2.0 * static_cast<double>(rows)) / smallest_singular_value};
}

void CheckShape(int64_t steps, int64_t width) {
  constexpr double kMostWork = 68719476736.0;  // 2^36
  if (steps < 3) throw InvalidArgument("steps: expected at least 3 to fit a map to, got " + std::to_string(steps));
  if (width < 2) throw InvalidArgument("width: expected at least 2, a sine and its cosine, got " + std::to_string(width));
  if (static_cast<double>(steps) * static_cast<double>(steps) * static_cast<double>(width) > kMostWork) {
    throw InvalidArgument("steps: expected steps^2 x width of at most 2^36 to compare every shift, got " +
                          std::to_string(steps) + "^2 x " + std::to_string(width));
  }
}

// Rotary's sines and cosines, in turn; the width is even.
std::vector<float> EmittedRotary(const PositionsOptions& options) {
  const int64_t pairs = options.width / 2, count = options.steps * pairs;
  std::vector<float> cosines(count), sines(count), table(2 * count);
  const auto view = [&](std::vector<float>& values) {
    return View<float, 2>::Contiguous(values.data(), {options.steps, pairs});
  };
  RotaryTable(ComputeRotaryFrequencies({.rotary_dim = options.width}), 0, view(cosines), view(sines));
  for (int64_t i = 0; i < count; ++i) table[2 * i] = sines[i], table[2 * i + 1] = cosines[i];
  return table;
}

}  // namespace

std::vector<float> EmittedSinusoidal(const PositionsOptions& options) {
  std::vector<float> table(static_cast<std::size_t>(options.steps * options.width));
  SinusoidalTable({}, 0, View<float, 2>::Contiguous(table.data(), {options.steps, options.width}));
  return table;
}

RotationCheck CheckRotation(View<const float, 2> table) {
  const int64_t steps = table.extent[0], width = table.extent[1];
  CheckShape(steps, width);
  RotationCheck check;
  check.unpaired_columns = width % 2;
  check.shifts = steps * steps;
  const auto raise = [](double& largest, double error) { largest = Larger(largest, error); };
  for (int64_t t = 0; t < width / 2; ++t) {
    const std::vector<Pair> emitted = Columns(table, t), exact = Exact(steps, t, width);
    for (std::size_t i = 0; i < emitted.size(); ++i) raise(check.table_error, Distance(emitted[i], exact[i]));
    raise(check.rotation_error, LargestRotationError(emitted, exact));
    const Fit fit = FitShift(emitted, exact[1]);
    raise(check.least_squares_error, fit.error);
    raise(check.least_squares_share, fit.error / fit.bound);
  }
  for (int64_t i = 0; width % 2 == 1 && i < steps; ++i) {
    raise(check.table_error, std::fabs(table(i, width - 1) - Angles(i, width / 2, width).sine));
  }
  return check;
}

RotationCheck CheckRotation(const PositionsOptions& options) {
  CheckPositionsOptions(options);
  const bool rotary = options.scheme == "rotary";
  if (!rotary && options.scheme != "sinusoidal") {
    throw InvalidArgument("scheme: a shift of positions is a rotation for sinusoidal and rotary alone; '" + options.scheme +
                          "' has nothing to check");
  }
  CheckShape(options.steps, options.width);
  const std::vector<float> table = rotary ? EmittedRotary(options) : EmittedSinusoidal(options);
  return CheckRotation(View<const float, 2>::Contiguous(table.data(), {options.steps, options.width}));
}

}  // namespace heed::lab
