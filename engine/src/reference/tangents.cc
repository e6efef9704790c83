// Forward mode and the tangent of the backward pass, see reference/reference.h.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/formulas.h"
#include "reference/reference.h"
#include "reference/schemes.h"

namespace heed::reference {
namespace {

// The tangents of a pair's score at its stages: of the product under its scale, of the sum of all terms, of what is made of it.
struct StageTangents {
  Sum product, terms, score;
};

double Tanh(const Formulas& f, const Pair& pair) { return std::tanh(f.Product(pair) / *f.attention().softcap); }

GradientTerm PassBack(const Formulas& f, const Pair& pair, const Sum& before, GradientTerm term, const GradientSums& sums) {
  ForEachScheme([&]<class Scheme>() { term = Scheme::PassBack(f, pair, before, term, sums); });
  return term;
}

// Where gradients of the tables of programs go that nobody asks for.
class TableScratch {
 public:
  explicit TableScratch(const Formulas& f) : d_(Zeros(f, 0, 0)), mass_(d_), lost_(d_), sums_(d_, mass_, lost_) {}
  TableScratch(const TableScratch&) = delete;
  TableScratch& operator=(const TableScratch&) = delete;
  const GradientSums& sums() const { return sums_; }

  // The tangent of a pair's new score that the tangents of these tables make.
  double Tangent(const Formulas& f, const Pair& pair, const Sum& before, BiasGradients<double> tangents) {
    const auto present = [](const View<double, 4>& tangent) { return tangent.present(); };
    if (std::ranges::none_of(tangents.score_tables, present)) return 0;
    for (Gradients::Table& table : d_.tables) std::ranges::fill(table.values, 0.0);
    PassBack(f, pair, before, {1, 1}, sums_);
    double sum = 0;
    auto own = d_.tables.begin();
    ForEachScheme([&]<class Scheme>() {
      Scheme::ForEachTable(f.attention(), tangents, [&](const char*, const auto&, const auto& tangent) {
        const std::vector<double>& values = (own++)->values;
        for (std::size_t x = 0; tangent.present() && x < values.size(); ++x) sum += values[x] * tangent.data[x];
      });
    });
    return sum;
  }

