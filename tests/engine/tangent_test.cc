// Forward mode: tangents beside finite differences, the formula, any number of threads, what is hidden, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "heed/attention.h"
#include "heed/error.h"
#include "problem.h"
#include "reference/formulas.h"
#include "reference/random_cases.h"
#include "reference/reference.h"
#include "reference/trial.h"
#include "reference/trial_arrays.h"
#include "reference/trial_setup.h"
#include "targets.h"
#include "tests/error_text.h"

namespace heed {
namespace {

using reference::Case;
using reference::Result;
using reference::Role;

// Whether forward mode refuses a case.
bool IsRefused(const Attention& attention) {
  return attention.content_bias || attention.transformer_xl || attention.column_decay || attention.contextual_position;
}

bool IsReal(const ProgramTable& table) {
  return std::holds_alternative<View<const float, 4>>(table) || std::holds_alternative<View<const double, 4>>(table);
}
std::array<int64_t, 4> ExtentOf(const ProgramTable& table) {
  return std::visit([](const auto& view) { return view.extent; }, table);
}
double EntryOf(const ProgramTable& table, int64_t b, int64_t h, int64_t i, int64_t j) {
  return std::visit([&](const auto& view) { return static_cast<double>(view(b, h, i, j)); }, table);
}

// The tangents of the tables of a call, in A, and the same numbers as doubles.
template <class A>
struct TableTangents {
  std::vector<std::vector<A>> own;
  std::vector<std::vector<double>> exact;
  BiasGradients<A> views;
  BiasGradients<double> doubles;

  TableTangents(const Attention& attention, std::mt19937_64& random) {
    const std::vector<ProgramTable> none;
    const std::vector<ProgramTable>& tables = attention.score ? attention.score->tables : none;
    own.reserve(4 + tables.size());
    exact.reserve(4 + tables.size());
    if (attention.bias) Make(reference::TableExtent(attention.bias->values), random, views.bias, doubles.bias);
    if (attention.relative_bias)
      Make(reference::TableExtent(attention.relative_bias->table), random, views.relative_bias, doubles.relative_bias);
    if (attention.slope_bias) Make(reference::TableExtent(attention.slope_bias->slopes), random, views.slopes, doubles.slopes);
    if (attention.sinks) Make(reference::TableExtent(attention.sinks->scores), random, views.sinks, doubles.sinks);
    views.score_tables.resize(tables.size());
    doubles.score_tables.resize(tables.size());
    for (std::size_t x = 0; x < tables.size(); ++x)
      if (IsReal(tables[x])) Make(ExtentOf(tables[x]), random, views.score_tables[x], doubles.score_tables[x]);
  }

  template <std::size_t Rank>
  void Make(const std::array<int64_t, Rank>& extent, std::mt19937_64& random, View<A, static_cast<int>(Rank)>& view,
            View<double, static_cast<int>(Rank)>& of_doubles) {
    if (random() % 4 == 0) return;  // 0
    reference::Normal normal;
    std::vector<A>& numbers =
        own.emplace_back(static_cast<std::size_t>(View<A, static_cast<int>(Rank)>{nullptr, extent, {}}.size()) + 1);
    for (A& number : numbers) number = static_cast<A>(normal(random));
    exact.emplace_back(numbers.begin(), numbers.end());
    view = View<A, static_cast<int>(Rank)>::Contiguous(numbers.data(), extent);
    of_doubles = View<double, static_cast<int>(Rank)>::Contiguous(exact.back().data(), extent);
  }
};

// A case with random tangents, some of them absent.
template <class T>
struct TangentCall {
  using A = Accum<T>;

  TangentCall(const Case& c, uint64_t seed)
      : random(seed),
        setup(c, seed, random),
        q(reference::MakeInput<T>(setup.QueryExtent(c.shape.head_dim), c.layout, Role::kInput, random)),
        k(reference::MakeInput<T>(setup.KeyExtent(c.shape.head_dim), c.layout, Role::kKeyInput, random)),
        v(reference::MakeInput<T>(setup.KeyExtent(c.shape.value_dim), c.layout, Role::kKeyInput, random)),
        t_q(reference::MakeInput<T>(q.view.extent, c.layout, Role::kInput, random)),
        t_k(reference::MakeInput<T>(k.view.extent, c.layout, Role::kKeyInput, random)),
        t_v(reference::MakeInput<T>(v.view.extent, c.layout, Role::kKeyInput, random)),
        tables(setup.attention, random),
        out(setup.QueryExtent(c.shape.value_dim), c.layout, random),
        t_out(out.view.extent, c.layout, random) {
    absent = {random() % 5 == 0, random() % 5 == 0, random() % 5 == 0};
  }

