// Sinks: beside a key whose value is 0, alone among gradients, for any number of threads, in rows without keys, and what is
// refused. The table of cases compares them with the formula beside every option.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/error.h"
#include "problem.h"
#include "tests/error_text.h"

namespace heed {
namespace {

Attention WithSinks(const std::vector<float>& sinks) {
  Attention attention;
  attention.sinks = Sinks{View<const float, 3>::Contiguous(sinks.data(), {1, static_cast<int64_t>(sinks.size()), 1})};
  return attention;
}

std::vector<float> SinkGradients(Problem<float>& p, const Attention& attention, Executor& executor) {
  std::vector<float> d_sinks(2, std::numeric_limits<float>::quiet_NaN());
  BiasGradients<float> d_biases;
  d_biases.sinks = View<float, 3>::Contiguous(d_sinks.data(), {1, 2, 1});
  Backward<float>(attention, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), p.Outputs(p.out), p.Lse(), p.Outputs(p.d_out), {}, {},
                  {}, d_biases, p.workspace, executor);
  return d_sinks;
}

// One more key whose scores are the sinks, because a bias adds what its product lacks, and whose value is 0.
TEST(SinksTest, AreAKeyWithoutAValue) {
  const std::vector<float> sinks{0.5F, -1.0F};
  for (const Shape& shape : {Shape{2, 2, 2, 30, 70, 8, 8}, Shape{2, 2, 2, 2, 70, 8, 8}, Shape{1, 2, 1, 3, 5000, 8, 8}}) {
    Problem<float> own(shape);
    Shape longer = shape;
    ++longer.kv_len;
    Problem<float> with(longer);
    with.q = own.q;
    with.d_out = own.d_out;
    const auto copy = [&](const std::vector<float>& from, std::vector<float>& to, int64_t width) {
      const auto rows = static_cast<std::size_t>(shape.kv_len * width);
      for (std::size_t head = 0; head < static_cast<std::size_t>(shape.batch * shape.kv_heads); ++head) {
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(head * rows), rows,
                    to.begin() + static_cast<std::ptrdiff_t>(head * (rows + static_cast<std::size_t>(width))));
        std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(head * (rows + static_cast<std::size_t>(width)) + rows), width,
                    0.0F);
      }
    };
    copy(own.k, with.k, shape.head_dim);
    copy(own.v, with.v, shape.value_dim);
    std::vector<float> bias(static_cast<std::size_t>(2 * longer.kv_len));
    for (std::size_t h = 0; h < 2; ++h) bias[(h + 1) * static_cast<std::size_t>(longer.kv_len) - 1] = sinks[h];
    Attention key;
    key.bias = Bias{View<const float, 4>::Contiguous(bias.data(), {1, 2, 1, longer.kv_len})};
    ThreadPool pool(2);
    own.Run(WithSinks(sinks), pool);
    with.Run(key, pool);
    for (std::size_t x = 0; x < own.out.size(); ++x) ASSERT_NEAR(own.out[x], with.out[x], 2e-6) << "out " << x;
    for (std::size_t x = 0; x < own.lse.size(); ++x) ASSERT_NEAR(own.lse[x], with.lse[x], 4e-6) << "lse " << x;
    for (std::size_t x = 0; x < own.d_q.size(); ++x) ASSERT_NEAR(own.d_q[x], with.d_q[x], 1e-5) << "d_q " << x;
    // The bias has an entry for each pair of head and key: that of the added key is the sink's.
    for (std::size_t h = 0; h < 2; ++h)
      EXPECT_NEAR(own.d_bias[h], with.d_bias[(h + 1) * static_cast<std::size_t>(longer.kv_len) - 1], 1e-4) << "head " << h;
  }
}

// Then the gradient of lse is the sink's, however coarse floats of its size are.
TEST(SinksTest, TakeAllWeightWhereTheyAreLarge) {
  for (const float size : {1e3F, 1e4F, 1e5F, 1e30F, std::numeric_limits<float>::max()}) {
    const std::vector<float> sinks{size, size * 0.7F};
    Problem<float> p({2, 2, 2, 30, 70, 8, 8});
    ThreadPool pool(2);
    const Attention attention = WithSinks(sinks);
    p.Run(attention, pool);
    const std::vector<float> d_lse(p.lse.size(), 1.0F);
    std::vector<float> d_sinks(2);
    BiasGradients<float> d_biases;
    d_biases.sinks = View<float, 3>::Contiguous(d_sinks.data(), {1, 2, 1});
    Backward<float>(attention, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), p.Outputs(p.out), p.Lse(), p.Outputs(p.d_out), {},
                    {}, {}, d_biases, p.workspace, pool, View<const float, 3>::Contiguous(d_lse.data(), {2, 2, 30}));
    for (const float gradient : d_sinks) EXPECT_NEAR(gradient, 60, 60 * 1e-6F) << size;
  }
}