 private:
  Gradients d_, mass_, lost_;
  GradientSums sums_;
};

StageTangents TangentsOf(const Formulas& f, const Pair& pair, const Tangents<double>& tangents, TableScratch& scratch) {
  StageTangents of;
  const Formulas::Row query = f.Query(pair.b, pair.h, pair.i), key = f.Key(pair.b, pair.h, pair.j);
  for (int64_t c = 0; c < f.head_dim(); ++c) {
    if (tangents.q.present()) of.product += f.Scale() * f.Gradient(tangents.q, pair.b, pair.h, pair.i)(c) * key(c);
    if (tangents.k.present()) of.product += f.Scale() * query(c) * f.RowOfKeys(tangents.k, pair.b, pair.h, pair.j)(c);
  }
  of.terms = of.product;
  if (f.attention().softcap) of.terms.value *= 1 - std::pow(Tanh(f, pair), 2);
  double added = 0;
  ForEachScheme([&]<class Scheme>() { Scheme::AddToTangent(f, pair, tangents.biases, added); });
  of.terms += added;
  const Sum before = f.SumOfTerms(pair);
  const GradientTerm score = PassBack(f, pair, before, {of.terms.value, of.terms.magnitude}, scratch.sums());
  of.score = {score.value, std::abs(score.noise)};
  of.score += scratch.Tangent(f, pair, before, tangents.biases);
  return of;
}

void RowTangent(const Formulas& f, const Pair& row, const Tangents<double>& tangents, const Result& forward,
                TableScratch& scratch, TangentResult& result) {
  const int64_t at = f.QueryRow(row.b, row.h, row.i), width = f.value_dim();
  const bool uniform = f.Uniform(row.b, row.h, row.i);
  std::vector<Sum> sums(static_cast<size_t>(width));
  Sum of_lse;
  for (int64_t j = 0; j < f.KeyCount(row.b); ++j) {
    const Pair pair{row.b, row.h, row.i, j};
    const auto x = static_cast<size_t>(at * f.LongestKeys() + j);
    const double weight = forward.weights[x];
    if (weight == 0) continue;
    const Sum score = uniform ? Sum{} : TangentsOf(f, pair, tangents, scratch).score;
    of_lse.value += weight * score.value;
    of_lse.magnitude += weight * score.magnitude;
    const double kept = weight * forward.kept[x] * f.KeptScale();
    for (int64_t c = 0; c < width; ++c) {
      Sum& sum = sums[static_cast<size_t>(c)];
      const double value = f.Value(pair.b, pair.h, j)(c);
      sum.value += kept * score.value * value;
      sum.magnitude += kept * score.magnitude * std::abs(value);
      if (tangents.v.present()) sum += kept * f.RowOfKeys(tangents.v, pair.b, pair.h, j)(c);
    }
  }
  if (const double weight = forward.valueless[static_cast<size_t>(at)]; weight > 0) {
    double tangent = 0;
    ForEachScheme([&]<class Scheme>() { tangent += Scheme::KeyTangent(f, row.b, row.h, row.i, tangents.biases); });
    of_lse += weight * tangent;
  }
  result.lse[static_cast<size_t>(at)] = of_lse.value;
  result.lse_mass[static_cast<size_t>(at)] = of_lse.magnitude;
  for (int64_t c = 0; c < width; ++c) {
    const auto x = static_cast<size_t>(at * width + c);
    const Sum& sum = sums[static_cast<size_t>(c)];
    result.out[x] = sum.value - of_lse.value * forward.out[x];
    result.out_mass[x] = sum.magnitude + of_lse.magnitude * forward.out_mass[x];
  }
}

// The second derivative of what schemes make of a score, by differences in ever smaller steps: their programs may have kinks.
double SecondDerivative(const Formulas& f, const Pair& pair, const Sum& before, const GradientSums& scratch) {
  if (!f.attention().score) return 0;
  const auto slope = [&](double step) {
    return PassBack(f, pair, {before.value + step, before.magnitude}, {1, 1}, scratch).value;
  };
  const auto difference = [&](double step) { return (slope(step) - slope(-step)) / (2 * step); };
  double step = 1e-3;
  for (int finer = 0; finer < 7; ++finer, step /= 8) {
    const double coarse = difference(step), fine = difference(step / 2);
    if (std::abs(coarse - fine) < 1e-3 * std::max(1.0, std::abs(fine))) return (4 * fine - coarse) / 3;
  }
  return 0;
}

// What a call is about.
struct Call {
  const Formulas& f;
  const Tangents<double>& tangents;
  const BackwardTangents& d;
  const Result& forward;
  const TangentResult& tangent;
};

// Rows of a call as sums, with what their rounding is measured by: delta minus the gradient of the log-sum-exp, and its
// tangent.
struct RowSums {
  Sum delta, t_delta;
};
RowSums SumsOf(const Call& call, const Pair& row) {
  const Formulas& f = call.f;
  const int64_t at = f.QueryRow(row.b, row.h, row.i);
  RowSums sums;
  const auto number = [&](const std::vector<double>& rows) { return rows.empty() ? 0.0 : rows[static_cast<std::size_t>(at)]; };
  sums.delta += -number(call.d.lse);
  sums.t_delta += -number(call.d.t_lse);
  const auto add = [](Sum& sum, double factor, double value, double mass) {
    sum.value += factor * value;
    sum.magnitude += std::abs(factor) * std::max(std::abs(value), mass);
  };
  for (int64_t c = 0; c < f.value_dim(); ++c) {
    const auto x = static_cast<std::size_t>(at * f.value_dim() + c);
    const double d_out = f.Gradient(call.d.out, row.b, row.h, row.i)(c);
    add(sums.delta, d_out, call.forward.out[x], call.forward.out_mass[x]);
    add(sums.t_delta, d_out, call.tangent.out[x], call.tangent.out_mass[x]);
    if (call.d.t_out.present())
      add(sums.t_delta, f.Gradient(call.d.t_out, row.b, row.h, row.i)(c), call.forward.out[x], call.forward.out_mass[x]);
  }
  return sums;
}

// The gradients of a pair's score and their tangents, handed on to queries, keys and tables.
void PassOn(const Call& call, const Pair& pair, const StageTangents& of, GradientTerm score, GradientTerm t_score,
            const GradientSums& sums, const GradientSums& scratch) {
  const Formulas& f = call.f;
  const Sum before = f.SumOfTerms(pair);
  t_score = PassBack(f, pair, before, t_score, scratch);
  const double bend = SecondDerivative(f, pair, before, scratch) * of.terms.value;
  t_score.value += bend * score.value;
  t_score.noise += std::abs(bend) * score.noise;
  score = PassBack(f, pair, before, score, scratch);
  ForEachScheme([&]<class Scheme>() { Scheme::AddScoreGradients(f, pair, t_score, sums); });
  if (f.attention().softcap) {
    const double tanh = Tanh(f, pair), slope = 1 - tanh * tanh;
    const double second = -2 * tanh * slope / *f.attention().softcap * of.product.value;
    t_score.value = t_score.value * slope + score.value * second;
    t_score.noise += score.noise * std::abs(second);
    score.value *= slope;
  }
  const GradientTerm product = score.Times(f.Scale()), t_product = t_score.Times(f.Scale());
  const int64_t width = f.head_dim();
  const int64_t query = f.QueryRow(pair.b, pair.h, pair.i) * width, key = f.KeyRow(pair.b, pair.h, pair.j) * width;
  const ArraySums d_q = sums.q(), d_k = sums.k();
  for (int64_t c = 0; c < width; ++c) {
    d_q.Add(query + c, t_product.Times(f.Key(pair.b, pair.h, pair.j)(c)));
    d_k.Add(key + c, t_product.Times(f.Query(pair.b, pair.h, pair.i)(c)));
    if (call.tangents.k.present()) d_q.Add(query + c, product.Times(f.RowOfKeys(call.tangents.k, pair.b, pair.h, pair.j)(c)));
    if (call.tangents.q.present()) d_k.Add(key + c, product.Times(f.Gradient(call.tangents.q, pair.b, pair.h, pair.i)(c)));
  }
}

void RowTangents(const Call& call, const Pair& row, const GradientSums& sums, TableScratch& scratch) {
  const Formulas& f = call.f;
  const int64_t at = f.QueryRow(row.b, row.h, row.i);
  const bool uniform = f.Uniform(row.b, row.h, row.i);
  const RowSums of_row = SumsOf(call, row);
  const double c = call.tangent.lse[static_cast<std::size_t>(at)], c_mass = call.tangent.lse_mass[static_cast<std::size_t>(at)];
  const ArraySums d_v = sums.v();
  for (int64_t j = 0; j < f.KeyCount(row.b); ++j) {
    const Pair pair{row.b, row.h, row.i, j};
    const auto x = static_cast<std::size_t>(at * f.LongestKeys() + j);
    const double weight = call.forward.weights[x];
    if (weight == 0) continue;
    const double share = call.forward.kept[x] * f.KeptScale();
    const StageTangents of = uniform ? StageTangents{} : TangentsOf(f, pair, call.tangents, scratch);
    const GradientTerm t_weight{weight * (of.score.value - c), weight * (of.score.magnitude + c_mass)};
    Sum d_weight, t_d_weight;
    for (int64_t e = 0; e < f.value_dim(); ++e) {
      const double d_out = f.Gradient(call.d.out, row.b, row.h, row.i)(e), value = f.Value(row.b, row.h, j)(e);
      const int64_t to = f.KeyRow(row.b, row.h, j) * f.value_dim() + e;
      d_weight += share * d_out * value;
      d_v.Add(to, t_weight.Times(share * d_out));
      if (call.tangents.v.present()) t_d_weight += share * d_out * f.RowOfKeys(call.tangents.v, row.b, row.h, j)(e);
      if (!call.d.t_out.present()) continue;
      const double t_d_out = f.Gradient(call.d.t_out, row.b, row.h, row.i)(e);
      t_d_weight += share * t_d_out * value;
      d_v.Add(to, GradientTerm{weight, weight}.Times(share * t_d_out));
    }
    if (uniform) continue;
    const double gradient = d_weight.value - of_row.delta.value, t_gradient = t_d_weight.value - of_row.t_delta.value;
    const double noise = d_weight.magnitude + of_row.delta.magnitude, t_noise = t_d_weight.magnitude + of_row.t_delta.magnitude;
    PassOn(call, pair, of, {weight * gradient, weight * noise},
           {t_weight.value * gradient + weight * t_gradient, t_weight.noise * noise + weight * t_noise}, sums, scratch.sums());
  }
}

}  // namespace

TangentResult ComputeTangent(const Attention& attention, View<const double, 4> q, View<const double, 4> k,
                             View<const double, 4> v, const Tangents<double>& tangents) {
  const Formulas f(attention, q, k, v);
  const Result forward = Compute(attention, q, k, v);
  TangentResult result;
  result.out = result.out_mass = std::vector<double>(forward.out.size(), 0.0);
  result.lse = result.lse_mass = std::vector<double>(forward.lse.size(), 0.0);
  TableScratch scratch(f);
  for (int64_t b = 0; b < f.batch(); ++b)
    for (int64_t h = 0; h < f.heads(); ++h)
      for (int64_t i = 0; i < f.QueryCount(b); ++i) RowTangent(f, {b, h, i, 0}, tangents, forward, scratch, result);
  return result;
}

BackwardTangentResult ComputeBackwardTangent(const Attention& attention, View<const double, 4> q, View<const double, 4> k,
                                             View<const double, 4> v, const Tangents<double>& tangents,
                                             const BackwardTangents& d) {
  const Formulas f(attention, q, k, v);
  const Result forward = Compute(attention, q, k, v, d.out);
  const TangentResult tangent = ComputeTangent(attention, q, k, v, tangents);
  Gradients lost = Zeros(f, q.extent[0] * q.extent[1] * q.extent[2], k.extent[0] * k.extent[1] * k.extent[2]);
  BackwardTangentResult result{lost, lost};
  const GradientSums sums(result.d, result.mass, lost);
  TableScratch scratch(f);
  const Call call{f, tangents, d, forward, tangent};
  for (int64_t b = 0; b < f.batch(); ++b)
    for (int64_t h = 0; h < f.heads(); ++h)
      for (int64_t i = 0; i < f.QueryCount(b); ++i) RowTangents(call, {b, h, i, 0}, sums, scratch);
  return result;
}

}  // namespace heed::reference
