#include "core/regions.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace heed::core {
namespace {

// The difference of two addresses, one of each array: an offset and, for every dimension of either, a step times an index.
class Differences {
 public:
  Differences(const Region& a, const Region& b) {
    for (std::size_t r = 0; r < 4; ++r) {
      Add(a.extent[r], a.step[r]);
      Add(b.extent[r], -b.step[r]);
    }
    std::sort(terms_.begin(), terms_.begin() + count_, [](const Term& x, const Term& y) { return x.step > y.step; });
    for (int t = count_ - 1; t >= 0; --t) {
      const Term& term = terms_[static_cast<std::size_t>(t)];
      const Rest& after = rests_[static_cast<std::size_t>(t) + 1];
      rests_[static_cast<std::size_t>(t)] = {after.low + term.step * term.low, after.high + term.step * term.high,
                                             std::gcd(after.divisor, term.step)};
    }
  }

  // Whether any difference lies in low .. high; true as well when that takes too long to find out.
  bool Meet(int64_t low, int64_t high) { return Meet(0, low, high); }

 private:
  struct Term {
    int64_t step = 0, low = 0, high = 0;  // step > 0, its index in low .. high
  };
  struct Rest {
    int64_t low = 0, high = 0, divisor = 0;  // of the terms from one on
  };

  void Add(int64_t extent, int64_t step) {
    if (extent <= 1 || step == 0) return;
    const int64_t size = std::abs(step), low = step < 0 ? 1 - extent : 0, high = step < 0 ? 0 : extent - 1;
    // Dimensions that both arrays walk alike are one.
    for (int t = 0; t < count_; ++t) {
      Term& term = terms_[static_cast<std::size_t>(t)];
      if (term.step != size) continue;
      term.low += low;
      term.high += high;
      return;
    }
    terms_[static_cast<std::size_t>(count_++)] = {size, low, high};
  }

  static int64_t FloorDivide(int64_t n, int64_t divisor) { return n / divisor - (n % divisor < 0 ? 1 : 0); }

  bool Meet(int t, int64_t low, int64_t high) {
    const Rest& rest = rests_[static_cast<std::size_t>(t)];
    if (rest.high < low || rest.low > high) return false;
    if (t == count_) return true;
    if (FloorDivide(high, rest.divisor) * rest.divisor < low) return false;
    if (--budget_ < 0) return true;
    const Term& term = terms_[static_cast<std::size_t>(t)];
    const Rest& after = rests_[static_cast<std::size_t>(t) + 1];
    const int64_t first = std::max(term.low, -FloorDivide(after.high - low, term.step));
    const int64_t last = std::min(term.high, FloorDivide(high - after.low, term.step));
    for (int64_t n = first; n <= last; ++n)
      if (Meet(t + 1, low - n * term.step, high - n * term.step)) return true;
    return false;
  }

  std::array<Term, 8> terms_{};
  std::array<Rest, 9> rests_{};
  int count_ = 0;
  int budget_ = 1 << 14;
};

}  // namespace

bool Share(const Region& a, const Region& b) {
  if (!a.data || !b.data || a.begin >= b.end || b.begin >= a.end) return false;
  // Elements at addresses x and y share a byte where x - y lies in 1 - bytes of a .. bytes of b - 1.
  const auto offset = static_cast<int64_t>(reinterpret_cast<intptr_t>(a.data) - reinterpret_cast<intptr_t>(b.data));
  return Differences(a, b).Meet(1 - a.element_bytes - offset, b.element_bytes - 1 - offset);
}

void Regions::CheckApart() const {
  for (std::size_t x = 0; x < count_; ++x)
    for (std::size_t y = 0; written_[x] && y < count_; ++y) {
      // Two outputs are compared once, the later with the earlier.
      if (x == y || (written_[y] && y > x) || !Share(regions_[x], regions_[y])) continue;
      Refuse(regions_[x].name, std::string("its memory overlaps ") + regions_[y].name);
    }
}

}  // namespace heed::core
