#include "reference/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <sstream>
#include <vector>

#include "reference/reference.h"
#include "reference/trial_arrays.h"
#include "reference/trial_setup.h"

namespace heed::reference {
namespace {

double Worse(double worst, double value) { return std::isnan(worst) || std::isnan(value) ? NAN : std::max(worst, value); }

// eps: that of the elements of the call; where those are narrow, all gradients inherit the rounding of the output.
double GradientError(const std::vector<double>& computed, const std::vector<double>& expected, const std::vector<double>& mass,
                     double eps, double dropout) {
  double largest = 1, error = 0;
  for (double m : mass) largest = std::max(largest, m);
  for (size_t i = 0; i < expected.size(); ++i) error = Worse(error, std::abs(computed[i] - expected[i]));
  return error * (1 - dropout) / (eps * largest);
}

double OutputError(const std::vector<double>& computed, const Result& expected, double eps, double dropout) {
  double worst = 0;
  for (size_t x = 0; x < expected.out.size(); ++x) {
    const double difference = std::abs(computed[x] - expected.out[x]);
    const double unit = eps * expected.out_mass[x] / (1 - dropout);
    worst = Worse(worst, difference == 0 ? 0 : difference / unit);
  }
  return worst;
}

// A: the type of accumulation.
template <class A>
double RowError(const std::vector<A>& computed, const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = Exact(computed[i]);
    if (std::isinf(expected[i]) || std::isinf(value)) {
      if (value != expected[i]) return NAN;
      continue;
    }
    worst = Worse(worst, std::abs(value - expected[i]) / (Epsilon<A>() * std::max(1.0, std::abs(expected[i]))));
  }
  return worst;
}

// The gradients of all tables that a call has.
template <class A>
struct TableGradients {
  Numbers<A> bias, relative_bias, slopes, content_keys, content_values, content_queries;
  BiasGradients<A> views;

