// Products with a packed matrix: the numbers of the formula on every target, the same bits however the work is cut.
#include "heed/packed_matrix.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/attention.h"
#include "heed/error.h"
#include "tests/error_text.h"

namespace heed {
namespace {

std::vector<float> Random(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = static_cast<float>(generator() % 2001) / 1000.0f - 1.0f;
  return numbers;
}

View<const float, 2> Rows(const std::vector<float>& numbers, int64_t rows, int64_t columns) {
  return View<const float, 2>::Contiguous(numbers.data(), {rows, columns});
}

struct Sizes {
  int64_t rows, in, out;
};

std::vector<float> Multiplied(const Sizes& s, const std::vector<float>& x, const std::vector<float>& w,
                              const std::vector<float>& bias, Executor& executor) {
  std::vector<float> y(static_cast<std::size_t>(s.rows * s.out), std::nanf(""));
  const View<const float, 1> b = bias.empty() ? View<const float, 1>() : View<const float, 1>::Contiguous(bias.data(), {s.out});
  PackedMatrix(Rows(w, s.out, s.in))
      .Multiply(Rows(x, s.rows, s.in), b, View<float, 2>::Contiguous(y.data(), {s.rows, s.out}), executor);
  return y;
}

TEST(PackedMatrixTest, IsTheFormulaOnEachTarget) {
  SerialExecutor serial;
  for (const std::string& target : SupportedTargets()) {
    UseTarget(target);
    for (const Sizes& s :
         {Sizes{1, 1, 1}, {1, 7, 65}, {5, 33, 64}, {49, 16, 130}, {97, 70, 63}, {3, 0, 5}, {0, 4, 5}, {4, 3, 0}}) {
      const std::vector<float> x = Random(s.rows * s.in, 1), w = Random(s.out * s.in, 2), bias = Random(s.out, 3);
      for (const std::vector<float>& b : {bias, std::vector<float>()}) {
        const std::vector<float> y = Multiplied(s, x, w, b, serial);
        for (int64_t r = 0; r < s.rows; ++r) {
          for (int64_t o = 0; o < s.out; ++o) {
            double sum = b.empty() ? 0.0 : b[o];
            for (int64_t i = 0; i < s.in; ++i) sum += double{w[o * s.in + i]} * double{x[r * s.in + i]};
            ASSERT_NEAR(y[r * s.out + o], sum, 1e-6 * static_cast<double>(s.in + 1))
                << target << ' ' << s.rows << ' ' << s.in << ' ' << s.out;
          }
        }
      }
    }
  }
  UseTarget("");
}

TEST(PackedMatrixTest, ARowsBitsAreItsOwn) {
  const Sizes s{113, 80, 300};
  const std::vector<float> x = Random(s.rows * s.in, 4), w = Random(s.out * s.in, 5);
  SerialExecutor serial;
  const std::vector<float> y = Multiplied(s, x, w, {}, serial);
  for (const int threads : {2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(Multiplied(s, x, w, {}, pool), y) << threads;
  }
  for (const int64_t row : {int64_t{0}, int64_t{50}, s.rows - 1}) {
    const std::vector<float> alone(x.begin() + row * s.in, x.begin() + (row + 1) * s.in);
    const std::vector<float> expected(y.begin() + row * s.out, y.begin() + (row + 1) * s.out);
    EXPECT_EQ(Multiplied({1, s.in, s.out}, alone, w, {}, serial), expected) << row;
  }
}

TEST(PackedMatrixTest, AnyStrides) {
  SerialExecutor serial;
  const Sizes s{6, 5, 70};
  const std::vector<float> x = Random(s.rows * s.in, 6), w = Random(s.out * s.in, 7);
  std::vector<float> x_turned(x.size()), w_turned(w.size()), y_turned(static_cast<std::size_t>(s.rows * s.out));
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t i = 0; i < s.in; ++i) x_turned[i * s.rows + r] = x[r * s.in + i];
  for (int64_t o = 0; o < s.out; ++o)
    for (int64_t i = 0; i < s.in; ++i) w_turned[i * s.out + o] = w[o * s.in + i];
  const PackedMatrix matrix(View<const float, 2>{w_turned.data(), {s.out, s.in}, {1, s.out}});
  matrix.Multiply({x_turned.data(), {s.rows, s.in}, {1, s.rows}}, {}, {y_turned.data(), {s.rows, s.out}, {1, s.rows}}, serial);
  const std::vector<float> y = Multiplied(s, x, w, {}, serial);
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t o = 0; o < s.out; ++o) EXPECT_EQ(y_turned[o * s.rows + r], y[r * s.out + o]);
}

TEST(PackedMatrixTest, WhatDoesNotFitIsRefused) {
  SerialExecutor serial;
  std::vector<float> numbers(64, 1.0f);
  const PackedMatrix matrix(Rows(numbers, 3, 4));
  const auto y = View<float, 2>::Contiguous(numbers.data() + 32, {2, 3});
  const auto multiply = [&](View<const float, 2> x, View<const float, 1> bias, View<float, 2> out) {
    return WhatOf<InvalidArgument>([&] { matrix.Multiply(x, bias, out, serial); });
  };
  EXPECT_EQ(multiply(Rows(numbers, 2, 5), {}, y), "x: expected [rows, in] = [2, 4], got [2, 5]");
  EXPECT_EQ(multiply(Rows(numbers, 3, 4), {}, y), "y: expected [rows, out] = [3, 3], got [2, 3]");
  EXPECT_EQ(multiply(Rows(numbers, 2, 4), View<const float, 1>::Contiguous(numbers.data(), {2}), y),
            "bias: expected [out] = [3], got [2]");
  EXPECT_NE(
      multiply(Rows(numbers, 2, 4), {}, View<float, 2>::Contiguous(numbers.data() + 7, {2, 3})).find("its memory overlaps"),
      std::string::npos);
  EXPECT_NE(multiply(Rows(numbers, 2, 4), {}, {numbers.data() + 32, {2, 3}, {0, 1}}).find("overlap"), std::string::npos);
  EXPECT_NE(WhatOf<InvalidArgument>([&] {
              PackedMatrix(View<const float, 2>{nullptr, {3, 4}, {4, 1}});
            }).find("w: no memory"),
            std::string::npos);
  EXPECT_NE(WhatOf<InvalidArgument>([&] {
              PackedMatrix(View<const float, 2>{numbers.data(), {int64_t{1} << 40, 1 << 20}, {0, 0}});
            }).find("w:"),
            std::string::npos);
  EXPECT_EQ(numbers, std::vector<float>(64, 1.0f));
}

}  // namespace
}  // namespace heed