  reference::InputTangents Exact() const {
    reference::InputTangents tangents;
    if (!absent[0]) tangents.q = t_q.Doubles();
    if (!absent[1]) tangents.k = t_k.Doubles();
    if (!absent[2]) tangents.v = t_v.Doubles();
    tangents.biases = tables.doubles;
    return tangents;
  }

  Result Expected() const {
    return reference::Compute(setup.attention, q.Doubles(), k.Doubles(), v.Doubles(), {}, {}, Exact());
  }

  void Run(Executor& executor) {
    const std::array<int64_t, 3> rows{q.view.extent[0], q.view.extent[1], q.view.extent[2]};
    Tangents<T> tangents;
    if (!absent[0]) tangents.q = t_q.view;
    if (!absent[1]) tangents.k = t_k.view;
    if (!absent[2]) tangents.v = t_v.view;
    tangents.biases = tables.views;
    Workspace workspace;
    Tangent<T>(setup.attention, q.view, k.view, v.view, tangents, out.view, t_out.view, lse.Make(rows), t_lse.Make(rows),
               workspace, executor);
  }

  std::mt19937_64 random;
  reference::Setup<A> setup;
  reference::Input<T> q, k, v, t_q, t_k, t_v;
  TableTangents<A> tables;
  reference::Output<T> out, t_out;
  reference::Numbers<A> lse, t_lse;
  std::array<bool, 3> absent{};
};

// Largest error in units of what it may be: eps of the accumulation type times the absolute terms and, of 16-bit results, half
// of their own spacing.
template <class T>
double ErrorOf(const std::vector<double>& computed, const std::vector<double>& expected, const std::vector<double>& mass,
               double accumulator, double dropout) {
  double worst = 0;
  for (std::size_t x = 0; x < expected.size(); ++x) {
    double unit = reference::kAccumulatorLimit * accumulator * std::max(1.0, mass[x]) / (1 - dropout);
    if (sizeof(T) == 2) unit += reference::Epsilon<T>() * std::abs(expected[x]) + reference::Smallest<T>();
    const double error = std::abs(computed[x] - expected[x]) / unit;
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

template <class T>
void ExpectTangents(const Case& c, uint64_t seed, const char* type) {
  using A = Accum<T>;
  TangentCall<T> call(c, seed);
  const Attention& attention = call.setup.attention;
  SerialExecutor serial;
  if (IsRefused(attention)) {
    EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { call.Run(serial); }), "forward mode")) << c.name;
    return;
  }
  call.Run(serial);
  const Result expected = call.Expected();
  const double accumulator = reference::Epsilon<A>() * std::max(1.0, expected.largest_score / reference::kOrdinaryScore);
  const auto error = [&](const std::vector<double>& computed, const std::vector<double>& exact,
                         const std::vector<double>& mass) { return ErrorOf<T>(computed, exact, mass, accumulator, c.dropout); };
  EXPECT_LT(error(call.t_out.Exact(), expected.t_out, expected.t_out_mass), 1) << type << " t_out: " << c.name << ", " << seed;
  EXPECT_LT(error(call.out.Exact(), expected.out, expected.out_mass), 1) << type << " out: " << c.name << ", " << seed;
  EXPECT_LT(ErrorOf<A>(call.t_lse.Exact(), expected.t_lse, expected.t_lse_mass, accumulator, 0), 1)
      << type << " t_lse: " << c.name << ", " << seed;
}

void ExpectTangentsInTurn(Turn& turn, const Case& c, uint64_t seed) {
  turn.Of([&] { ExpectTangents<float>(c, seed, "float32"); }, [&] { ExpectTangents<double>(c, seed, "float64"); },
          [&] { ExpectTangents<BFloat16>(c, seed, "bfloat16"); }, [&] { ExpectTangents<Float16>(c, seed, "float16"); });
}

class TangentOnTarget : public OnTarget {};

TEST_P(TangentOnTarget, AgreesWithTheFormulaInCasesOfTheTable) {
  Turn turn;
  uint64_t seed = 1;
  for (const Case& c : reference::Cases())
    if (IsLong() || ++seed % 3 == 0) ExpectTangentsInTurn(turn, c, seed);
}

TEST_P(TangentOnTarget, AgreesWithTheFormulaInRandomCases) {
  Turn turn;
  for (uint64_t seed = 1; seed <= (IsLong() ? 400 : 120); ++seed)
    for (const Case& c : reference::RandomCases(seed)) ExpectTangentsInTurn(turn, c, seed);
}

HEED_IN_TURN_ON_TARGETS(TangentOnTarget);

// 1e-11 whatever the units above are: float64, ordinary scores.
TEST(Tangent, IsTheDenseFormula) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Case c = reference::RandomCase(seed);
    c.scale.reset();
    TangentCall<double> call(c, seed);
    if (IsRefused(call.setup.attention) || call.setup.attention.slope_bias) continue;
    SerialExecutor serial;
    call.Run(serial);
    const Result expected = call.Expected();
    const std::vector<double> t_out = call.t_out.Exact();
    for (std::size_t x = 0; x < t_out.size(); ++x)
      ASSERT_NEAR(t_out[x], expected.t_out[x], 1e-11 * std::max(1.0, expected.t_out_mass[x])) << c.name << ", " << x;
  }
}

