#include "lab/report/label_places.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace heed::lab {
namespace {

// Neighbours that stand together.
struct Group {
  double sum = 0;  // of the places wanted, each less the gaps before it
  int count = 0;
  double Mean() const { return sum / count; }
};

}  // namespace

// Without the gaps before it each place must not be below the one before: an isotonic regression, by pooling what violates it.
std::vector<double> SpreadApart(const std::vector<double>& wanted, double gap, double low, double high) {
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
  std::vector<Group> groups;
  for (std::size_t i = 0; i < order.size(); ++i) {
    groups.push_back({wanted[order[i]] - gap * static_cast<double>(i), 1});
    while (groups.size() > 1 && groups[groups.size() - 2].Mean() >= groups.back().Mean()) {
      const Group last = groups.back();
      groups.pop_back();
      groups.back().sum += last.sum;
      groups.back().count += last.count;
    }
  }
  std::vector<double> places(wanted.size());
  const double most = high - gap * static_cast<double>(std::max<std::size_t>(wanted.size(), 1) - 1);
  std::size_t i = 0;
  for (const Group& group : groups) {
    for (int k = 0; k < group.count; ++k, ++i) {
      places[order[i]] = std::clamp(group.Mean(), low, most) + gap * static_cast<double>(i);
    }
  }
  return places;
}

}  // namespace heed::lab
