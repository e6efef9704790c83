#include "lab/runs/feed_forward.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace heed::lab {
namespace {

SizedContender Sized(Contender contender, int64_t unit, int64_t target, const CountParameters& count) {
  const int64_t least = count(contender, unit);
  const int64_t slope = count(contender, 2 * unit) - least;
  const int64_t more = std::llround(static_cast<double>(target - least) / static_cast<double>(slope));
  const int64_t ffn_width = unit * std::max<int64_t>(1, 1 + more);
  const int64_t parameters = count(contender, ffn_width);
  return {std::move(contender), ffn_width, parameters};
}

}  // namespace

std::vector<SizedContender> EqualContenders(const std::vector<std::string>& encoders, const std::vector<std::string>& positions,
                                            int64_t width, int64_t reference, const CountParameters& count) {
  const int64_t target = count({"attention", "none"}, reference);
  const int64_t unit = std::max<int64_t>(1, width / 8);  // whole SIMD vectors at usual widths
  std::vector<SizedContender> sized;
  for (Contender& contender : Contenders(encoders, positions)) {
    sized.push_back(Sized(std::move(contender), unit, target, count));
  }
  return sized;
}

}  // namespace heed::lab
