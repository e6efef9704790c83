#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reference/formulas.h"
#include "reference/schemes.h"

namespace heed::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

SeenKeys KeysSeenBy(const Formulas& f, int64_t b, int64_t h, int64_t i) {
  SeenKeys seen{b, h, i, {}};
  for (int64_t j = 0; j < f.KeyCount(b); ++j)
    if (f.Visible({b, h, i, j})) seen.keys.push_back(j);
  return seen;
}

// Their scores, before schemes make others of the whole row.
std::vector<Sum> ScoresOf(const Formulas& f, const SeenKeys& seen) {
  std::vector<Sum> scores;
  scores.reserve(seen.keys.size());
  for (int64_t j : seen.keys) scores.push_back(f.Score({seen.b, seen.h, seen.i, j}));
  return scores;
}

// weights[0..Nk) of one row, and that of a key without a value; returns the log-sum-exp and raises largest_score.
double Softmax(const Formulas& f, int64_t b, int64_t h, int64_t i, double* weights, double& valueless, double& largest_score) {
  const int64_t kv_len = f.KeyCount(b);
  std::fill_n(weights, kv_len, 0.0);
  if (f.Padded(b, i)) return -kInfinity;
  if (f.Uniform(b, h, i)) {
    std::fill_n(weights, kv_len, 1.0 / static_cast<double>(kv_len));
    return kv_len > 0 ? std::log(static_cast<double>(kv_len)) : -kInfinity;
  }
  const SeenKeys seen = KeysSeenBy(f, b, h, i);
  std::vector<Sum> scores = ScoresOf(f, seen);
  ForEachScheme([&]<class Scheme>() { Scheme::MakeRow(f, seen, scores); });
  double largest = -kInfinity, sum = 0;
  for (const Sum& score : scores) {
    largest = std::max(largest, score.value);
    largest_score = std::max(largest_score, score.magnitude);
  }
  if (const std::optional<double> score = f.KeyScore(b, h, i); score && largest > -kInfinity) {
    largest = std::max(largest, *score);
    largest_score = std::max(largest_score, std::abs(*score));
    sum += valueless = std::exp(*score - largest);
  }
  for (size_t x = 0; x < scores.size(); ++x) sum += weights[seen.keys[x]] = std::exp(scores[x].value - largest);
  for (int64_t j = 0; j < kv_len; ++j) weights[j] = sum > 0 ? weights[j] / sum : 0.0;
  if (sum > 0) valueless /= sum;
  return sum > 0 ? largest + std::log(sum) : -kInfinity;
}

// What a key gives to a query: its value and what schemes add to it.
void FindValue(const Formulas& f, const Pair& pair, std::vector<Sum>& value) {
  const Formulas::Row row = f.Value(pair.b, pair.h, pair.j);
  for (int64_t c = 0; c < f.value_dim(); ++c) value[static_cast<size_t>(c)] = {row(c), std::abs(row(c))};
  ForEachScheme([&]<class Scheme>() { Scheme::AddToValue(f, pair, value); });
}

