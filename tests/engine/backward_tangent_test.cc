// The tangent of the backward pass: beside the formula and finite differences, symmetric as a Hessian is, for any number of
// threads, in linear memory, without a trace of what is hidden, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "backward_tangent_call.h"
#include "heed/attention.h"
#include "heed/error.h"
#include "problem.h"
#include "reference/formulas.h"
#include "reference/random_cases.h"
#include "reference/reference.h"
#include "reference/trial.h"
#include "targets.h"
#include "tests/error_text.h"

namespace heed {
namespace {

using reference::Case;
using reference::Input;

double LargestMass(const std::vector<double>& mass) {
  double largest = 1;
  for (double m : mass) largest = std::max(largest, m);
  return largest;
}

// Largest error in units of what it may be: eps of the accumulation type times the largest sum of absolute terms and, of
// 16-bit calls, eps of elements, which the tangent of the output is rounded to.
template <class T>
double BackwardTangentError(const std::vector<double>& computed, const std::vector<double>& expected,
                            const std::vector<double>& mass, double accumulator) {
  const double largest = LargestMass(mass);
  double worst = 0;
  for (std::size_t x = 0; x < expected.size(); ++x) {
    double unit = reference::kAccumulatorLimit * accumulator * largest;
    if (sizeof(T) == 2) unit += reference::Epsilon<T>() * (std::abs(expected[x]) + largest) + reference::Smallest<T>();
    const double error = std::abs(computed[x] - expected[x]) / unit;
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

template <class T>
void ExpectBackwardTangents(const Case& c, uint64_t seed, const char* type) {
  using A = Accum<T>;
  BackwardTangentCall<T> call(c, seed);
  const Attention& attention = call.setup.attention;
  SerialExecutor serial;
  if (HasNoSecondDerivative(attention)) {
    EXPECT_NE(WhatOf<InvalidArgument>([&] { call.Run(serial); }), "") << c.name;
    return;
  }
  call.Run(serial);
  const reference::Result exact = call.Expected();
  double accumulator = reference::Epsilon<A>() * std::max(1.0, exact.largest_score / reference::kOrdinaryScore);
  accumulator /= (1 - c.dropout) * (1 - c.dropout);
  // The reference differentiates programs by differences.
  if (attention.score) accumulator = std::max(accumulator, 1e-10);
  ForEachTangent(call, exact,
                 [&](const char* name, const std::vector<double>& computed, const auto& expected, const auto& mass) {
                   EXPECT_LT(BackwardTangentError<T>(computed, expected, mass, accumulator), 1)
                       << type << " " << name << ": " << c.name << ", " << seed;
                 });
}

void ExpectBackwardTangentsInTurn(Turn& turn, const Case& c, uint64_t seed) {
  turn.Of([&] { ExpectBackwardTangents<float>(c, seed, "float32"); },
          [&] { ExpectBackwardTangents<double>(c, seed, "float64"); },
          [&] { ExpectBackwardTangents<BFloat16>(c, seed, "bfloat16"); },
          [&] { ExpectBackwardTangents<Float16>(c, seed, "float16"); });
}

class BackwardTangentOnTarget : public OnTarget {};

TEST_P(BackwardTangentOnTarget, AgreesWithTheFormulaInCasesOfTheTable) {
  Turn turn;
  uint64_t seed = 1;
  for (const Case& c : reference::Cases())
    if (IsLong() || ++seed % 4 == 0) ExpectBackwardTangentsInTurn(turn, c, seed);
}

TEST_P(BackwardTangentOnTarget, AgreesWithTheFormulaInRandomCases) {
  Turn turn;
  for (uint64_t seed = 1; seed <= (IsLong() ? 300 : 60); ++seed)
    for (const Case& c : reference::RandomCases(seed)) ExpectBackwardTangentsInTurn(turn, c, seed);
}

HEED_IN_TURN_ON_TARGETS(BackwardTangentOnTarget);

// 1e-11 whatever the units above are: float64, ordinary scores.
TEST(BackwardTangent, IsTheDenseFormula) {
  int tried = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Case c = reference::RandomCase(seed);
    c.scale.reset();
    BackwardTangentCall<double> call(c, seed);
    if (HasNoSecondDerivative(call.setup.attention) || call.setup.attention.slope_bias || call.setup.attention.score) continue;
    SerialExecutor serial;
    call.Run(serial);
    ForEachTangent(call, call.Expected(),
                   [&](const char* name, const std::vector<double>& computed, const auto& expected, const auto& mass) {
                     for (std::size_t x = 0; x < expected.size(); ++x)
                       ASSERT_NEAR(computed[x], expected[x], 1e-11 * std::max(1.0, mass[x]))
                           << name << ": " << c.name << ", " << x;
                   });
    ++tried;
  }
  EXPECT_GT(tried, 50);
}

// The formula itself: central differences of the gradients along the tangents.
struct MovedBackward {
  MovedBackward(const BackwardTangentCall<double>& call, double step) : attention(call.setup.attention) {
    const reference::InputTangents tangents = call.Exact();
    const auto moved = [&](const Input<double>& input, const View<const double, 4>& tangent) {
      std::vector<double> numbers = input.exact;
      for (std::size_t x = 0; tangent.present() && x < numbers.size(); ++x) numbers[x] += step * tangent.data[x];
      return numbers;
    };
    q = moved(call.q, tangents.q), k = moved(call.k, tangents.k), v = moved(call.v, tangents.v);
    d_out = moved(call.d_out, tangents.d_out);
    rows = call.RowGradients();
    if (rows.lse.empty() && !tangents.d_lse.empty()) rows.lse.assign(tangents.d_lse.size(), 0.0);
    for (std::size_t x = 0; x < tangents.d_lse.size(); ++x) rows.lse[x] += step * tangents.d_lse[x];
    if (tangents.biases.bias.present()) Move(attention.bias->values, tangents.biases.bias, step, bias);
    if (tangents.biases.relative_bias.present())
      Move(attention.relative_bias->table, tangents.biases.relative_bias, step, relative);
    if (tangents.biases.slopes.present()) Move(attention.slope_bias->slopes, tangents.biases.slopes, step, slopes);
  }

  template <class Table, class E, int Rank>
  static void Move(Table& table, const View<E, Rank>& tangent, double step, std::vector<double>& memory) {
    const auto extent = reference::TableExtent(table);
    const auto add = [&](auto... at) { memory.push_back(reference::TableEntry(table, at...) + step * tangent(at...)); };
    if constexpr (Rank == 1)
      for (int64_t x = 0; x < extent[0]; ++x) add(x);
    if constexpr (Rank == 2)
      for (int64_t x = 0; x < extent[0] * extent[1]; ++x) add(x / extent[1], x % extent[1]);
    if constexpr (Rank == 4)
      for (int64_t b = 0; b < extent[0]; ++b)
        for (int64_t h = 0; h < extent[1]; ++h)
          for (int64_t x = 0; x < extent[2] * extent[3]; ++x) add(b, h, x / extent[3], x % extent[3]);
    memory.push_back(0);
    table = View<const double, Rank>::Contiguous(memory.data(), extent);
  }

  reference::Result Compute(const BackwardTangentCall<double>& call) const {
    const auto view = [](const std::vector<double>& numbers, const auto& like) {
      return View<const double, 4>::Contiguous(numbers.data(), like.view.extent);
    };
    return reference::Compute(attention, view(q, call.q), view(k, call.k), view(v, call.v), view(d_out, call.d_out), rows);
  }

  Attention attention;
  std::vector<double> q, k, v, d_out, bias, relative, slopes;
  reference::RowGradients rows;
};

TEST(BackwardTangent, IsWhatFiniteDifferencesSay) {
  int tried = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed)
    for (const Case& c : reference::RandomCases(seed)) {
      const BackwardTangentCall<double> call(c, seed);
      if (HasNoSecondDerivative(call.setup.attention) || call.setup.attention.score) continue;
      const reference::Result expected = call.Expected();
      constexpr double kStep = 1e-6;
      const reference::Result above = MovedBackward(call, kStep).Compute(call),
                              below = MovedBackward(call, -kStep).Compute(call);
      const auto expect = [&](const char* name, const std::vector<double>& exact, const std::vector<double>& mass,
                              const std::vector<double>& high, const std::vector<double>& low) {
        const double size = LargestMass(mass) * std::max(1.0, above.largest_score);
        for (std::size_t x = 0; x < exact.size(); ++x)
          ASSERT_NEAR(exact[x], (high[x] - low[x]) / (2 * kStep), 1e-7 * size) << name << ": " << c.name << ", " << x;
      };
      expect("t_dQ", expected.d.q, expected.mass.q, above.d.q, below.d.q);
      expect("t_dK", expected.d.k, expected.mass.k, above.d.k, below.d.k);
      expect("t_dV", expected.d.v, expected.mass.v, above.d.v, below.d.v);
      for (const auto& [name, values] : expected.d.tables)
        if (IsTwiceDifferentiable(name))
          expect(name.c_str(), values, expected.mass.Of(name), above.d.Of(name), below.d.Of(name));
      ++tried;
    }
  EXPECT_GT(tried, 30);
}

// A call of plain arrays with all tangents: t_d_q, t_d_k and t_d_v one after the other.
template <class T>
struct PlainBackwardTangent {
  explicit PlainBackwardTangent(const Shape& shape) : problem(shape), tangents(shape, 2), t_lse(problem.lse.size()) {}

