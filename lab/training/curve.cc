#include "lab/training/curve.h"

#include <algorithm>
#include <cmath>

namespace heed::lab {
namespace {

// Points are rounded, so that half of an odd number of steps may have been rounded up.
std::span<const CurvePoint> UpTo(std::span<const CurvePoint> curve, double steps) {
  const auto beyond = [&](const CurvePoint& point) { return static_cast<double>(point.steps) > steps + 0.5; };
  return curve.first(static_cast<std::size_t>(std::ranges::find_if(curve, beyond) - curve.begin()));
}

}  // namespace

int64_t PointAfter(int64_t steps, int64_t whole) {
  constexpr double kPerDoubling = 2;
  const int64_t least = std::min(whole, std::max<int64_t>(8, whole / 64));
  const auto at = [&](double power) { return std::llround(static_cast<double>(whole) * std::exp2(power / kPerDoubling)); };
  const double share = static_cast<double>(std::max(steps, least)) / static_cast<double>(whole);
  double power = std::floor(kPerDoubling * std::log2(share)) - 1;
  while (at(power) <= steps || at(power) < least) ++power;
  return at(power);
}

std::optional<Foretold> Foretell(std::span<const CurvePoint> curve, int64_t steps) {
  const auto best = std::ranges::min_element(curve, {}, &CurvePoint::validation);
  if (best == curve.end()) return std::nullopt;
  if (best + 1 != curve.end()) return Foretold{best->validation, 0};
  const std::span<const CurvePoint> before = UpTo(curve, static_cast<double>(best->steps) / 2);
  if (before.empty() || !(before.back().validation > 0)) return std::nullopt;
  const double doublings = std::log2(static_cast<double>(steps) / static_cast<double>(best->steps));
  const double loss = best->validation * std::pow(std::min(1.0, best->validation / before.back().validation), doublings);
  return Foretold{loss, best->validation - loss};
}

std::span<const CurvePoint> FirstPart(std::span<const CurvePoint> curve, double times) {
  return curve.empty() ? curve : UpTo(curve, static_cast<double>(curve.back().steps) / times);
}

}  // namespace heed::lab
