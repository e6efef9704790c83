#include "reference/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "reference/bits_hash.h"
#include "reference/normal.h"
#include "reference/reference.h"
#include "reference/spoiled.h"
#include "reference/table_gradients.h"
#include "reference/trial_arrays.h"
#include "reference/trial_setup.h"

namespace heed::reference {
namespace {

double Worse(double worst, double value) { return std::isnan(worst) || std::isnan(value) ? NAN : std::max(worst, value); }

// Errors of arrays in units of what they may be, see reference/trial.h. T: the type of the array's elements. accumulator: the
// spacing at 1 of the type that the array is computed in, times how much larger than ordinary its scores are. weights: by what
// share of themselves weights and gradients of scores may be off beyond that.
template <class T>
class Units {
 public:
  Units(double accumulator, double weights) : accumulator_(accumulator), weights_(weights) {}

  double Error(double computed, double expected, double mass) const {
    const double difference = std::abs(computed - expected);
    if (difference == 0) return 0;
    if constexpr (sizeof(T) > 2) return difference / ((accumulator_ + weights_ / kAccumulatorLimit) * mass);
    if (std::isinf(computed)) {
      // Any number that large, in particular one that is large by no more than what it may be off by.
      const double least = computed * expected > 0 ? std::max(Overflow<T>(), std::abs(expected)) : Overflow<T>();
      return Error(std::copysign(least, computed), expected, mass);
    }
    return difference /
           (Epsilon<T>() * std::abs(expected) + Smallest<T>() + (kAccumulatorLimit * accumulator_ + weights_) * mass);
  }

 private:
  double accumulator_, weights_;
};

template <class T>
double OutputError(const std::vector<double>& computed, const Result& expected, const Units<T>& units, double dropout) {
  double worst = 0;
  for (size_t x = 0; x < expected.out.size(); ++x)
    worst = Worse(worst, units.Error(computed[x], expected.out[x], expected.out_mass[x] / (1 - dropout)));
  return worst;
}

template <class T>
double GradientError(const std::vector<double>& computed, const std::vector<double>& expected, const std::vector<double>& mass,
                     const Units<T>& units, double dropout) {
  double largest = 1, worst = 0;
  for (double m : mass) largest = std::max(largest, m);
  for (size_t i = 0; i < expected.size(); ++i)
    worst = Worse(worst, units.Error(computed[i], expected[i], largest / (1 - dropout)));
  return worst;
}

// A: the type of accumulation.
template <class A>
double RowError(const std::vector<A>& computed, const std::vector<double>& expected, const Units<A>& units) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = Exact(computed[i]);
    if (std::isinf(expected[i]) || std::isinf(value)) {
      if (value != expected[i]) return NAN;
      continue;
    }
    worst = Worse(worst, units.Error(value, expected[i], std::max(1.0, std::abs(expected[i]))));
  }
  return worst;
}

template <class T>
class Trial {
  using A = Accum<T>;

 public:
  Trial(const Case& c, uint64_t seed, std::mt19937_64& random)
      : case_(c),
        setup_(c, seed, random),
        q_(MakeInput<T>(setup_.QueryExtent(c.shape.head_dim), c.layout, Role::kInput, random)),
        k_(MakeInput<T>(setup_.KeyExtent(c.shape.head_dim), c.layout, Role::kKeyInput, random)),
        v_(MakeInput<T>(setup_.KeyExtent(c.shape.value_dim), c.layout, Role::kKeyInput, random)),
        d_out_(MakeInput<T>(setup_.QueryExtent(c.shape.value_dim), c.layout, Role::kInput, random)),
        out_(d_out_.view.extent, c.layout, random),
        d_q_(q_.view.extent, c.layout, random),
        d_k_(k_.view.extent, c.layout, random),
        d_v_(v_.view.extent, c.layout, random),
        d_tables_(setup_.attention) {
    const auto size = static_cast<size_t>(q_.view.extent[0] * q_.view.extent[1] * q_.view.extent[2]);
    Normal normal;
    const auto draw = [&](bool wanted, std::vector<A>& rows) {
      for (size_t x = 0; wanted && x < size + 1; ++x) rows.push_back(static_cast<A>(normal(random)));
    };
    draw(c.lse_gradient, d_lse_);
    for (std::vector<A>& rows : d_statistics_) draw(c.statistic_gradients, rows);
    if (c.spoiled) Spoil(random);
  }