void RowForward(const Formulas& f, int64_t b, int64_t h, int64_t i, Result& result) {
  const int64_t longest = f.LongestKeys(), row = f.QueryRow(b, h, i);
  const auto at = static_cast<size_t>(row);
  double* weights = result.weights.data() + row * longest;
  double* kept = result.kept.data() + row * longest;
  result.lse[at] = Softmax(f, b, h, i, weights, result.valueless[at], result.largest_score);
  std::vector<Sum> value(static_cast<size_t>(f.value_dim()));
  // Beside a key without a value the weights of all others may be so small that they count as 0 (2^-100 of the largest).
  const double least = result.valueless[at] * 0x1p-50;
  for (int64_t j = 0; j < f.KeyCount(b); ++j) {
    const Pair pair{b, h, i, j};
    kept[j] = f.Kept(pair) ? 1.0 : 0.0;
    if (weights[j] == 0) continue;
    result.entropy[at] -= weights[j] * std::log(weights[j]);
    if (weights[j] > result.max_weight[at]) result.max_weight[at] = weights[j], result.largest_key[at] = j;
    result.mean_distance[at] += weights[j] * std::abs(f.Offset(pair));
    const double share = kept[j] * f.KeptScale();
    FindValue(f, pair, value);
    for (size_t c = 0; c < value.size(); ++c) {
      const size_t x = at * value.size() + c;
      result.out[x] += weights[j] * share * value[c].value;
      result.out_mass[x] += (weights[j] + least) * value[c].magnitude;
    }
  }
  const double valueless = result.valueless[at];
  if (valueless > 0) result.entropy[at] -= valueless * std::log(valueless);
  if (valueless > result.max_weight[at]) result.max_weight[at] = valueless, result.largest_key[at] = -1;
}

// What the numbers of a row, output aside, give to the gradients of its weights.
class RowTerms {
 public:
  RowTerms(const Result& result, const RowGradients& d, size_t row) : d_lse_(At(d.lse, row)), of_(result), row_(row) {
    d_entropy_ = At(d.entropy, row);
    d_max_weight_ = At(d.max_weight, row);
    d_mean_distance_ = At(d.mean_distance, row);
    largest_key_ = d.largest_key.empty() ? result.largest_key[row] : d.largest_key[row];
  }

  // To that of key j with a weight, of one without a value where j is -1, and to all alike.
  Sum Of(int64_t j, double weight, double distance) const {
    Sum sum;
    sum += -d_entropy_ * std::log(weight);
    sum += d_mean_distance_ * distance;
    if (j == largest_key_) sum += d_max_weight_;
    return sum;
  }
  Sum OfAll() const {
    Sum sum;
    sum += d_lse_;
    sum += -d_entropy_ * of_.entropy[row_];
    sum += -d_max_weight_ * of_.max_weight[row_];
    sum += -d_mean_distance_ * of_.mean_distance[row_];
    return sum;
  }

 private:
  static double At(const std::vector<double>& rows, size_t row) { return rows.empty() ? 0.0 : rows[row]; }

  double d_lse_, d_entropy_, d_max_weight_, d_mean_distance_;
  int64_t largest_key_;
  const Result& of_;
  size_t row_;
};

// The derivatives of a pair's product by its query and key.
void FindPartials(const Formulas& f, const Pair& pair, Partials& partials) {
  const Formulas::Row query = f.Query(pair.b, pair.h, pair.i), key = f.Key(pair.b, pair.h, pair.j);
  for (int64_t c = 0; c < f.head_dim(); ++c) {
    partials.by_query[static_cast<size_t>(c)] = key(c);
    partials.by_key[static_cast<size_t>(c)] = query(c);
  }
  ForEachScheme([&]<class Scheme>() { Scheme::AddToPartials(f, pair, partials); });
}

// One pair's gradients, from that of its score. partials: room for them.
void PairBackward(const Formulas& f, const Pair& pair, const GradientTerm& made, Partials& partials, const GradientSums& d) {
  GradientTerm score = made;
  const Sum before = f.SumOfTerms(pair);
  ForEachScheme([&]<class Scheme>() { score = Scheme::PassBack(f, pair, before, score, d); });
  ForEachScheme([&]<class Scheme>() { Scheme::AddScoreGradients(f, pair, score, d); });
  GradientTerm capped = score;
  if (f.attention().softcap) {
    const double tanh = std::tanh(f.Product(pair) / *f.attention().softcap);
    capped.value *= 1 - tanh * tanh;
  }
  const GradientTerm product = capped.Times(f.Scale());
  ForEachScheme([&]<class Scheme>() { Scheme::AddProductGradients(f, pair, product, d); });
  FindPartials(f, pair, partials);
  const int64_t head_dim = f.head_dim();
  const int64_t query_row = f.QueryRow(pair.b, pair.h, pair.i) * head_dim,
                key_row = f.KeyRow(pair.b, pair.h, pair.j) * head_dim;
  const ArraySums d_q = d.q(), d_k = d.k();
  for (int64_t c = 0; c < head_dim; ++c) {
    d_q.Add(query_row + c, product.Times(partials.by_query[static_cast<size_t>(c)]));
    d_k.Add(key_row + c, product.Times(partials.by_key[static_cast<size_t>(c)]));
  }
}

