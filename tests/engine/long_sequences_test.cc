// Sequences whose arrays are measured in gigabytes: memory, and rows here and there against the double-precision reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "reference/reference.h"

namespace heed {
namespace {

constexpr double kGib = 1 << 30;

// A line of a file of /proc in GiB; negative where there is none.
double Told(const char* file, const std::string& field) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) * 1024 / kGib;
  return -1;
}

// A fixed sequence of numbers in -1 .. 1.
class NumberSequence {
 public:
  explicit NumberSequence(uint64_t seed) : state_(seed) {}
  float operator()() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<float>(static_cast<int64_t>(state_) >> 40) * 0x1p-23F;
  }

 private:
  uint64_t state_;
};

std::vector<float> Filled(int64_t count, uint64_t seed) {
  NumberSequence numbers(seed);
  std::vector<float> array(static_cast<std::size_t>(count));
  for (float& x : array) x = numbers();
  return array;
}

// Rows of an array in double.
std::vector<double> Wide(const std::vector<float>& array, int64_t first, int64_t rows, int64_t width) {
  const auto begin = array.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(rows * width)};
}

View<const double, 4> ViewOf(const std::vector<double>& array, int64_t rows, int64_t width) {
  return View<const double, 4>::Contiguous(array.data(), {1, 1, rows, width});
}

TEST(LongSequences, AMillionTokensInAWindowTakeLessThanFourGibForwardAndBackward) {
  constexpr int64_t n = 1 << 20, d = 64, window = 1024;
  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;
  const std::vector<float> q = Filled(n * d, 1), k = Filled(n * d, 2), v = Filled(n * d, 3), d_out = Filled(n * d, 4);
  std::vector<float> out(n * d), lse(n), d_q(n * d), d_k(n * d), d_v(n * d);
  const auto rows = [](const std::vector<float>& array) {
    return View<const float, 4>::Contiguous(array.data(), {1, 1, n, d});
  };
  const auto own = [](std::vector<float>& array) { return View<float, 4>::Contiguous(array.data(), {1, 1, n, d}); };
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.window.left = window - 1;
  ThreadPool pool(2);
  Workspace workspace;
  const auto sums = View<float, 3>::Contiguous(lse.data(), {1, 1, n});
  Forward<float>(attention, rows(q), rows(k), rows(v), own(out), sums, workspace, pool);
  Backward<float>(attention, rows(q), rows(k), rows(v), rows(out), View<const float, 3>(sums), rows(d_out), own(d_q), own(d_k),
                  own(d_v), {}, workspace, pool);
  const double resident = Told("/proc/self/status", "VmHWM");
  RecordProperty("resident_gib", std::to_string(resident));
  EXPECT_LT(resident, 4.0);

  // What stands in the middle of a stretch of tokens depends on no others.
  constexpr int64_t kStretch = 2 * window + 64;
  for (const int64_t first : {int64_t{0}, int64_t{65536 - 1100}, n / 2 + 12345, n - kStretch}) {
    SCOPED_TRACE("from token " + std::to_string(first));
    const std::vector<double> near_q = Wide(q, first, kStretch, d), near_k = Wide(k, first, kStretch, d),
                              near_v = Wide(v, first, kStretch, d), near_d_out = Wide(d_out, first, kStretch, d);
    const auto view = [](const std::vector<double>& array) { return ViewOf(array, kStretch, d); };
    const reference::Result exact = reference::Compute(attention, view(near_q), view(near_k), view(near_v), view(near_d_out));
    const int64_t begin = first == 0 ? 0 : window, end = first + kStretch == n ? kStretch : kStretch - window;
    double worst = 0;
    const auto compare = [&](const std::vector<float>& computed, const std::vector<double>& right, int64_t i) {
      for (int64_t c = 0; c < d; ++c)
        worst = std::max(worst, std::abs(computed[static_cast<std::size_t>((first + i) * d + c)] -
                                         right[static_cast<std::size_t>(i * d + c)]));
    };
    for (int64_t i = begin; i < end; i += 7) {
      // Queries see keys before them, keys are seen by queries after them.
      compare(out, exact.out, i);
      compare(d_q, exact.d.q, i);
      compare(d_k, exact.d.k, i);
      compare(d_v, exact.d.v, i);
    }
    // Gradients of the first keys are sums of up to 8: some ten roundings at that size.
    EXPECT_LT(worst, 1e-5);
    EXPECT_GT(worst, 0);
  }
}

// Arrays of more than 2^31 elements, whose last rows lie more than 4 GiB behind the first.
TEST(LongSequences, RowsBeyondTwoToThe31ElementsAreFound) {
  constexpr int64_t d = 64, n = (int64_t{1} << 31) / d + 5000, window = 64, kStretch = 300;
  if (Told("/proc/meminfo", "MemAvailable") < 10) GTEST_SKIP() << "needs 10 GiB";
  static_assert(n * d > int64_t{1} << 31);
  NumberSequence numbers(1);
  std::vector<BFloat16> keys(static_cast<std::size_t>(n * d)), out(keys.size());
  std::vector<float> query(d);
  for (float& x : query) x = ToFloat(ToBFloat16(numbers()));
  for (BFloat16& x : keys) x = ToBFloat16(numbers());
  std::vector<BFloat16> narrow_query;
  narrow_query.reserve(query.size());
  for (const float x : query) narrow_query.push_back(ToBFloat16(x));
  // Every query is the same row; keys and values are the same array.
  const View<const BFloat16, 4> queries{narrow_query.data(), {1, 1, n, d}, {0, 0, 0, 1}};
  const auto rows = View<const BFloat16, 4>::Contiguous(keys.data(), {1, 1, n, d});
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.window.left = window - 1;
  ThreadPool pool(2);
  Workspace workspace;
  Forward<BFloat16>(attention, queries, rows, rows, View<BFloat16, 4>::Contiguous(out.data(), {1, 1, n, d}), {}, workspace,
                    pool);

  for (const int64_t first : {(int64_t{1} << 30) / d - 150, (int64_t{1} << 31) / d - 150, n - kStretch}) {
    SCOPED_TRACE("from token " + std::to_string(first));
    std::vector<double> near_k, near_q;
    for (int64_t x = 0; x < kStretch * d; ++x) {
      near_k.push_back(ToFloat(keys[static_cast<std::size_t>(first * d + x)]));
      near_q.push_back(query[static_cast<std::size_t>(x % d)]);
    }
    const reference::Result exact =
        reference::Compute(attention, ViewOf(near_q, kStretch, d), ViewOf(near_k, kStretch, d), ViewOf(near_k, kStretch, d));
    for (int64_t x = window * d; x < kStretch * d; ++x)
      ASSERT_NEAR(ToFloat(out[static_cast<std::size_t>(first * d + x)]), exact.out[static_cast<std::size_t>(x)], 0x1p-9) << x;
  }
}

}  // namespace
}  // namespace heed