// The formula itself: central differences of the forward pass along the tangents.
template <int Rank, class Table>
View<const double, Rank> Moved(const Table& table, const View<double, Rank>& tangent, double step,
                               std::vector<double>& memory) {
  const std::array<int64_t, Rank> extent = tangent.extent;
  memory.clear();
  const auto entry = [&](auto... at) {
    if constexpr (std::is_same_v<Table, ProgramTable>)
      return EntryOf(table, at...);
    else
      return reference::TableEntry(table, at...);
  };
  const auto add = [&](auto... at) { memory.push_back(entry(at...) + step * tangent(at...)); };
  if constexpr (Rank == 1)
    for (int64_t x = 0; x < extent[0]; ++x) add(x);
  if constexpr (Rank == 2)
    for (int64_t x = 0; x < extent[0]; ++x)
      for (int64_t y = 0; y < extent[1]; ++y) add(x, y);
  if constexpr (Rank == 3)
    for (int64_t b = 0; b < extent[0]; ++b)
      for (int64_t h = 0; h < extent[1]; ++h)
        for (int64_t i = 0; i < extent[2]; ++i) add(b, h, i);
  if constexpr (Rank == 4)
    for (int64_t b = 0; b < extent[0]; ++b)
      for (int64_t h = 0; h < extent[1]; ++h)
        for (int64_t i = 0; i < extent[2]; ++i)
          for (int64_t j = 0; j < extent[3]; ++j) add(b, h, i, j);
  memory.push_back(0);
  return View<const double, Rank>::Contiguous(memory.data(), extent);
}

reference::Result ComputeMoved(const TangentCall<double>& call, double step) {
  const Tangents<double> tangents = call.Exact();
  const auto moved = [&](const reference::Input<double>& input, const View<const double, 4>& tangent) {
    std::vector<double> numbers = input.exact;
    for (std::size_t x = 0; tangent.present() && x < numbers.size(); ++x) numbers[x] += step * tangent.data[x];
    return numbers;
  };
  const std::vector<double> q = moved(call.q, tangents.q), k = moved(call.k, tangents.k), v = moved(call.v, tangents.v);
  Attention attention = call.setup.attention;
  std::vector<double> bias, relative, slopes, sinks;
  if (tangents.biases.bias.present()) attention.bias->values = Moved(attention.bias->values, tangents.biases.bias, step, bias);
  if (tangents.biases.relative_bias.present())
    attention.relative_bias->table = Moved(attention.relative_bias->table, tangents.biases.relative_bias, step, relative);
  if (tangents.biases.slopes.present())
    attention.slope_bias->slopes = Moved(attention.slope_bias->slopes, tangents.biases.slopes, step, slopes);
  if (tangents.biases.sinks.present())
    attention.sinks->scores = Moved(attention.sinks->scores, tangents.biases.sinks, step, sinks);
  std::vector<std::vector<double>> tables(tangents.biases.score_tables.size());
  for (std::size_t x = 0; x < tables.size(); ++x)
    if (const View<double, 4>& tangent = tangents.biases.score_tables[x]; tangent.present())
      attention.score->tables[x] = Moved(attention.score->tables[x], tangent, step, tables[x]);
  const auto view = [](const std::vector<double>& numbers, const auto& like) {
    return View<const double, 4>::Contiguous(numbers.data(), like.view.extent);
  };
  return reference::Compute(attention, view(q, call.q), view(k, call.k), view(v, call.v));
}

