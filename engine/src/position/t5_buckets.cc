#include <algorithm>
#include <cmath>
#include <string>

#include "core/arrays.h"
#include "heed/error.h"
#include "heed/portable_math.h"
#include "heed/positions.h"

namespace heed {
namespace {

// A whole number of any size, lowest digits first.
class Natural {
 public:
  // factor < 2^32
  void Multiply(int64_t factor) {
    uint64_t carry = 0;
    for (uint32_t& digit : digits_) {
      carry += uint64_t{digit} * static_cast<uint64_t>(factor);
      digit = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry > 0) digits_.push_back(static_cast<uint32_t>(carry));
  }

  bool operator<(const Natural& other) const {
    if (digits_.size() != other.digits_.size()) return digits_.size() < other.digits_.size();
    return std::lexicographical_compare(digits_.rbegin(), digits_.rend(), other.digits_.rbegin(), other.digits_.rend());
  }

 private:
  std::vector<uint32_t> digits_{1};
};

// The distances of one side: `exact` buckets of one distance each, then `wide` buckets that grow geometrically.
struct Side {
  int64_t exact, wide, max_distance;

  // Whether a distance x >= E lies in wide bucket k or a later one: ln(x/E) / ln(M/E) * W >= k, that is x^W >= M^k E^(W-k),
  // for E = exact, W = wide, M = max_distance. Rounded logarithms alone put some exact powers into the bucket below, so they
  // decide only where their error, a few W * 1e-15, is far below the difference; elsewhere the powers do.
  bool Reaches(int64_t x, int64_t k) const {
    const auto e = static_cast<double>(exact), count = static_cast<double>(wide);
    const double margin = count * portable::Log(static_cast<double>(x) / e) -
                          static_cast<double>(k) * portable::Log(static_cast<double>(max_distance) / e);
    if (std::abs(margin) > 1e-9 * count) return margin > 0;
    Natural left, right;
    for (int64_t n = 0; n < wide; ++n) {
      left.Multiply(x);
      right.Multiply(n < k ? max_distance : exact);
    }
    return !(left < right);
  }

  std::vector<int64_t> Thresholds() const {
    std::vector<int64_t> thresholds;
    for (int64_t x = 0; x <= exact; ++x) thresholds.push_back(x);
    for (int64_t k = 1; k < wide; ++k) {
      const double e = static_cast<double>(exact);
      auto x = std::llround(
          e * portable::Pow(static_cast<double>(max_distance) / e, static_cast<double>(k) / static_cast<double>(wide)));
      while (x > exact && Reaches(x - 1, k)) --x;
      while (!Reaches(x, k)) ++x;
      thresholds.push_back(x);
    }
    return thresholds;
  }
};

Side SideOf(const T5Options& options) {
  // Exact powers of more buckets take seconds; nobody uses more than 128.
  constexpr int64_t kMostBuckets = 4096, kMostDistance = (int64_t{1} << 31) - 1;
  const int64_t least = options.bidirectional ? 4 : 2;
  if (options.buckets < least || options.buckets > kMostBuckets || (options.bidirectional && options.buckets % 2 != 0))
    throw InvalidArgument(std::string("buckets: expected ") + (options.bidirectional ? "an even number" : "a number") + " in " +
                          std::to_string(least) + ".." + std::to_string(kMostBuckets) + ", got " +
                          std::to_string(options.buckets));
  const int64_t count = options.bidirectional ? options.buckets / 2 : options.buckets, exact = count / 2;
  if (options.max_distance <= exact || options.max_distance > kMostDistance)
    throw InvalidArgument("max_distance: expected a number in " + std::to_string(exact + 1) + ".." +
                          std::to_string(kMostDistance) + " for " + std::to_string(options.buckets) + " buckets, got " +
                          std::to_string(options.max_distance));
  return {exact, count - exact, options.max_distance};
}

}  // namespace

std::vector<int64_t> T5Thresholds(const T5Options& options) { return SideOf(options).Thresholds(); }

void T5Buckets(const T5Options& options, int64_t reach, View<int64_t, 1> buckets) {
  const std::vector<int64_t> thresholds = T5Thresholds(options);
  if (reach < 0 || reach > core::kMostElements || buckets.extent[0] != 2 * reach + 1)
    throw InvalidArgument("buckets: expected [2 * reach + 1] numbers for a reach of " + std::to_string(reach) + ", got " +
                          std::to_string(buckets.extent[0]));
  core::CheckPresent("buckets", buckets);
  core::CheckDistinct("buckets", buckets);
  const auto count = static_cast<int64_t>(thresholds.size());
  int64_t bucket = 0;
  for (int64_t distance = 0; distance <= reach; ++distance) {
    while (bucket + 1 < count && thresholds[static_cast<size_t>(bucket + 1)] <= distance) ++bucket;
    buckets(reach - distance) = bucket;
    if (distance > 0) buckets(reach + distance) = options.bidirectional ? count + bucket : 0;
  }
}

}  // namespace heed
