// 16-bit outputs are those of a float call, rounded once to nearest, ties to even: on every target, for rows of any width, with
// and without gaps, and for numbers at the edges of the type.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "targets.h"

namespace heed {
namespace {

template <class T>
uint16_t Narrowed(float value) {
  if constexpr (std::is_same_v<T, BFloat16>) return ToBFloat16(value).bits;
  if constexpr (std::is_same_v<T, Float16>) return ToFloat16(value).bits;
}

// One query that looks at two keys alike: the output is the mean of the two values, in float.
template <class T>
void ExpectMeansRoundedOnce(int64_t width, int64_t gap, const std::string& what) {
  std::mt19937_64 random(static_cast<uint64_t>(width));
  std::vector<T> q(1), k(2), v(static_cast<std::size_t>(2 * width)), out(static_cast<std::size_t>(width * gap));
  std::vector<float> first, second;
  for (int64_t c = 0; c < width; ++c) {
    // Neighbours: their mean lies half-way, so that ties decide.
    const auto bits = static_cast<uint16_t>(random() % 0x7A00 | (random() % 2) << 15);
    v[static_cast<std::size_t>(c)].bits = bits;
    v[static_cast<std::size_t>(width + c)].bits = static_cast<uint16_t>(bits + 1 + random() % 3);
    first.push_back(ToFloat(v[static_cast<std::size_t>(c)]));
    second.push_back(ToFloat(v[static_cast<std::size_t>(width + c)]));
  }
  Attention attention;
  const View<T, 4> to{out.data(), {1, 1, 1, width}, {width * gap, width * gap, width * gap, gap}};
  Forward<T>(attention, View<const T, 4>::Contiguous(q.data(), {1, 1, 1, 1}),
             View<const T, 4>::Contiguous(k.data(), {1, 1, 2, 1}), View<const T, 4>::Contiguous(v.data(), {1, 1, 2, width}),
             to);
  for (int64_t c = 0; c < width; ++c) {
    const auto x = static_cast<std::size_t>(c);
    EXPECT_EQ(to(0, 0, 0, c).bits, Narrowed<T>((first[x] + second[x]) * 0.5F)) << what << ", element " << c;
  }
}

class NarrowRows : public OnTarget {};

TEST_P(NarrowRows, AreRoundedOnceToNearest) {
  for (int64_t width : {1, 4, 7, 8, 12, 15, 16, 17, 28, 31, 33, 64, 200})
    for (int64_t gap : {1, 2}) {
      const std::string what = GetParam() + ", width " + std::to_string(width) + ", every " + std::to_string(gap);
      ExpectMeansRoundedOnce<BFloat16>(width, gap, what + ", bfloat16");
      ExpectMeansRoundedOnce<Float16>(width, gap, what + ", float16");
    }
}

// Infinity, NaN, the largest number and what lies beyond it stand in one vector with ordinary numbers.
TEST_P(NarrowRows, KeepWhatIsNotFinite) {
  constexpr int64_t kWidth = 40;
  std::vector<BFloat16> q(1), k(1), v(kWidth, ToBFloat16(1.5F)), out(kWidth);
  v[3] = ToBFloat16(std::numeric_limits<float>::infinity());
  v[20] = ToBFloat16(std::numeric_limits<float>::quiet_NaN());
  v[37].bits = 0x7F7F;
  const auto row = [](std::vector<BFloat16>& a, int64_t width) {
    return View<BFloat16, 4>::Contiguous(a.data(), {1, 1, 1, width});
  };
  Forward<BFloat16>({}, row(q, 1), row(k, 1), row(v, kWidth), row(out, kWidth));
  for (std::size_t c = 0; c < out.size(); ++c) {
    if (c == 20) {
      EXPECT_TRUE(std::isnan(ToFloat(out[c])));
    } else {
      EXPECT_EQ(out[c].bits, v[c].bits) << c;
    }
  }
}

HEED_ON_TARGETS(NarrowRows);

}  // namespace
}  // namespace heed