TEST(Tangent, IsWhatFiniteDifferencesSay) {
  int tried = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed)
    for (const Case& c : reference::RandomCases(seed)) {
      TangentCall<double> call(c, seed);
      if (IsRefused(call.setup.attention)) continue;
      const Result tangent = call.Expected();
      constexpr double kStep = 1e-6;
      const reference::Result above = ComputeMoved(call, kStep), below = ComputeMoved(call, -kStep);
      // step^2 of the third derivative, and rounding over the step.
      const double size = std::max(1.0, above.largest_score);
      for (std::size_t x = 0; x < tangent.t_out.size(); ++x)
        ASSERT_NEAR(tangent.t_out[x], (above.out[x] - below.out[x]) / (2 * kStep),
                    1e-7 * size * std::max(1.0, tangent.t_out_mass[x]))
            << c.name << ", " << x;
      for (std::size_t x = 0; x < tangent.t_lse.size(); ++x) {
        if (std::isfinite(above.lse[x])) {
          ASSERT_NEAR(tangent.t_lse[x], (above.lse[x] - below.lse[x]) / (2 * kStep),
                      1e-7 * size * std::max(1.0, tangent.t_lse_mass[x]))
              << c.name << ", " << x;
        }
      }
      ++tried;
    }
  EXPECT_GT(tried, 100);
}

// A call of plain arrays with all tangents: t_out, then t_lse.
template <class T>
struct AllTangents {
  explicit AllTangents(const Shape& shape) : problem(shape), tangents(shape, 2), t_lse(problem.lse.size()) {}

  void Run(const Attention& attention, Executor& executor) {
    Tangent(attention, problem.Queries(problem.q), problem.Keys(problem.k), problem.Values(problem.v), Given(),
            problem.Outputs(problem.out), tangents.Outputs(tangents.out), problem.Lse(),
            View<T, 3>::Contiguous(t_lse.data(), problem.Lse().extent), problem.workspace, executor);
  }
  Tangents<T> Given() {
    return {.q = tangents.Queries(tangents.q), .k = tangents.Keys(tangents.k), .v = tangents.Values(tangents.v), .biases = {}};
  }

  Problem<T> problem, tangents;
  std::vector<T> t_lse;
};

TEST(Tangent, HasTheSameBitsForAnyNumberOfThreads) {
  Attention attention;
  attention.dropout = {.probability = 0.2, .seed = 3};
  for (const Shape& shape : {Shape{2, 2, 2, 300, 1300, 16, 24}, Shape{1, 4, 2, 2, 9000, 16, 16}}) {
    const auto run = [&](Executor& executor) {
      AllTangents<float> call(shape);
      call.Run(attention, executor);
      call.tangents.out.insert(call.tangents.out.end(), call.t_lse.begin(), call.t_lse.end());
      return call.tangents.out;
    };
    SerialExecutor serial;
    const std::vector<float> one = run(serial);
    for (const int threads : {2, 3, 8}) {
      ThreadPool pool(threads);
      EXPECT_EQ(one, run(pool)) << threads;
    }
  }
}

// Parts of the keys, which are walked apart, count from origins of their own.
TEST(Tangent, OfKeysInPartsIsTheFormula) {
  const Shape shape{1, 4, 2, 2, 9000, 16, 16};
  AllTangents<double> call(shape);
  Attention attention;
  SerialExecutor serial;
  call.Run(attention, serial);
  Problem<double>& p = call.problem;
  const Result expected = reference::Compute(attention, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), {}, {},
                                             reference::InputTangents{call.Given(), {}, {}});
  for (std::size_t x = 0; x < expected.t_out.size(); ++x) ASSERT_NEAR(call.tangents.out[x], expected.t_out[x], 1e-12) << x;
  for (std::size_t x = 0; x < expected.t_lse.size(); ++x) ASSERT_NEAR(call.t_lse[x], expected.t_lse[x], 1e-12) << x;
}

TEST(Tangent, TakesMemoryLinearInTheLength) {
  const auto bytes = [](int64_t n) {
    return static_cast<double>(TangentWorkspace({}, {1, 1, 1, n, n, 64, 64}, sizeof(float), 2));
  };
  EXPECT_LE(bytes(16384), 100.0 * 1024 * 1024);
  EXPECT_LE(bytes(16384) / bytes(4096), 4.4);
  const Shape shape{2, 4, 2, 300, 1500, 32, 16};
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    AllTangents<float> call(shape);
    call.Run({}, pool);
    EXPECT_EQ(call.problem.workspace.size(), TangentWorkspace({}, shape, sizeof(float), threads));
  }
}