  void Run(Executor& executor) {
    const Attention& attention = setup_.attention;
    const std::array<int64_t, 3> rows{q_.view.extent[0], q_.view.extent[1], q_.view.extent[2]};
    Statistics<A> statistics;
    if (case_.statistics) statistics = {entropy_.Make(rows), max_weight_.Make(rows), mean_distance_.Make(rows)};
    View<int64_t, 3> largest_key;
    if (case_.statistics) largest_key = largest_key_.Make(rows);
    const auto view_of = [&](const auto& numbers) {
      return numbers.empty() ? View<const A, 3>() : View<const A, 3>::Contiguous(numbers.data(), rows);
    };
    const View<const A, 3> d_lse = view_of(d_lse_);
    const StatisticGradients<A> d_statistics{.entropy = view_of(entropy_.memory),
                                             .max_weight = view_of(max_weight_.memory),
                                             .mean_distance = view_of(mean_distance_.memory),
                                             .largest_key = {largest_key.data, largest_key.extent, largest_key.stride},
                                             .d_entropy = view_of(d_statistics_[0]),
                                             .d_max_weight = view_of(d_statistics_[1]),
                                             .d_mean_distance = view_of(d_statistics_[2])};
    const View<A, 3> lse = lse_.Make(rows);
    View<BFloat16, 4> remainder;
    if (sizeof(T) == 2 && case_.remainder) {
      remainder_.assign(out_.memory.size(), BFloat16{});
      remainder = {remainder_.data() + (out_.view.data - out_.memory.data()), out_.view.extent, out_.view.stride};
    }
    View<A, 3> correction;
    if (case_.correction) correction = correction_.Make(rows);
    Workspace workspace;
    // What a workspace holds before a call goes nowhere; once it is large enough it holds NaN in every type of numbers.
    const auto spoil = [&] {
      if (workspace.size() > 0) std::memset(workspace.data(), 0xFF, workspace.size());
    };
    for (int round = 0; round < 2; ++round) {
      spoil();
      Forward<T>(attention, {.q = q_.view, .k = k_.view, .v = v_.view},
                 {.out = out_.view,
                  .lse = lse,
                  .statistics = statistics,
                  .remainder = remainder,
                  .correction = correction,
                  .largest_key = largest_key},
                 workspace, executor);
      spoil();
      if (case_.weights) RunWeights(lse, workspace, executor);
      spoil();
      Backward<T>(attention,
                  {.q = q_.view,
                   .k = k_.view,
                   .v = v_.view,
                   .out = out_.view,
                   .lse = lse,
                   .d_out = d_out_.view,
                   .d_lse = d_lse,
                   .remainder = remainder,
                   .correction = correction,
                   .statistics = d_statistics},
                  {.q = d_q_.view, .k = d_k_.view, .v = d_v_.view, .biases = d_tables_.views}, workspace, executor);
      const std::string bytes = Bytes();
      repeats_ = round == 0 || bytes == first_;
      first_ = bytes;
    }
  }

  // Of all that a call has written.
  uint64_t Hash() const {
    BitsHash hash;
    ForEachWritten([&](const auto& memory) { hash.AddAll(memory); });
    return hash.value();
  }