  explicit TableGradients(const Attention& attention) {
    const auto like = [](Numbers<A>& gradient, auto& view, const auto& table) {
      view = std::visit([&](const auto& t) { return gradient.Make(t.extent); }, table);
    };
    if (attention.bias) like(bias, views.bias, attention.bias->values);
    if (attention.relative_bias) like(relative_bias, views.relative_bias, attention.relative_bias->table);
    if (attention.slope_bias) like(slopes, views.slopes, attention.slope_bias->slopes);
    if (!attention.content_bias) return;
    const ContentBias& content = *attention.content_bias;
    if (content.keys) like(content_keys, views.content_keys, *content.keys);
    if (content.values) like(content_values, views.content_values, *content.values);
    if (content.queries) like(content_queries, views.content_queries, *content.queries);
  }
};

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
    std::normal_distribution<double> normal;
    for (size_t x = 0; c.lse_gradient && x < size + 1; ++x) d_lse_.push_back(static_cast<A>(normal(random)));
  }

  void Run(Executor& executor) {
    const Attention& attention = setup_.attention;
    const std::array<int64_t, 3> rows{q_.view.extent[0], q_.view.extent[1], q_.view.extent[2]};
    Statistics<A> statistics;
    if (case_.statistics) statistics = {entropy_.Make(rows), max_weight_.Make(rows), mean_distance_.Make(rows)};
    View<const A, 3> d_lse;
    if (case_.lse_gradient) d_lse = View<const A, 3>::Contiguous(d_lse_.data(), rows);
    const View<A, 3> lse = lse_.Make(rows);
    Workspace workspace;
    Forward<T>(attention, q_.view, k_.view, v_.view, out_.view, lse, workspace, executor, statistics);
    if (case_.weights) RunWeights(lse, workspace, executor);
    Backward<T>(attention, q_.view, k_.view, v_.view, out_.view, lse, d_out_.view, d_q_.view, d_k_.view, d_v_.view,
                d_tables_.views, workspace, executor, d_lse);
  }

  TrialErrors Errors() const {
    const Result expected =
        Compute(setup_.attention, q_.Doubles(), k_.Doubles(), v_.Doubles(), d_out_.Doubles(), {d_lse_.begin(), d_lse_.end()});
    TrialErrors errors;
    errors.of = {{"out", OutputError(out_.Exact(), expected, Epsilon<T>(), case_.dropout)},
                 {"lse", RowError(lse_.memory, expected.lse)}};
    const auto add_rows = [&](const char* name, const Numbers<A>& computed, const std::vector<double>& rows) {
      errors.of.emplace_back(name, RowError(computed.memory, rows));
    };
    if (case_.statistics) {
      add_rows("entropy", entropy_, expected.entropy);
      add_rows("max_weight", max_weight_, expected.max_weight);
      add_rows("mean_distance", mean_distance_, expected.mean_distance);
    }
    if (case_.weights) add_rows("weights", weights_, expected.weights);
    AddGradients(expected, errors);
    // Scores are rounded at their own size, and everything inherits that.
    for (auto& [name, error] : errors.of) error /= std::max(1.0, expected.largest_score / kOrdinaryScore);
    return errors;
  }

 private:
  // Of all heads and rows.
  void RunWeights(const View<A, 3>& lse, Workspace& workspace, Executor& executor) {
    std::vector<int64_t> heads(static_cast<size_t>(lse.extent[1]) + 1), rows(static_cast<size_t>(lse.extent[2]) + 1);
    std::iota(heads.begin(), heads.end(), int64_t{0});
    std::iota(rows.begin(), rows.end(), int64_t{0});
    Weights<T>(setup_.attention, q_.view, k_.view, lse, View<const int64_t, 1>::Contiguous(heads.data(), {lse.extent[1]}),
               View<const int64_t, 1>::Contiguous(rows.data(), {lse.extent[2]}),
               weights_.Make(std::array{lse.extent[0], lse.extent[1], lse.extent[2], k_.view.extent[2]}), workspace, executor);
  }

  void AddGradients(const Result& expected, TrialErrors& errors) const {
    const Gradients &exact = expected.d, &mass = expected.mass;
    const auto add = [&](const char* name, const std::vector<double>& computed, const std::vector<double>& of,
                         const std::vector<double>& by) {
      errors.of.emplace_back(name, GradientError(computed, of, by, Epsilon<T>(), case_.dropout));
    };
    add("dQ", d_q_.Exact(), exact.q, mass.q);
    add("dK", d_k_.Exact(), exact.k, mass.k);
    add("dV", d_v_.Exact(), exact.v, mass.v);
    add("dBias", d_tables_.bias.Exact(), exact.bias, mass.bias);
    add("dRelativeBias", d_tables_.relative_bias.Exact(), exact.relative_bias, mass.relative_bias);
    add("dSlopes", d_tables_.slopes.Exact(), exact.slopes, mass.slopes);
    add("dContentKeys", d_tables_.content_keys.Exact(), exact.content_keys, mass.content_keys);
    add("dContentValues", d_tables_.content_values.Exact(), exact.content_values, mass.content_values);
    add("dContentQueries", d_tables_.content_queries.Exact(), exact.content_queries, mass.content_queries);
  }

  const Case& case_;
  Setup<A> setup_;
  Input<T> q_, k_, v_, d_out_;
  std::vector<A> d_lse_;
  Output<T> out_, d_q_, d_k_, d_v_;
  Numbers<A> lse_, entropy_, max_weight_, mean_distance_, weights_;
  TableGradients<A> d_tables_;
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
  text << "in eps";
  return text.str();
}

template <class T>
TrialErrors RunTrial(const Case& c, uint64_t seed, Executor& executor) {
  std::mt19937_64 random(seed);
  Trial<T> trial(c, seed, random);
  trial.Run(executor);
  return trial.Errors();
}

template TrialErrors RunTrial<float>(const Case&, uint64_t, Executor&);
template TrialErrors RunTrial<double>(const Case&, uint64_t, Executor&);
template TrialErrors RunTrial<BFloat16>(const Case&, uint64_t, Executor&);
template TrialErrors RunTrial<Float16>(const Case&, uint64_t, Executor&);

}  // namespace heed::reference