TEST(Tangent, IsNotReachedByWhatIsHidden) {
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
  AllTangents<float> clean(shape), spoiled(shape);
  for (std::vector<float>* rows : {&spoiled.problem.k, &spoiled.problem.v, &spoiled.tangents.k, &spoiled.tangents.v}) {
    std::fill_n(rows->begin() + 5 * 8, 5 * 8, std::numeric_limits<float>::quiet_NaN());
    for (int64_t x = 50 * 8; x < 90 * 8; ++x) (*rows)[static_cast<std::size_t>(x)] = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t x = 90 * 8; x < rows->size(); ++x) (*rows)[x] = std::numeric_limits<float>::infinity();
  }
  SerialExecutor serial;
  clean.Run(attention, serial);
  spoiled.Run(attention, serial);
  EXPECT_EQ(clean.tangents.out, spoiled.tangents.out);
  EXPECT_EQ(clean.t_lse, spoiled.t_lse);
  // Rows without keys have no tangent.
  const std::size_t half = clean.tangents.out.size() / 2;
  EXPECT_TRUE(std::all_of(clean.tangents.out.begin() + static_cast<std::ptrdiff_t>(half), clean.tangents.out.end(),
                          [](float x) { return x == 0; }));
  EXPECT_TRUE(std::all_of(clean.t_lse.begin() + static_cast<std::ptrdiff_t>(clean.t_lse.size() / 2), clean.t_lse.end(),
                          [](float x) { return x == 0; }));
  // What is seen spreads.
  spoiled.tangents.v[0] = std::numeric_limits<float>::quiet_NaN();
  spoiled.Run(attention, serial);
  EXPECT_TRUE(std::isnan(spoiled.tangents.out[0]));
}

TEST(Tangent, OfUniformRowsIsTheMeanOfThoseOfTheirValues) {
  const Shape shape{1, 1, 1, 3, 4, 8, 2};
  const std::vector<int64_t> lengths{0};
  Attention attention;
  attention.key_lengths = Lengths::PerBatch(lengths.data(), 1);
  attention.empty_row = EmptyRow::kUniform;
  AllTangents<double> call(shape);
  SerialExecutor serial;
  call.Run(attention, serial);
  double mean = 0;
  for (std::size_t j = 0; j < 4; ++j) mean += call.tangents.v[2 * j] / 4;
  EXPECT_NEAR(call.tangents.out[0], mean, 1e-14);
  EXPECT_EQ(call.t_lse[0], 0);
}

TEST(Tangent, NamesWhatItRefuses) {
  const Shape shape{1, 2, 2, 4, 5, 8, 8};
  AllTangents<float> call(shape);
  Problem<float>& p = call.problem;
  SerialExecutor serial;
  const auto what = [&](const Attention& attention, const Tangents<float>& tangents, View<float, 4> t_out) {
    return WhatOf<InvalidArgument>([&] {
      Tangent(attention, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), tangents, p.Outputs(p.out), t_out, {}, {}, p.workspace,
              serial);
    });
  };
  const View<float, 4> t_out = call.tangents.Outputs(call.tangents.out);
  EXPECT_EQ(what({}, call.Given(), t_out), "");
  Tangents<float> tangents = call.Given();
  tangents.q = tangents.k;
  EXPECT_TRUE(Holds(what({}, tangents, t_out), "tangents.q: expected the shape of q"));
  tangents = call.Given();
  std::vector<float> numbers(100, 0.5f);
  tangents.biases.bias = View<float, 4>::Contiguous(numbers.data(), {1, 1, 4, 5});
  EXPECT_TRUE(Holds(what({}, tangents, t_out), "tangents.biases.bias: expected none"));
  Attention attention;
  attention.sinks = Sinks{View<const float, 3>::Contiguous(numbers.data(), {1, 2, 1})};
  tangents = call.Given();
  tangents.biases.sinks = View<float, 3>::Contiguous(numbers.data(), {1, 2, 4});
  EXPECT_TRUE(Holds(what(attention, tangents, t_out), "tangents.biases.sinks: expected"));
  EXPECT_TRUE(Holds(what({}, tangents, t_out), "tangents.biases.sinks: expected none"));
  tangents = call.Given();
  tangents.biases.score_tables = {View<float, 4>::Contiguous(numbers.data(), {1, 1, 1, 5})};
  EXPECT_TRUE(Holds(what({}, tangents, t_out), "tangents.biases.score_tables[0]: expected none"));
  EXPECT_TRUE(Holds(what({}, call.Given(), p.Outputs(p.out)), "t_out"));
  EXPECT_TRUE(Holds(what({}, call.Given(), p.Queries(p.q)), "t_out"));
  attention = {};
  attention.content_bias.emplace();
  attention.content_bias->keys = View<const float, 2>::Contiguous(numbers.data(), {3, 8});
  EXPECT_TRUE(Holds(what(attention, call.Given(), t_out), "forward mode"));
}

}  // namespace
}  // namespace heed