  TrialErrors Errors() {
    const Result& expected = Expected();
    // Scores are rounded at their own size, and everything inherits that.
    const double accumulator = Epsilon<A>() * std::max(1.0, expected.largest_score / kOrdinaryScore);
    const bool fused = std::is_same_v<T, BFloat16> && case_.precision == Precision::kFused;
    const Units<T> units(accumulator, fused ? kFusedShare : 0);
    const Units<A> wide(accumulator, 0), tables(accumulator, fused ? kFusedShare : 0);
    TrialErrors errors;
    if (!repeats_) errors.of.emplace_back("a second call in the same workspace", NAN);
    const auto add = [&](const char* name, double error, bool of_elements) {
      errors.of.emplace_back(name, of_elements || sizeof(T) > 2 ? error : error / kAccumulatorLimit);
    };
    add("out", OutputError(out_.Exact(), expected, units, case_.dropout), true);
    const auto add_rows = [&](const char* name, const Numbers<A>& computed, const std::vector<double>& rows) {
      add(name, RowError(computed.memory, rows, wide), false);
    };
    add_rows("lse", lse_, expected.lse);
    if (case_.statistics) {
      add_rows("entropy", entropy_, expected.entropy);
      add_rows("max_weight", max_weight_, expected.max_weight);
      add_rows("mean_distance", mean_distance_, expected.mean_distance);
      add("largest_key", LargestKeyError(expected, wide), false);
    }
    if (case_.weights) add_rows("weights", weights_, expected.weights);
    const Gradients &exact = expected.d, &mass = expected.mass;
    const auto add_gradient = [&](const char* name, const Output<T>& computed, auto of) {
      add(name, GradientError(computed.Exact(), exact.*of, mass.*of, units, case_.dropout), true);
    };
    add_gradient("dQ", d_q_, &Gradients::q);
    add_gradient("dK", d_k_, &Gradients::k);
    add_gradient("dV", d_v_, &Gradients::v);
    for (const auto& [name, numbers] : d_tables_.tables)
      add(name, GradientError(numbers.Exact(), exact.Of(name), mass.Of(name), tables, case_.dropout), false);
    return errors;
  }

 private:
  // All that a call has written.
  template <class Visit>
  void ForEachWritten(const Visit& visit) const {
    for (const Output<T>* output : {&out_, &d_q_, &d_k_, &d_v_}) visit(output->memory);
    visit(remainder_);
    for (const Numbers<A>* numbers : {&lse_, &correction_, &entropy_, &max_weight_, &mean_distance_, &weights_})
      visit(numbers->memory);
    visit(largest_key_.memory);
    for (const auto& table : d_tables_.tables) visit(table.numbers.memory);
  }
  std::string Bytes() const {
    std::string bytes;
    ForEachWritten([&](const auto& memory) {
      bytes.append(reinterpret_cast<const char*>(memory.data()), memory.size() * sizeof(memory[0]));
    });
    return bytes;
  }

  const Result& Expected() {
    if (!expected_) {
      const auto doubles = [](const std::vector<A>& rows) { return std::vector<double>(rows.begin(), rows.end()); };
      RowGradients d_rows{doubles(d_lse_), doubles(d_statistics_[0]), doubles(d_statistics_[1]), doubles(d_statistics_[2]),
                          largest_key_.memory};
      expected_ = Compute(setup_.attention, q_.Doubles(), k_.Doubles(), v_.Doubles(), d_out_.Doubles(), d_rows);
    }
    return *expected_;
  }

  // By how much the weights of the keys that the engine names are below the largest ones. Rounding may decide between two.
  double LargestKeyError(const Result& expected, const Units<A>& units) const {
    const size_t longest = expected.lse.empty() ? 0 : expected.weights.size() / expected.lse.size();
    double worst = 0;
    for (size_t row = 0; row < expected.lse.size(); ++row) {
      const int64_t key = largest_key_.memory[row];
      if (key < -1 || key >= static_cast<int64_t>(longest)) return NAN;
      const double weight = key < 0 ? expected.valueless[row] : expected.weights[row * longest + static_cast<size_t>(key)];
      worst = Worse(worst, units.Error(weight, expected.max_weight[row], 1));
    }
    return worst;
  }

