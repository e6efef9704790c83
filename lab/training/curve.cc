#include "lab/training/curve.h"

#include <algorithm>
#include <cmath>

namespace heed::lab {
namespace {

// Of the falls of two doublings: a single curve is too noisy to tell of less. Of 0.3, 0.5 and 0.7 the last erred least where
// four curves of each of two texts foretold two, four and eight times their steps.
constexpr double kLeastRatio = 0.7;

// Points are rounded, so that half of an odd number of steps may have been rounded up.
std::span<const CurvePoint> UpTo(std::span<const CurvePoint> curve, double steps) {
  const auto beyond = [&](const CurvePoint& point) { return static_cast<double>(point.steps) > steps + 0.5; };
  return curve.first(static_cast<std::size_t>(std::ranges::find_if(curve, beyond) - curve.begin()));
}

// By the power law of Foretell, without the error.
std::optional<Foretold> LawOf(std::span<const CurvePoint> curve, int64_t steps) {
  const auto best = std::ranges::min_element(curve, {}, &CurvePoint::validation);
  if (best == curve.end()) return std::nullopt;
  if (curve.end() - best > 2) return Foretold{best->validation, 0, 0};
  // The points half and a quarter as far.
  const std::span<const CurvePoint> half = UpTo(curve, static_cast<double>(best->steps) / 2);
  if (half.empty() || !(half.back().validation > 0)) return std::nullopt;
  const std::span<const CurvePoint> quarter = UpTo(half, static_cast<double>(half.back().steps) / 2);
  const double fell = half.back().validation - best->validation;
  if (fell <= 0) return Foretold{best->validation, 0, 0};
  double ratio = best->validation / half.back().validation;
  if (!quarter.empty() && quarter.back().validation > half.back().validation)
    ratio = std::min(ratio, std::max(kLeastRatio, fell / (quarter.back().validation - half.back().validation)));
  const double doublings = std::log2(static_cast<double>(steps) / static_cast<double>(best->steps));
  const double gain = fell * ratio * (1 - std::pow(ratio, doublings)) / (1 - ratio);
  return Foretold{best->validation - gain, gain, 0};
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

bool PastItsBest(std::span<const CurvePoint> curve, std::size_t best, int64_t whole) {
  constexpr std::size_t kPatience = 4;
  return curve.size() - 1 - best >= kPatience && 8 * curve.back().steps >= whole;
}

std::optional<Foretold> Foretell(std::span<const CurvePoint> curve, int64_t steps) {
  std::optional<Foretold> law = LawOf(curve, steps);
  if (!law) return std::nullopt;
  const CurvePoint& last = curve.back();
  const std::optional<Foretold> earlier = LawOf(FirstPart(curve, 2), last.steps);
  const double missed = earlier ? std::abs(earlier->loss - last.validation) : 0;
  const double further = std::clamp(std::log2(static_cast<double>(steps) / static_cast<double>(last.steps)), 0.0, 1.0);
  law->error = std::hypot(kLawErrs * law->gain, further * missed);
  return law;
}

std::span<const CurvePoint> FirstPart(std::span<const CurvePoint> curve, double times) {
  return curve.empty() ? curve : UpTo(curve, static_cast<double>(curve.back().steps) / times);
}

}  // namespace heed::lab