  // Everything that the second pass reads.
  void Prepare(const Attention& attention, Executor& executor) {
    Tangent(attention, problem.Queries(problem.q), problem.Keys(problem.k), problem.Values(problem.v), Given(),
            problem.Outputs(problem.out), tangents.Outputs(tangents.out), problem.Lse(),
            View<T, 3>::Contiguous(t_lse.data(), problem.Lse().extent), problem.workspace, executor);
  }
  void Run(const Attention& attention, Executor& executor) {
    BackwardTangent(attention, Inputs(), Given(), OfRows(), problem.Queries(problem.d_q), problem.Keys(problem.d_k),
                    problem.Values(problem.d_v), {}, workspace, executor);
  }
  std::vector<T> Results() const {
    std::vector<T> all = problem.d_q;
    all.insert(all.end(), problem.d_k.begin(), problem.d_k.end());
    all.insert(all.end(), problem.d_v.begin(), problem.d_v.end());
    return all;
  }
  BackwardInputs<T> Inputs() {
    return {.q = problem.Queries(problem.q),
            .k = problem.Keys(problem.k),
            .v = problem.Values(problem.v),
            .out = problem.Outputs(problem.out),
            .lse = problem.Lse(),
            .d_out = problem.Outputs(problem.d_out)};
  }
  Tangents<T> Given() {
    return {.q = tangents.Queries(tangents.q), .k = tangents.Keys(tangents.k), .v = tangents.Values(tangents.v), .biases = {}};
  }
  RowTangents<T> OfRows() {
    return {.out = tangents.Outputs(tangents.out),
            .lse = View<const T, 3>::Contiguous(t_lse.data(), problem.Lse().extent),
            .d_out = tangents.Outputs(tangents.d_out)};
  }