  // What is expected stays what it is without.
  void Spoil(std::mt19937_64& random) {
    Expected();
    const auto rows = [](const Input<T>& input) { return input.view.extent[0] * input.view.extent[1] * input.view.extent[2]; };
    const Formulas f(setup_.attention, q_.Doubles(), k_.Doubles(), v_.Doubles());
    const Sight sight(f, rows(q_), rows(k_));
    SpoilBias(f);
    SpoilRows(q_, random, [&](int64_t row) { return !sight.Sees(row); });
    SpoilRows(d_out_, random, [&](int64_t row) { return !sight.Looks(row); });
    SpoilRows(k_, random, [&](int64_t row) { return !sight.KeySeen(row); });
    SpoilRows(v_, random, [&](int64_t row) { return !sight.ValueSeen(row); });
    for (std::vector<A>* numbers : {&d_lse_, &d_statistics_[0], &d_statistics_[1], &d_statistics_[2]})
      for (int64_t row = 0; !numbers->empty() && row < rows(q_); ++row)
        if (!sight.Looks(row)) (*numbers)[static_cast<size_t>(row)] = Spreading<A>(random);
  }

  // Of all heads and rows.
  void RunWeights(const View<A, 3>& lse, Workspace& workspace, Executor& executor) {
    std::vector<int64_t> heads(static_cast<size_t>(lse.extent[1]) + 1), rows(static_cast<size_t>(lse.extent[2]) + 1);
    std::iota(heads.begin(), heads.end(), int64_t{0});
    std::iota(rows.begin(), rows.end(), int64_t{0});
    Weights<T>(setup_.attention, q_.view, k_.view, lse, View<const int64_t, 1>::Contiguous(heads.data(), {lse.extent[1]}),
               View<const int64_t, 1>::Contiguous(rows.data(), {lse.extent[2]}),
               weights_.Make(std::array{lse.extent[0], lse.extent[1], lse.extent[2], k_.view.extent[2]}), workspace, executor);
  }

  const Case& case_;
  Setup<A> setup_;
  Input<T> q_, k_, v_, d_out_;
  std::vector<A> d_lse_;
  std::array<std::vector<A>, 3> d_statistics_;  // of entropy, largest weight and mean distance
  Output<T> out_, d_q_, d_k_, d_v_;
  std::vector<BFloat16> remainder_;  // laid out as out
  Numbers<A> lse_, correction_, entropy_, max_weight_, mean_distance_, weights_;
  Numbers<int64_t> largest_key_;
  TableGradients<A> d_tables_;
  std::optional<Result> expected_;
  std::string first_;     // what the first call has written
  bool repeats_ = false;  // and the second one again
};

}  // namespace

double TrialErrors::Largest() const {
  double worst = 0;
  for (const auto& [name, error] : of) worst = Worse(worst, error);
  return worst;
}

std::string TrialErrors::Text() const {
  std::ostringstream text;
  for (const auto& [name, error] : of) text << name << " " << error << ", ";
  text << "in units";
  return text.str();
}

template <class T>
TrialErrors RunTrial(const Case& c, uint64_t seed, Executor& executor) {
  std::mt19937_64 random(seed);
  Trial<T> trial(c, seed, random);
  trial.Run(executor);
  return trial.Errors();
}

template <class T>
uint64_t HashTrial(const Case& c, uint64_t seed, Executor& executor) {
  std::mt19937_64 random(seed);
  Trial<T> trial(c, seed, random);
  trial.Run(executor);
  return trial.Hash();
}

template <class T>
std::vector<TrialErrors> RunTrials(const Case& c, uint64_t seed, Executor& executor, const std::vector<std::string>& targets) {
  std::mt19937_64 random(seed);
  Trial<T> trial(c, seed, random);
  std::vector<TrialErrors> errors;
  for (const std::string& target : targets) {
    UseTarget(target);
    trial.Run(executor);
    errors.push_back(trial.Errors());
  }
  return errors;
}

#define HEED_TRIALS_IN(T)                                             \
  template TrialErrors RunTrial<T>(const Case&, uint64_t, Executor&); \
  template uint64_t HashTrial<T>(const Case&, uint64_t, Executor&);   \
  template std::vector<TrialErrors> RunTrials<T>(const Case&, uint64_t, Executor&, const std::vector<std::string>&);
HEED_TRIALS_IN(float)
HEED_TRIALS_IN(double)
HEED_TRIALS_IN(BFloat16)
HEED_TRIALS_IN(Float16)
#undef HEED_TRIALS_IN

}  // namespace heed::reference
