// Gradients of entropy, largest weight and mean distance: beside finite differences, for any number of threads, at ties, and
// what is refused. The table of cases compares them with the formula beside every option.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/error.h"
#include "problem.h"
#include "tests/error_text.h"

namespace heed {
namespace {

// A call whose statistics are returned, and have gradients.
template <class T>
struct Call {
  explicit Call(const Shape& shape) : problem(shape), rows{shape.batch, shape.q_heads, shape.q_len} {
    const auto size = static_cast<std::size_t>(shape.batch * shape.q_heads * shape.q_len);
    keys.resize(size);
    for (std::size_t s = 0; s < 3; ++s) {
      statistics[s].resize(size);
      for (std::size_t x = 0; x < size; ++x) gradients[s].push_back(std::cos(static_cast<T>(x * 3 + s)));
    }
  }

  View<T, 3> Rows(std::vector<T>& numbers) const { return View<T, 3>::Contiguous(numbers.data(), rows); }
  View<int64_t, 3> Keys() { return View<int64_t, 3>::Contiguous(keys.data(), rows); }

  void Forward(const Attention& attention, Executor& executor) {
    heed::Forward(attention, problem.Queries(problem.q), problem.Keys(problem.k), problem.Values(problem.v),
                  problem.Outputs(problem.out), problem.Lse(), problem.workspace, executor,
                  {Rows(statistics[0]), Rows(statistics[1]), Rows(statistics[2])}, {}, {}, Keys());
  }
  StatisticGradients<T> Given() {
    return {.entropy = Rows(statistics[0]),
            .max_weight = Rows(statistics[1]),
            .mean_distance = Rows(statistics[2]),
            .largest_key = Keys(),
            .d_entropy = Rows(gradients[0]),
            .d_max_weight = Rows(gradients[1]),
            .d_mean_distance = Rows(gradients[2])};
  }
  void Backward(const Attention& attention, Executor& executor, const StatisticGradients<T>& given) {
    heed::Backward(attention, problem.Queries(problem.q), problem.Keys(problem.k), problem.Values(problem.v),
                   problem.Outputs(problem.out), problem.Lse(), problem.Outputs(problem.d_out), problem.Queries(problem.d_q),
                   problem.Keys(problem.d_k), problem.Values(problem.d_v), {}, problem.workspace, executor, {}, {}, {}, given);
  }

  // What gradients are of: sum(out * d_out) + the sum of statistics times their gradients.
  double Loss(const Attention& attention) {
    SerialExecutor serial;
    Forward(attention, serial);
    double loss = 0;
    for (std::size_t x = 0; x < problem.out.size(); ++x) loss += static_cast<double>(problem.out[x] * problem.d_out[x]);
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t x = 0; x < keys.size(); ++x) loss += static_cast<double>(statistics[s][x] * gradients[s][x]);
    return loss;
  }

