#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/formulas.h"

namespace heed::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// weights[0..Nk) of one row; returns the log-sum-exp and raises largest_score.
double Softmax(const Formulas& f, int64_t b, int64_t h, int64_t i, double* weights, double& largest_score) {
  const int64_t kv_len = f.KeyCount(b);
  std::fill_n(weights, kv_len, 0.0);
  if (f.Padded(b, i)) return -kInfinity;
  if (f.Uniform(b, h, i)) {
    std::fill_n(weights, kv_len, 1.0 / static_cast<double>(kv_len));
    return kv_len > 0 ? std::log(static_cast<double>(kv_len)) : -kInfinity;
  }
  double largest = -kInfinity;
  for (int64_t j = 0; j < kv_len; ++j) {
    if (!f.Visible(b, h, i, j)) continue;
    double magnitude = 0;
    largest = std::max(largest, weights[j] = f.Score(b, h, i, j, magnitude));
    largest_score = std::max(largest_score, magnitude);
  }
  double sum = 0;
  for (int64_t j = 0; j < kv_len; ++j)
    if (f.Visible(b, h, i, j)) sum += weights[j] = std::exp(weights[j] - largest);
  for (int64_t j = 0; j < kv_len; ++j) weights[j] = sum > 0 ? weights[j] / sum : 0.0;
  return sum > 0 ? largest + std::log(sum) : -kInfinity;
}

// The row of a content bias for a pair; 0 without.
int64_t ContentRow(const Formulas& f, int64_t b, int64_t i, int64_t j) {
  return f.attention().content_bias ? f.Clipped(f.ContentRows(), b, i, j) : 0;
}

void RowForward(const Formulas& f, int64_t b, int64_t h, int64_t i, Result& result) {
  const int64_t longest = f.LongestKeys(), value_dim = f.value_dim(), row = f.QueryRow(b, h, i);
  const auto at = static_cast<size_t>(row);
  double* weights = result.weights.data() + row * longest;
  double* kept = result.kept.data() + row * longest;
  result.lse[at] = Softmax(f, b, h, i, weights, result.largest_score);
  for (int64_t j = 0; j < f.KeyCount(b); ++j) {
    kept[j] = f.Kept(b, h, i, j) ? 1.0 : 0.0;
    if (weights[j] == 0) continue;
    result.entropy[at] -= weights[j] * std::log(weights[j]);
    result.max_weight[at] = std::max(result.max_weight[at], weights[j]);
    result.mean_distance[at] += weights[j] * std::abs(f.Offset(b, i, j));
    const int64_t content_row = ContentRow(f, b, i, j);
    const double share = kept[j] * f.KeptScale();
    const Formulas::Row value = f.Value(b, h, j);
    for (int64_t c = 0; c < value_dim; ++c) {
      const auto x = static_cast<size_t>(row * value_dim + c);
      const double of_content = f.ContentValue(content_row, c);
      result.out[x] += weights[j] * share * (value(c) + of_content);
      result.out_mass[x] += weights[j] * (std::abs(value(c)) + std::abs(of_content));
    }
  }
}

struct PairGradient {
  double d_score;
  double noise;  // what its rounding is measured by

  PairGradient Times(double factor) const { return {d_score * factor, std::abs(noise * factor)}; }
};

// One array of gradients and its mass.
class Sums {
 public:
  Sums(Result& result, std::vector<double> Gradients::*array)
      : d_((result.d.*array).data()), mass_((result.mass.*array).data()) {}

  void Add(int64_t at, const PairGradient& term) const {
    d_[at] += term.d_score;
    mass_[at] += term.noise;
  }

 private:
  double *d_, *mass_;
};

// Gradients of the biases from that of the whole score.
void AddBiasGradients(const Formulas& f, int64_t b, int64_t h, int64_t i, int64_t j, const PairGradient& pair, Result& result) {
  const Attention& attention = f.attention();
  if (attention.bias)
    std::visit(
        [&](const auto& bias) {
          const auto fit = [&](int r, int64_t index) { return bias.extent[r] == 1 ? 0 : index; };
          const int64_t at =
              ((fit(0, b) * bias.extent[1] + fit(1, h)) * bias.extent[2] + fit(2, i)) * bias.extent[3] + fit(3, j);
          Sums(result, &Gradients::bias).Add(at, pair);
        },
        attention.bias->values);
  if (attention.relative_bias) {
    const int64_t columns = static_cast<int64_t>(result.d.relative_bias.size()) / f.heads();
    Sums(result, &Gradients::relative_bias).Add(h * columns + f.Clipped(columns, b, i, j), pair);
  }
  if (attention.slope_bias) Sums(result, &Gradients::slopes).Add(h, pair.Times(f.DistanceTerm(b, i, j)));
}

