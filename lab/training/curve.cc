#include "lab/training/curve.h"

#include <algorithm>
#include <cmath>

namespace heed::lab {

int64_t PointAfter(int64_t steps, int64_t whole) {
  constexpr double kPerDoubling = 2;
  const int64_t least = std::min(whole, std::max<int64_t>(8, whole / 64));
  const auto at = [&](double power) { return std::llround(static_cast<double>(whole) * std::exp2(power / kPerDoubling)); };
  const double share = static_cast<double>(std::max(steps, least)) / static_cast<double>(whole);
  double power = std::floor(kPerDoubling * std::log2(share)) - 1;
  while (at(power) <= steps || at(power) < least) ++power;
  return at(power);
}

}  // namespace heed::lab