// The same of the keys that a query sees. made: those of its scores.
void PassBack(const Formulas& f, const SeenKeys& seen, std::vector<GradientTerm>& made, const GradientSums& d) {
  const std::vector<Sum> before = ScoresOf(f, seen);
  ForEachScheme([&]<class Scheme>() { Scheme::PassRowBack(f, seen, before, made, d); });
  const auto head_dim = static_cast<size_t>(f.head_dim());
  Partials partials{std::vector<double>(head_dim), std::vector<double>(head_dim)};
  for (size_t x = 0; x < made.size(); ++x)
    if (made[x].noise != 0) PairBackward(f, {seen.b, seen.h, seen.i, seen.keys[x]}, made[x], partials, d);
}

void RowBackward(const Formulas& f, int64_t b, int64_t h, int64_t i, const View<const double, 4>& d_out,
                 const RowGradients& d_rows, Result& result, const GradientSums& d) {
  const int64_t longest = f.LongestKeys(), row = f.QueryRow(b, h, i);
  const double* weights = result.weights.data() + row * longest;
  const double* kept = result.kept.data() + row * longest;
  const ArraySums d_v = d.v();
  const Formulas::Row of_out = f.Gradient(d_out, b, h, i);
  const auto value_dim = static_cast<size_t>(f.value_dim());
  std::vector<Sum> value(value_dim);
  std::vector<double> d_value(value_dim);
  std::vector<GradientTerm> made(static_cast<size_t>(f.KeyCount(b)), {0, 0});
  Sum delta;
  for (int64_t c = 0; c < f.value_dim(); ++c) delta += of_out(c) * result.out[static_cast<size_t>(row * f.value_dim() + c)];
  // A 16-bit output and its remainder hold 2^-18 of each element; the unit of 16-bit gradients is 2^-16 of the noise.
  const double delta_noise = std::max(std::abs(delta.value), delta.magnitude / 4);
  const RowTerms terms(result, d_rows, static_cast<size_t>(row));
  const Sum of_all = terms.OfAll();
  for (int64_t j = 0; j < f.KeyCount(b); ++j) {
    if (weights[j] == 0) continue;
    const Pair pair{b, h, i, j};
    const double share = kept[j] * f.KeptScale();
    const int64_t value_row = f.KeyRow(b, h, j) * f.value_dim();
    FindValue(f, pair, value);
    double d_weight = 0;
    for (int64_t c = 0; c < f.value_dim(); ++c) {
      const auto x = static_cast<size_t>(c);
      d_weight += share * of_out(c) * value[x].value;
      d_value[x] = weights[j] * share * of_out(c);
      d_v.Add(value_row + c, {d_value[x], std::abs(d_value[x])});
    }
    ForEachScheme([&]<class Scheme>() { Scheme::AddValueGradients(f, pair, d_value, d); });
    const Sum own = terms.Of(j, weights[j], std::abs(f.Offset(pair)));
    const double noise = weights[j] * (std::abs(d_weight) + delta_noise + own.magnitude + of_all.magnitude);
    made[static_cast<size_t>(j)] = {weights[j] * (d_weight - delta.value + own.value + of_all.value), noise};
  }
  if (const double weight = result.valueless[static_cast<size_t>(row)]; weight > 0) {
    const Sum own = terms.Of(-1, weight, 0);
    const GradientTerm score{weight * (own.value + of_all.value - delta.value),
                             weight * (delta_noise + own.magnitude + of_all.magnitude)};
    ForEachScheme([&]<class Scheme>() { Scheme::AddKeyGradient(f, b, h, i, score, d); });
  }
  if (f.Padded(b, i) || f.Uniform(b, h, i)) return;
  const SeenKeys seen = KeysSeenBy(f, b, h, i);
  std::vector<GradientTerm> of_seen;
  of_seen.reserve(seen.keys.size());
  for (int64_t j : seen.keys) of_seen.push_back(made[static_cast<size_t>(j)]);
  PassBack(f, seen, of_seen, d);
}