  Problem<T> problem;
  std::array<int64_t, 3> rows;
  std::array<std::vector<T>, 3> statistics, gradients;
  std::vector<int64_t> keys;
};

void ExpectSlopes(const Attention& attention, const Shape& shape) {
  Call<double> call(shape);
  SerialExecutor serial;
  call.Forward(attention, serial);
  call.Backward(attention, serial, call.Given());
  Problem<double>& p = call.problem;
  const auto check = [&](std::vector<double>& numbers, const std::vector<double>& gradient, const char* name) {
    for (std::size_t x = 0; x < numbers.size(); x += 7) {
      const double before = numbers[x], step = 1e-6;
      numbers[x] = before + step;
      const double above = call.Loss(attention);
      numbers[x] = before - step;
      const double below = call.Loss(attention);
      numbers[x] = before;
      // Central differences: step^2 of the third derivative, and rounding over the step.
      EXPECT_NEAR(gradient[x], (above - below) / (2 * step), 1e-7) << name << " " << x;
    }
  };
  check(p.q, std::vector<double>(p.d_q), "d_q");
  check(p.k, std::vector<double>(p.d_k), "d_k");
  check(p.v, std::vector<double>(p.d_v), "d_v");
}

TEST(StatisticGradients, AreSlopes) {
  Attention causal, dropped;
  causal.causal = Causal::kBottomRight;
  dropped.dropout = {.probability = 0.3, .seed = 4};
  dropped.softcap = 3.0;
  for (const Shape& shape : {Shape{1, 4, 2, 9, 21, 6, 5}, Shape{2, 2, 1, 2, 40, 5, 4}}) {
    ExpectSlopes({}, shape);
    ExpectSlopes(causal, shape);
    ExpectSlopes(dropped, shape);
  }
}

TEST(StatisticGradients, HaveTheSameBitsForAnyNumberOfThreads) {
  for (const Shape& shape : {Shape{2, 2, 2, 300, 1300, 16, 24}, Shape{1, 2, 2, 2, 9000, 16, 16}}) {
    const auto run = [&](Executor& executor) {
      Call<float> call(shape);
      call.Forward({}, executor);
      call.Backward({}, executor, call.Given());
      return call;
    };
    SerialExecutor serial;
    const Call<float> one = run(serial);
    for (const int threads : {2, 3, 8}) {
      ThreadPool pool(threads);
      const Call<float> many = run(pool);
      EXPECT_EQ(one.statistics, many.statistics) << threads;
      EXPECT_EQ(one.keys, many.keys) << threads;
      EXPECT_EQ(one.problem.d_q, many.problem.d_q) << threads;
      EXPECT_EQ(one.problem.d_k, many.problem.d_k) << threads;
      EXPECT_EQ(one.problem.d_v, many.problem.d_v) << threads;
    }
  }
}

// Of equal weights the first is the largest, in one panel, in rows of few queries and over splits, wherever the two keys lie.
TEST(StatisticGradients, NameTheFirstOfEqualKeys) {
  for (const int64_t queries : {1, 3, 40}) {
    const Shape shape{1, 1, 1, queries, 9000, 4, 4};
    for (const auto& [first, second] : {std::array<std::size_t, 2>{3, 5}, {3, 8000}, {70, 127}, {4095, 4096}, {0, 8999}}) {
      Call<float> call(shape);
      for (float& x : call.problem.q) x = std::abs(x) + 0.1F;
      for (float& x : call.problem.k) x = -std::abs(x);
      for (const std::size_t key : {first, second})
        for (std::size_t c = 0; c < 4; ++c) call.problem.k[key * 4 + c] = 1;
      ThreadPool pool(2);
      call.Forward({}, pool);
      for (const int64_t key : call.keys) EXPECT_EQ(key, static_cast<int64_t>(first)) << queries << " queries, " << second;
    }
  }
}

TEST(StatisticGradients, RowsWithoutWeightsNameNoKey) {
  Call<float> call({1, 1, 1, 3, 4, 4, 4});
  Attention attention;
  attention.query_positions.offset = -1;
  attention.causal = Causal::kBottomRight;
  SerialExecutor serial;
  call.Forward(attention, serial);
  EXPECT_EQ(call.keys[0], -1);
  EXPECT_EQ(call.keys[1], 0);
}

TEST(StatisticGradients, NeedWhatTheForwardPassReturned) {
  Call<float> call({1, 1, 1, 3, 4, 4, 4});
  SerialExecutor serial;
  call.Forward({}, serial);
  const std::vector<float> before = call.problem.d_q;
  const auto refusal = [&](const auto& change) {
    StatisticGradients<float> given = call.Given();
    change(given);
    return WhatOf<InvalidArgument>([&] { call.Backward({}, serial, given); });
  };
  EXPECT_EQ(refusal([](auto& given) { given.entropy = {}; }),
            "statistics.entropy: expected what the forward pass returned beside statistics.d_entropy");
  EXPECT_EQ(refusal([](auto& given) { given.largest_key = {}; }),
            "statistics.largest_key: expected what the forward pass returned beside statistics.d_max_weight");
  EXPECT_EQ(refusal([](auto& given) { given.d_mean_distance.extent[2] = 2; }),
            "statistics.d_mean_distance: expected [B, Hq, Nq] = [1, 1, 3], got [1, 1, 2]");
}

}  // namespace
}  // namespace heed