  Problem<T> problem, tangents;
  std::vector<T> t_lse;
  Workspace workspace;
};

TEST(BackwardTangent, HasTheSameBitsForAnyNumberOfThreads) {
  Attention attention;
  attention.dropout = {.probability = 0.2, .seed = 3};
  attention.softcap = 20.0;
  for (const Shape& shape :
       {Shape{2, 2, 2, 300, 1300, 16, 24}, Shape{1, 4, 2, 2, 9000, 16, 16}, Shape{1, 4, 1, 900, 900, 8, 8}}) {
    const auto run = [&](Executor& executor) {
      PlainBackwardTangent<float> call(shape);
      call.Prepare(attention, executor);
      call.Run(attention, executor);
      return call.Results();
    };
    SerialExecutor serial;
    const std::vector<float> one = run(serial);
    EXPECT_TRUE(std::all_of(one.begin(), one.end(), [](float x) { return std::isfinite(x); }));
    for (const int threads : {2, 3, 8}) {
      ThreadPool pool(threads);
      EXPECT_EQ(one, run(pool)) << threads;
    }
  }
}

TEST(BackwardTangent, TakesMemoryLinearInTheLength) {
  const auto bytes = [](int64_t n) {
    return static_cast<double>(BackwardTangentWorkspace({}, {1, 1, 1, n, n, 64, 64}, sizeof(float), 2));
  };
  EXPECT_LE(bytes(16384), 100.0 * 1024 * 1024);
  EXPECT_LE(bytes(16384) / bytes(4096), 4.4);
  const Shape shape{2, 4, 2, 300, 1500, 32, 16};
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    PlainBackwardTangent<float> call(shape);
    call.Prepare({}, pool);
    call.Run({}, pool);
    EXPECT_EQ(call.workspace.size(), BackwardTangentWorkspace({}, shape, sizeof(float), threads));
  }
}

// <u, H w> = <w, H u> for the Hessian H of <d_out, out> in q, k and v.
TEST(BackwardTangent, IsSymmetric) {
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.softcap = 3.0;
  const Shape shape{1, 4, 2, 50, 70, 8, 16};
  PlainBackwardTangent<double> one(shape), other(shape);
  other.tangents = Problem<double>(shape, 3);
  SerialExecutor serial;
  std::array<double, 2> products{};
  for (PlainBackwardTangent<double>* call : {&one, &other}) {
    call->Prepare(attention, serial);
    RowTangents<double> of_rows = call->OfRows();
    of_rows.d_out = {};
    BackwardTangent(attention, call->Inputs(), call->Given(), of_rows, call->problem.Queries(call->problem.d_q),
                    call->problem.Keys(call->problem.d_k), call->problem.Values(call->problem.d_v), {}, call->workspace,
                    serial);
    const Problem<double>& along = call == &one ? other.tangents : one.tangents;
    const Problem<double>& d = call->problem;
    double& product = products[call == &one ? 0 : 1];
    for (std::size_t x = 0; x < d.d_q.size(); ++x) product += d.d_q[x] * along.q[x];
    for (std::size_t x = 0; x < d.d_k.size(); ++x) product += d.d_k[x] * along.k[x];
    for (std::size_t x = 0; x < d.d_v.size(); ++x) product += d.d_v[x] * along.v[x];
  }
  EXPECT_NEAR(products[0], products[1], 1e-11 * std::max(1.0, std::abs(products[0])));
  EXPECT_GT(std::abs(products[0]), 1e-3);
}

TEST(BackwardTangent, IsNotReachedByWhatIsHidden) {
  const Shape shape{2, 2, 1, 70, 90, 8, 8};
  const std::vector<int64_t> lengths{50, 0};
  Attention attention;
  attention.key_lengths = Lengths::PerBatch(lengths.data(), 2);
  attention.softcap = 5.0;
  // Five keys amid others, too.
  std::array<bool, 90> mask{};
  std::fill(mask.begin(), mask.end(), true);
  std::fill_n(mask.begin() + 5, 5, false);
  attention.mask = Mask{View<const bool, 4>::Contiguous(mask.data(), {1, 1, 1, 90})};
  PlainBackwardTangent<float> clean(shape), spoiled(shape);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (std::vector<float>* rows : {&spoiled.problem.k, &spoiled.problem.v, &spoiled.tangents.k, &spoiled.tangents.v}) {
    std::fill_n(rows->begin() + 5 * 8, 5 * 8, kNan);
    for (int64_t x = 50 * 8; x < 90 * 8; ++x) (*rows)[static_cast<std::size_t>(x)] = kNan;
    for (std::size_t x = 90 * 8; x < rows->size(); ++x) (*rows)[x] = std::numeric_limits<float>::infinity();
  }
  // Queries that see nothing reach no key.
  for (Problem<float>* of : {&spoiled.problem, &spoiled.tangents})
    for (std::vector<float>* rows : {&of->q, &of->d_out})
      std::fill(rows->begin() + static_cast<std::ptrdiff_t>(rows->size() / 2), rows->end(), kNan);
  SerialExecutor serial;
  for (PlainBackwardTangent<float>* call : {&clean, &spoiled}) {
    call->Prepare(attention, serial);
    call->Run(attention, serial);
  }
  EXPECT_EQ(clean.Results(), spoiled.Results());
  EXPECT_TRUE(std::all_of(clean.problem.d_q.begin() + static_cast<std::ptrdiff_t>(clean.problem.d_q.size() / 2),
                          clean.problem.d_q.end(), [](float x) { return x == 0; }));
  // A query with NaN reaches the keys that it sees, and no others.
  spoiled.tangents.q[0] = kNan;
  spoiled.Prepare(attention, serial);
  spoiled.Run(attention, serial);
  EXPECT_TRUE(std::isnan(spoiled.problem.d_k[0]));
  EXPECT_EQ(spoiled.problem.d_k[5 * 8], 0);
}

TEST(BackwardTangent, OfARowWithOneKeyIsThatOfItsValueAlone) {
  const Shape shape{1, 1, 1, 20, 20, 8, 8};
  Attention attention;
  attention.window = Window{0, 0};
  PlainBackwardTangent<float> call(shape);
  SerialExecutor serial;
  call.Prepare(attention, serial);
  call.Run(attention, serial);
  // What forward mode has rounded of the tangent of the output.
  EXPECT_TRUE(std::all_of(call.problem.d_q.begin(), call.problem.d_q.end(), [](float x) { return std::abs(x) < 1e-4f; }));
  for (std::size_t x = 0; x < call.problem.d_v.size(); ++x)
    EXPECT_NEAR(call.problem.d_v[x], call.tangents.d_out[x], 1e-5f * std::max(1.0f, std::abs(call.tangents.d_out[x])));
}

TEST(BackwardTangent, NamesWhatItRefuses) {
  const Shape shape{1, 2, 2, 4, 5, 8, 8};
  PlainBackwardTangent<float> call(shape);
  Problem<float>& p = call.problem;
  SerialExecutor serial;
  call.Prepare({}, serial);
  const auto what = [&](const Attention& attention, const Tangents<float>& tangents, const RowTangents<float>& of_rows,
                        const BiasGradients<float>& t_d_biases, View<float, 4> t_d_q) {
    return WhatOf<InvalidArgument>([&] {
      BackwardTangent(attention, call.Inputs(), tangents, of_rows, t_d_q, p.Keys(p.d_k), p.Values(p.d_v), t_d_biases,
                      call.workspace, serial);
    });
  };
  const View<float, 4> t_d_q = p.Queries(p.d_q);
  EXPECT_EQ(what({}, call.Given(), call.OfRows(), {}, t_d_q), "");
  Tangents<float> tangents = call.Given();
  tangents.q = tangents.k;
  EXPECT_TRUE(Holds(what({}, tangents, call.OfRows(), {}, t_d_q), "tangents.q: expected the shape of q"));
  RowTangents<float> of_rows = call.OfRows();
  of_rows.out = {};
  EXPECT_TRUE(Holds(what({}, call.Given(), of_rows, {}, t_d_q), "of_rows.out: expected what Tangent returned"));
  of_rows = call.OfRows();
  of_rows.lse = {};
  EXPECT_TRUE(Holds(what({}, call.Given(), of_rows, {}, t_d_q), "of_rows.lse: expected what Tangent returned"));
  of_rows = call.OfRows();
  of_rows.d_out = call.tangents.Keys(call.tangents.k);
  EXPECT_TRUE(Holds(what({}, call.Given(), of_rows, {}, t_d_q), "of_rows.d_out: expected the shape of out"));
  EXPECT_TRUE(Holds(what({}, call.Given(), call.OfRows(), {}, p.Keys(p.d_k)), "t_d_q"));
  EXPECT_TRUE(Holds(what({}, call.Given(), call.OfRows(), {}, p.Queries(p.q)), "t_d_q"));
  std::vector<float> numbers(100, 0.5f);
  Attention attention;
  attention.sinks = Sinks{View<const float, 3>::Contiguous(numbers.data(), {1, 2, 1})};
  EXPECT_EQ(what(attention, call.Given(), call.OfRows(), {}, t_d_q), "");
  BiasGradients<float> t_d_biases;
  t_d_biases.sinks = View<float, 3>::Contiguous(numbers.data() + 50, {1, 2, 1});
  EXPECT_TRUE(Holds(what(attention, call.Given(), call.OfRows(), t_d_biases, t_d_q), "t_d_biases.sinks: expected none"));
  tangents = call.Given();
  tangents.biases.sinks = t_d_biases.sinks;
  EXPECT_TRUE(Holds(what(attention, tangents, call.OfRows(), {}, t_d_q), "tangents.biases.sinks: expected none"));
  attention = {};
  attention.content_bias.emplace();
  attention.content_bias->keys = View<const float, 2>::Contiguous(numbers.data(), {3, 8});
  EXPECT_TRUE(Holds(what(attention, call.Given(), call.OfRows(), {}, t_d_q), "second derivatives"));
  BackwardInputs<float> inputs = call.Inputs();
  inputs.statistics.d_entropy = inputs.lse;
  const std::string told = WhatOf<InvalidArgument>([&] {
    BackwardTangent(Attention{}, inputs, call.Given(), call.OfRows(), t_d_q, p.Keys(p.d_k), p.Values(p.d_v), {}, call.workspace,
                    serial);
  });
  EXPECT_TRUE(Holds(told, "statistics: expected no gradients"));
}

}  // namespace
}  // namespace heed