// Adds what rounding took from sums.
void GiveBack(const Gradients& lost, Gradients& d) {
  const auto add = [](const std::vector<double>& from, std::vector<double>& to) {
    for (size_t x = 0; x < to.size(); ++x) to[x] += from[x];
  };
  add(lost.q, d.q);
  add(lost.k, d.k);
  add(lost.v, d.v);
  for (size_t t = 0; t < d.tables.size(); ++t) add(lost.tables[t].values, d.tables[t].values);
}

void MakeRoom(const Formulas& f, int64_t rows, Result& result) {
  const auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0.0); };
  result.out = result.out_mass = zeros(rows * f.value_dim());
  result.lse = result.entropy = result.max_weight = result.mean_distance = result.valueless = zeros(rows);
  result.largest_key.assign(static_cast<size_t>(rows), -1);
  result.weights = result.kept = zeros(rows * f.LongestKeys());
}

}  // namespace

Gradients Zeros(const Formulas& f, int64_t rows, int64_t kv_rows) {
  const auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0.0); };
  Gradients d;
  d.q = zeros(rows * f.head_dim());
  d.k = zeros(kv_rows * f.head_dim());
  d.v = zeros(kv_rows * f.value_dim());
  BiasGradients<double> views;
  ForEachScheme([&]<class Scheme>() {
    Scheme::ForEachTable(f.attention(), views, [&](const char* name, const auto& table, auto&) {
      d.tables.push_back({name, zeros(std::visit([](const auto& view) { return view.size(); }, table))});
    });
  });
  return d;
}

uint32_t DropoutBits(uint64_t seed, uint64_t batch, uint64_t head, uint64_t query, uint64_t key) {
  const uint64_t block = key / 8, slot = key % 8;
  uint32_t x[4] = {static_cast<uint32_t>(query), static_cast<uint32_t>(block), static_cast<uint32_t>(batch),
                   static_cast<uint32_t>(head | (query >> 32) << 16 | (block >> 32) << 24)};
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x[0], product1 = uint64_t{0xCD9E8D57} * x[2];
    const uint32_t next[4] = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
                              static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    std::copy(next, next + 4, x);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  const uint32_t bits = slot % 2 == 0 ? x[slot / 2] & 0xFFFF : x[slot / 2] >> 16;
  return bits;
}

Result Compute(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
               View<const double, 4> d_out, const RowGradients& d_rows) {
  const Formulas f(attention, q, k, v);
  Result result;
  const int64_t rows = q.extent[0] * q.extent[1] * q.extent[2], kv_rows = k.extent[0] * k.extent[1] * k.extent[2];
  MakeRoom(f, rows, result);
  Gradients lost;
  if (d_out.present()) result.d = result.mass = lost = Zeros(f, rows, kv_rows);
  const GradientSums d(result.d, result.mass, lost);
  for (int64_t b = 0; b < f.batch(); ++b)
    for (int64_t h = 0; h < f.heads(); ++h)
      for (int64_t i = 0; i < f.QueryCount(b); ++i) {
        RowForward(f, b, h, i, result);
        if (d_out.present()) RowBackward(f, b, h, i, d_out, d_rows, result, d);
      }
  GiveBack(lost, result.d);
  return result;
}

}  // namespace heed::reference