TEST(SinksTest, HaveTheSameGradientsAloneAndForAnyNumberOfThreads) {
  const std::vector<float> sinks{0.5F, -1.0F};
  Problem<float> p({2, 2, 1, 300, 1300, 16, 24});
  SerialExecutor serial;
  p.Run(WithSinks(sinks), serial);
  const std::vector<float> all = p.d_bias;
  ASSERT_EQ(all.size(), 2U);
  for (const int threads : {1, 2, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(SinkGradients(p, WithSinks(sinks), pool), all) << threads;
  }
}

// A row that looks at no key gives the sink nothing to take: it stays what it is without. A sink of -inf is none.
TEST(SinksTest, TakeNothingWhereThereIsNothing) {
  const std::vector<float> sinks{2.0F, -std::numeric_limits<float>::infinity()};
  Problem<float> p({1, 2, 2, 3, 4, 4, 4}), without({1, 2, 2, 3, 4, 4, 4});
  Attention attention = WithSinks(sinks), plain;
  attention.query_positions.offset = plain.query_positions.offset = -1;
  attention.causal = plain.causal = Causal::kBottomRight;
  SerialExecutor serial;
  p.Run(attention, serial);
  without.Run(plain, serial);
  EXPECT_EQ(p.lse[0], -std::numeric_limits<float>::infinity());
  for (std::size_t c = 0; c < 4; ++c) EXPECT_EQ(p.out[c], 0);
  for (std::size_t x = 0; x < 12; ++x) EXPECT_EQ(p.out[12 + x], without.out[12 + x]) << x;
  EXPECT_GT(p.lse[1], without.lse[1]);
  EXPECT_TRUE(std::isfinite(p.d_bias[0]));
  EXPECT_EQ(p.d_bias[1], 0);
}

// Nor where keys are there, and all of them are hidden one by one or by scores of -inf.
TEST(SinksTest, TakeNothingWhereAllKeysAreHidden) {
  const std::vector<float> sinks{2.0F, 8.0F};
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Shape& shape : {Shape{1, 2, 2, 3, 70, 4, 4}, Shape{1, 2, 2, 20, 70, 4, 4}}) {
    std::vector<float> bias(static_cast<std::size_t>(shape.q_len * shape.kv_len));
    std::fill_n(bias.begin() + shape.kv_len, shape.kv_len, -infinity);
    Attention attention = WithSinks(sinks);
    attention.bias = Bias{View<const float, 4>::Contiguous(bias.data(), {1, 1, shape.q_len, shape.kv_len})};
    Problem<float> p(shape);
    SerialExecutor serial;
    p.Run(attention, serial);
    for (std::size_t h = 0; h < 2; ++h) {
      const std::size_t row = h * static_cast<std::size_t>(shape.q_len) + 1;
      EXPECT_EQ(p.lse[row], -infinity);
      EXPECT_EQ(p.out[4 * row], 0);
      EXPECT_GT(p.lse[row - 1], sinks[h]);
    }
  }
}

TEST(SinksTest, AreRefusedByName) {
  Problem<float> p({2, 2, 2, 3, 4, 4, 4});
  SerialExecutor serial;
  const std::vector<float> three{1, 2, 3}, two{1, 2};
  EXPECT_EQ(WhatOf<InvalidArgument>([&] { p.Forward(WithSinks(three), serial); }),
            "sinks: expected [B or 1, Hq, Nq or 1] with [B, Hq, Nq] = [2, 2, 3], got [1, 3, 1]");
  Attention uniform = WithSinks(two);
  uniform.empty_row = EmptyRow::kUniform;
  EXPECT_EQ(WhatOf<InvalidArgument>([&] { p.Forward(uniform, serial); }),
            "sinks: expected empty_row zero beside it: the mean of all values leaves a sink no weight");
}

}  // namespace
}  // namespace heed
