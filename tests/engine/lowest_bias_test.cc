// Biases as low as numbers go, which frameworks make masks of: they are finite, so a row that holds nothing else takes the mean
// of its values; beside any other bias they count for nothing. Forward and backward against the double reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "problem.h"
#include "reference/reference.h"
#include "targets.h"

namespace heed {
namespace {

std::vector<double> Doubles(const auto& array) { return {array.begin(), array.end()}; }

// T: the type of the call; computed from the same numbers in double.
template <class T>
class LowestBias {
 public:
  // number(i, j): the bias of query i and key j.
  template <class Number>
  LowestBias(const Shape& shape, const Number& number) : problem_(shape, 7) {
    for (int64_t i = 0; i < shape.q_len; ++i)
      for (int64_t j = 0; j < shape.kv_len; ++j) bias_.push_back(static_cast<T>(number(i, j)));
    attention_.bias = Bias{View<const T, 4>::Contiguous(bias_.data(), {1, 1, shape.q_len, shape.kv_len})};
  }

  void ExpectRight(const std::string& what) {
    SerialExecutor serial;
    const std::vector<T> weights = RunWithWeights(serial);
    const Shape& s = problem_.shape;
    const std::vector<double> q = Doubles(problem_.q), k = Doubles(problem_.k), v = Doubles(problem_.v);
    const std::vector<double> d_out = Doubles(problem_.d_out);
    const auto view = [&](const std::vector<double>& of, int64_t heads, int64_t length, int64_t width) {
      return View<const double, 4>::Contiguous(of.data(), {s.batch, heads, length, width});
    };
    const reference::Result expected =
        reference::Compute(attention_, view(q, s.q_heads, s.q_len, s.head_dim), view(k, s.kv_heads, s.kv_len, s.head_dim),
                           view(v, s.kv_heads, s.kv_len, s.value_dim), view(d_out, s.q_heads, s.q_len, s.value_dim));
    // Sums of up to 5000 numbers of N(0, 1): a few hundred roundings at most.
    const double tolerance = 1024 * std::numeric_limits<T>::epsilon();
    const auto expect_near = [&](const std::vector<T>& a, const std::vector<double>& b, const char* name) {
      double worst = 0;
      for (size_t x = 0; x < b.size(); ++x) {
        const double difference = std::abs(static_cast<double>(a[x]) - b[x]);
        worst = std::isnan(difference) ? NAN : std::max(worst, difference);
      }
      EXPECT_LT(worst, tolerance) << what << ": " << name;
    };
    expect_near(problem_.out, expected.out, "out");
    expect_near(weights, expected.weights, "weights");
    expect_near(problem_.d_q, expected.d.q, "d_q");
    expect_near(problem_.d_k, expected.d.k, "d_k");
    expect_near(problem_.d_v, expected.d.v, "d_v");
    expect_near(problem_.d_bias, expected.d.Of("dBias"), "d_bias");
    for (const T lse : problem_.lse) EXPECT_TRUE(std::isfinite(lse)) << what;
  }

 private:
  std::vector<T> RunWithWeights(Executor& executor) {
    problem_.Run(attention_, executor);
    const Shape& s = problem_.shape;
    std::vector<int64_t> heads, rows;
    for (int64_t h = 0; h < s.q_heads; ++h) heads.push_back(h);
    for (int64_t i = 0; i < s.q_len; ++i) rows.push_back(i);
    std::vector<T> weights(static_cast<size_t>(s.batch * s.q_heads * s.q_len * s.kv_len));
    Weights<T>(attention_, problem_.Queries(problem_.q), problem_.Keys(problem_.k), problem_.Lse(),
               View<const int64_t, 1>::Contiguous(heads.data(), {s.q_heads}),
               View<const int64_t, 1>::Contiguous(rows.data(), {s.q_len}),
               View<T, 4>::Contiguous(weights.data(), {s.batch, s.q_heads, s.q_len, s.kv_len}), problem_.workspace, executor);
    return weights;
  }

  Problem<T> problem_;
  std::vector<T> bias_;
  Attention attention_;
};

class LowestBiases : public OnTarget {
 protected:
  template <class T>
  static void ExpectAllRight() {
    constexpr double kLowest = std::numeric_limits<T>::lowest();
    const auto rows = [](int64_t i, int64_t j) {
      switch (i % 5) {
        case 0:
          return kLowest;  // nothing else
        case 1:
          return j < 70 ? kLowest : 0.0;  // first, as left padding leaves it
        case 2:
          return j < 70 ? 0.5 : kLowest;  // last, as causal masks leave it
        case 3:
          return j % 2 ? kLowest : -100.0;  // beside another low number
        default:
          return -1e30;  // a mask of another size over a whole row
      }
    };
    LowestBias<T>({2, 2, 1, 40, 150, 16, 24}, rows).ExpectRight("rows");
    LowestBias<T>({1, 2, 2, 1, 5000, 16, 16}, [](int64_t, int64_t) { return kLowest; }).ExpectRight("split keys");
    LowestBias<T>({1, 2, 2, 1, 5000, 16, 16}, [](int64_t, int64_t j) {
      return j < 3000 ? kLowest : 1.0;
    }).ExpectRight("splits without another number");
  }
};

TEST_P(LowestBiases, AreFinite) {
  ExpectAllRight<float>();
  ExpectAllRight<double>();
}

// Scores are kept in powers of two, where the lowest number of nats has no place: it counts as the lowest that has one.
TEST_P(LowestBiases, CountAsTheLowestNumberOfPowersOfTwo) {
  Problem<float> problem({1, 1, 1, 3, 20, 8, 8});
  const std::vector<float> bias(60, std::numeric_limits<float>::lowest());
  Attention attention;
  attention.bias = Bias{View<const float, 4>::Contiguous(bias.data(), {1, 1, 3, 20})};
  SerialExecutor serial;
  problem.Forward(attention, serial);
  for (const float lse : problem.lse)
    EXPECT_NEAR(lse / (std::numeric_limits<float>::lowest() * std::numbers::ln2_v<float>), 1.0f, 1e-6f);
}

// With statistics on the way, and the highest number: it takes all the weight.
TEST_P(LowestBiases, LeaveStatisticsFinite) {
  Problem<float> problem({1, 1, 1, 1, 300, 8, 8});
  std::vector<float> bias(300, std::numeric_limits<float>::lowest()), numbers(3);
  for (size_t j = 100; j < 300; ++j) bias[j] = 0;
  Attention attention;
  attention.bias = Bias{View<const float, 4>::Contiguous(bias.data(), {1, 1, 1, 300})};
  const auto row = [&](size_t x) { return View<float, 3>::Contiguous(numbers.data() + x, {1, 1, 1}); };
  SerialExecutor serial;
  const auto run = [&] {
    Forward<float>(attention, problem.Queries(problem.q), problem.Keys(problem.k), problem.Values(problem.v),
                   problem.Outputs(problem.out), problem.Lse(), problem.workspace, serial, {row(0), row(1), row(2)});
  };
  run();
  EXPECT_GT(numbers[0], 3.0f);  // log 200 is 5.3
  EXPECT_LT(numbers[0], 5.3f);
  bias[250] = std::numeric_limits<float>::max();
  run();
  EXPECT_EQ(numbers[0], 0.0f);
  EXPECT_EQ(numbers[1], 1.0f);
  EXPECT_EQ(numbers[2], 250.0f);
}

HEED_ON_TARGETS(LowestBiases);

}  // namespace
}  // namespace heed