// One pair's gradients, from that of its score.
void PairBackward(const Formulas& f, int64_t b, int64_t h, int64_t i, int64_t j, PairGradient pair, Result& result) {
  AddBiasGradients(f, b, h, i, j, pair, result);
  if (f.attention().softcap) {
    const double tanh = std::tanh(f.Product(b, h, i, j) / *f.attention().softcap);
    pair.d_score *= 1 - tanh * tanh;
  }
  const auto& content = f.attention().content_bias;
  const int64_t row = ContentRow(f, b, i, j), head_dim = f.head_dim();
  const int64_t query_row = f.QueryRow(b, h, i) * head_dim, key_row = f.KeyRow(b, h, j) * head_dim;
  const Formulas::Row query = f.Query(b, h, i), key = f.Key(b, h, j);
  const PairGradient product = pair.Times(f.Scale());
  const Sums d_q(result, &Gradients::q), d_k(result, &Gradients::k);
  const Sums d_keys(result, &Gradients::content_keys), d_queries(result, &Gradients::content_queries);
  for (int64_t c = 0; c < head_dim; ++c) {
    d_q.Add(query_row + c, product.Times(key(c) + f.ContentKey(row, c)));
    d_k.Add(key_row + c, product.Times(query(c) + f.ContentQuery(row, c)));
    if (content && content->keys) d_keys.Add(row * head_dim + c, product.Times(query(c)));
    if (content && content->queries) d_queries.Add(row * head_dim + c, product.Times(key(c)));
  }
}

void RowBackward(const Formulas& f, int64_t b, int64_t h, int64_t i, const View<const double, 4>& d_out, double d_lse,
                 Result& result) {
  const int64_t longest = f.LongestKeys(), value_dim = f.value_dim(), row = f.QueryRow(b, h, i);
  const double* weights = result.weights.data() + row * longest;
  const double* kept = result.kept.data() + row * longest;
  const bool uniform = f.Uniform(b, h, i), content = f.attention().content_bias && f.attention().content_bias->values;
  const Sums d_v(result, &Gradients::v), d_values(result, &Gradients::content_values);
  const Formulas::Row of_out = f.Gradient(d_out, b, h, i);
  double delta = 0;
  for (int64_t c = 0; c < value_dim; ++c) delta += of_out(c) * result.out[static_cast<size_t>(row * value_dim + c)];
  for (int64_t j = 0; j < f.KeyCount(b); ++j) {
    if (weights[j] == 0) continue;
    const double share = kept[j] * f.KeptScale();
    const int64_t content_row = ContentRow(f, b, i, j), value_row = f.KeyRow(b, h, j) * value_dim;
    const Formulas::Row value = f.Value(b, h, j);
    double d_weight = 0;
    for (int64_t c = 0; c < value_dim; ++c) {
      const double of_value = weights[j] * share * of_out(c);
      d_weight += share * of_out(c) * (value(c) + f.ContentValue(content_row, c));
      d_v.Add(value_row + c, {of_value, std::abs(of_value)});
      if (content) d_values.Add(content_row * value_dim + c, {of_value, std::abs(of_value)});
    }
    const double noise = weights[j] * (std::abs(d_weight) + std::abs(delta) + std::abs(d_lse));
    if (!uniform) PairBackward(f, b, h, i, j, {weights[j] * (d_weight - delta + d_lse), noise}, result);
  }
}

Gradients Zeros(const Attention& attention, const Formulas& f, int64_t rows, int64_t kv_rows) {
  const auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0.0); };
  const auto like = [&](const auto& table) { return zeros(std::visit([](const auto& t) { return t.size(); }, table)); };
  Gradients d;
  d.q = zeros(rows * f.head_dim());
  d.k = zeros(kv_rows * f.head_dim());
  d.v = zeros(kv_rows * f.value_dim());
  if (attention.bias) d.bias = like(attention.bias->values);
  if (attention.relative_bias) d.relative_bias = like(attention.relative_bias->table);
  if (attention.slope_bias) d.slopes = like(attention.slope_bias->slopes);
  if (!attention.content_bias) return d;
  const ContentBias& content = *attention.content_bias;
  if (content.keys) d.content_keys = like(*content.keys);
  if (content.values) d.content_values = like(*content.values);
  if (content.queries) d.content_queries = like(*content.queries);
  return d;
}

void MakeRoom(const Formulas& f, int64_t rows, Result& result) {
  const auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0.0); };
  result.out = result.out_mass = zeros(rows * f.value_dim());
  result.lse = result.entropy = result.max_weight = result.mean_distance = zeros(rows);
  result.weights = result.kept = zeros(rows * f.LongestKeys());
}

}  // namespace

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
               View<const double, 4> d_out, const std::vector<double>& d_lse) {
  const Formulas f(attention, q, k, v);
  Result result;
  const int64_t rows = q.extent[0] * q.extent[1] * q.extent[2], kv_rows = k.extent[0] * k.extent[1] * k.extent[2];
  MakeRoom(f, rows, result);
  if (d_out.present()) result.d = result.mass = Zeros(attention, f, rows, kv_rows);
  for (int64_t b = 0; b < f.batch(); ++b)
    for (int64_t h = 0; h < f.heads(); ++h)
      for (int64_t i = 0; i < f.QueryCount(b); ++i) {
        RowForward(f, b, h, i, result);
        const double of_lse = d_lse.empty() ? 0.0 : d_lse[static_cast<size_t>(f.QueryRow(b, h, i))];
        if (d_out.present()) RowBackward(f, b, h, i, d_out, of_lse, result);
      }
  return result;
}

}  // namespace heed::reference
