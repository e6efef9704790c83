// Dropout of arrays: the decisions are those of the generator that attention uses, whatever the target, the threads and the
// cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "heed/attention.h"
#include "heed/dropout.h"
#include "heed/error.h"
#include "reference/reference.h"

namespace heed {
namespace {

constexpr Dropout kDropout{0.3, 77};

template <class T>
std::vector<T> Dropped(int64_t count, Executor& executor, const Dropout& dropout = kDropout) {
  std::vector<T> x(static_cast<std::size_t>(count), T{1}), y(x.size(), T{-1});
  DropElements(dropout, x.data(), y.data(), count, executor);
  return y;
}

// Element i stands in group i / 128, in row i % 128 / 16 and lane i % 16; the counter is that of query i / 128 * 16 + lane and
// key `row` of head 0.
template <class T>
T ByDefinition(int64_t i) {
  const auto threshold = static_cast<uint32_t>(std::lround(kDropout.probability * 65536));
  const auto element = static_cast<uint64_t>(i);
  const uint32_t bits = reference::DropoutBits(kDropout.seed, 0, 0, element / 128 * 16 + element % 16, element % 128 / 16);
  return bits < threshold ? T{0} : static_cast<T>(65536.0 / (65536 - threshold));
}

template <class T>
void ExpectDefinition(int64_t count, Executor& executor) {
  const std::vector<T> y = Dropped<T>(count, executor);
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(y[static_cast<std::size_t>(i)], ByDefinition<T>(i)) << i << " of " << count;
}

TEST(DropElementsTest, FollowsTheGeneratorOnEveryTarget) {
  SerialExecutor serial;
  for (const std::string& target : SupportedTargets()) {
    UseTarget(target);
    for (const int64_t count : {0, 1, 15, 127, 128, 129, 1000}) {
      ExpectDefinition<float>(count, serial);
      ExpectDefinition<double>(count, serial);
    }
  }
  UseTarget("");
}

TEST(DropElementsTest, APartIsDroppedAsWithinTheWhole) {
  constexpr int64_t kCount = 100'000;
  SerialExecutor serial;
  ThreadPool pool(3);
  const std::vector<double> whole = Dropped<double>(kCount, serial);
  for (const int64_t first : {0, 1, 127, 128, 200, 32767, 32768, 60'001}) {
    for (const int64_t count : {0, 1, 100, 300, 39'999}) {
      std::vector<double> x(static_cast<std::size_t>(count), 1.0);
      DropElements(kDropout, x.data(), x.data(), count, pool, first);
      EXPECT_TRUE(std::equal(x.begin(), x.end(), whole.begin() + first)) << first << " " << count;
    }
  }
}

TEST(DropElementsTest, ThreadsDoNotShow) {
  constexpr int64_t kCount = 200'003;  // several tasks and a rest
  SerialExecutor serial;
  ThreadPool pool(3);
  EXPECT_EQ(Dropped<float>(kCount, serial), Dropped<float>(kCount, pool));
}

TEST(DropElementsTest, DropsItsShareAndAnotherSeedDropsOthers) {
  constexpr int64_t kCount = 1 << 17;
  SerialExecutor serial;
  const std::vector<float> y = Dropped<float>(kCount, serial), z = Dropped<float>(kCount, serial, {0.3, 78});
  int64_t dropped = 0, both = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    dropped += y[i] == 0;
    both += y[i] == 0 && z[i] == 0;
  }
  const double n = static_cast<double>(kCount);
  EXPECT_NEAR(static_cast<double>(dropped) / n, 0.3, 4 * std::sqrt(0.3 * 0.7 / n));
  EXPECT_NEAR(static_cast<double>(both) / n, 0.09, 4 * std::sqrt(0.09 * 0.91 / n));
}

// 1/65536 is the finest step: what rounds to 0 keeps everything, and next to 1 one part in 65536 is kept, at its scale.
TEST(DropElementsTest, KeepsEverythingNearZeroAndSomethingNearOneOnEveryTarget) {
  constexpr int64_t kCount = 1 << 18;
  SerialExecutor serial;
  for (const std::string& target : SupportedTargets()) {
    UseTarget(target);
    for (const double probability : {0.0, 1e-9, 7.5e-6}) {
      EXPECT_EQ(Dropped<float>(1000, serial, {probability, 5}), std::vector<float>(1000, 1.0f)) << target << probability;
      EXPECT_EQ(Dropped<double>(1000, serial, {probability, 5}), std::vector<double>(1000, 1.0)) << target << probability;
    }
    const std::vector<float> few = Dropped<float>(kCount, serial, {65535.0 / 65536, 5});
    int64_t kept = 0;
    for (const float y : few) {
      EXPECT_TRUE(y == 0 || y == 65536.0f) << target << y;
      kept += y != 0;
    }
    EXPECT_NEAR(static_cast<double>(kept), 4, 8) << target;
    EXPECT_GT(kept, 0) << target;
  }
  UseTarget("");
}

TEST(DropElementsTest, WorksInPlaceAndADroppedNaNIsGone) {
  SerialExecutor serial;
  const std::vector<float> expected = Dropped<float>(300, serial);
  std::vector<float> x(300, 1.0f);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (expected[i] == 0) x[i] = std::numeric_limits<float>::quiet_NaN();
  DropElements(kDropout, x.data(), x.data(), 300, serial);
  EXPECT_EQ(x, expected);
}

TEST(DropElementsTest, RefusesWhatIsNoProbability) {
  SerialExecutor serial;
  float x = 1;
  EXPECT_THROW(DropElements({1.0, 1}, &x, &x, 1, serial), InvalidArgument);
  EXPECT_THROW(DropElements({std::nan(""), 1}, &x, &x, 1, serial), InvalidArgument);
  EXPECT_THROW(DropElements(kDropout, &x, &x, -1, serial), InvalidArgument);
  EXPECT_THROW(DropElements(kDropout, &x, &x, 1, serial, -1), InvalidArgument);
  EXPECT_THROW(DropElements(kDropout, &x, &x, 1, serial, std::numeric_limits<int64_t>::max()), InvalidArgument);
  EXPECT_EQ(x, 1.0f);
}

}  // namespace
}  // namespace heed
