// The state of a softmax by itself, on every target: keys taken tile by tile, or in two states that merge, leave the sums of
// the formula in double precision; lanes without a key leave nothing.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "softmax_state_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/softmax_state-inl.h"
#include "core/arena.h"
#include "heed/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

constexpr int64_t kWidth = 16, kRows = 3, kKeys = 40;
constexpr double kLowest = -std::numeric_limits<double>::infinity();

// Scores in powers of two [keys, lanes]: small ones first, later some far above them; lane 0 sees no key, lane 1 only the
// last, lane 2 only the first half. And values [keys, rows].
struct Numbers {
  std::vector<double> scores, values;

  Numbers() : scores(kKeys * kWidth), values(kKeys * kRows) {
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    for (int64_t j = 0; j < kKeys; ++j)
      for (int64_t w = 0; w < kWidth; ++w) {
        const bool hidden = w == 0 || (w == 1 && j + 1 < kKeys) || (w == 2 && j >= kKeys / 2);
        const double score = static_cast<double>(static_cast<float>(4 * normal(random) + (j % 13 == 12 ? 30 : 0)));
        scores[static_cast<std::size_t>(j * kWidth + w)] = hidden ? kLowest : score;
      }
    for (double& value : values) value = static_cast<double>(static_cast<float>(normal(random)));
  }
};

template <class T>
struct Arrays {
  Workspace workspace{static_cast<std::size_t>(((4 + kRows) * kWidth + kKeys * kWidth) * 8 + 1024)};
  core::Arena arena{workspace.data()};
  SoftmaxState<T> state{.minus_max = arena.Take<T>(kWidth),
                        .sum = arena.Take<T>(kWidth),
                        .output = arena.Take<T>(kRows, kWidth),
                        .width = kWidth,
                        .rows = kRows,
                        .largest = arena.Take<T>(kWidth),
                        .weighted = arena.Take<T>(kWidth)};
  T* tile = arena.Take<T>(kKeys, kWidth);

  // Takes keys begin .. end - 1, `step` at a time.
  void Take(const Numbers& numbers, int64_t begin, int64_t end, int64_t step) {
    const hn::ScalableTag<T> d;
    state.Reset();
    std::fill_n(state.output, kRows * kWidth, T{0});
    for (int64_t first = begin; first < end; first += step) {
      const int64_t count = std::min(step, end - first);
      for (int64_t x = 0; x < count * kWidth; ++x)
        tile[x] = static_cast<T>(numbers.scores[static_cast<std::size_t>(first * kWidth + x)]);
      state.Update(d, tile, count, 0, kWidth);
      for (int64_t j = 0; j < count; ++j)
        for (int64_t r = 0; r < kRows; ++r)
          for (int64_t w = 0; w < kWidth; ++w)
            state.output[r * kWidth + w] +=
                tile[j * kWidth + w] * static_cast<T>(numbers.values[static_cast<std::size_t>((first + j) * kRows + r)]);
    }
  }
};

// What a finished state says wrongly, or nothing.
template <class T>
std::string FaultOf(const Numbers& numbers, const SoftmaxState<T>& state) {
  const hn::ScalableTag<T> d;
  HWY_ALIGN T entropy[kWidth], max_weight[kWidth];
  state.Statistics(d, entropy, max_weight);
  state.Finish(d, T{1});
  state.Normalise(d);
  const double tolerance = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (int64_t w = 0; w < kWidth; ++w) {
    double largest = kLowest, sum = 0, bits = 0;
    const auto score = [&](int64_t j) { return numbers.scores[static_cast<std::size_t>(j * kWidth + w)]; };
    for (int64_t j = 0; j < kKeys; ++j) largest = std::max(largest, score(j));
    for (int64_t j = 0; j < kKeys && largest > kLowest; ++j) sum += std::exp2(score(j) - largest);
    const std::string lane = "lane " + std::to_string(w) + ": ";
    const auto differs = [&](T computed, double expected) {
      return !(std::abs(static_cast<double>(computed) - expected) <= tolerance * std::max(1.0, std::abs(expected)));
    };
    const double lse = (largest + std::log2(sum)) * std::numbers::ln2;
    if (sum == 0 ? static_cast<double>(state.minus_max[w]) != kLowest : differs(state.minus_max[w], lse)) return lane + "lse";
    for (int64_t r = 0; r < kRows; ++r) {
      double output = 0;
      for (int64_t j = 0; j < kKeys && sum > 0; ++j)
        output += std::exp2(score(j) - largest) / sum * numbers.values[static_cast<std::size_t>(j * kRows + r)];
      if (differs(state.output[r * kWidth + w], output)) return lane + "output";
    }
    for (int64_t j = 0; j < kKeys && sum > 0; ++j)
      if (const double p = std::exp2(score(j) - largest) / sum; p > 0) bits -= p * std::log2(p);
    if (differs(entropy[w], bits * std::numbers::ln2)) return lane + "entropy";
    if (differs(max_weight[w], sum > 0 ? 1 / sum : 0)) return lane + "largest weight";
  }
  return {};
}

template <class T>
std::string FirstFault() {
  const Numbers numbers;
  for (const int64_t step : {1, 3, 16, 40}) {
    Arrays<T> all;
    all.Take(numbers, 0, kKeys, step);
    if (const std::string fault = FaultOf(numbers, all.state); !fault.empty())
      return "tiles of " + std::to_string(step) + ", " + fault;
  }
  for (const int64_t split : {0, 1, 20, 39, 40}) {
    Arrays<T> first, second;
    first.Take(numbers, 0, split, 8);
    second.Take(numbers, split, kKeys, 8);
    first.state.Merge(hn::ScalableTag<T>(), second.state);
    if (const std::string fault = FaultOf(numbers, first.state); !fault.empty())
      return "split at " + std::to_string(split) + ", " + fault;
  }
  return {};
}

std::string FirstFaultInFloats() { return FirstFault<float>(); }
std::string FirstFaultInDoubles() { return FirstFault<double>(); }

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "targets.h"

namespace heed {
HWY_EXPORT(FirstFaultInFloats);
HWY_EXPORT(FirstFaultInDoubles);

namespace {

class SoftmaxStateOf : public OnTarget {};

TEST_P(SoftmaxStateOf, AnyCutOfTheKeysIsTheFormula) {
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(FirstFaultInFloats)(), "");
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(FirstFaultInDoubles)(), "");
}

HEED_ON_TARGETS(SoftmaxStateOf);

}  // namespace
}  // namespace heed
#endif
