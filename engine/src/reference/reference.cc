#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/formulas.h"

namespace heed::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// weights[0..Nk) of one row; returns the log-sum-exp.
double Softmax(const Formulas& f, int64_t b, int64_t h, int64_t i, double* weights) {
  const int64_t kv_len = f.KeyCount(b);
  std::fill_n(weights, kv_len, 0.0);
  if (f.Padded(b, i)) return -kInfinity;
  if (f.Uniform(b, h, i)) {
    std::fill_n(weights, kv_len, 1.0 / static_cast<double>(kv_len));
    return kv_len > 0 ? std::log(static_cast<double>(kv_len)) : -kInfinity;
  }
  double largest = -kInfinity;
  for (int64_t j = 0; j < kv_len; ++j)
    if (f.Visible(b, h, i, j)) largest = std::max(largest, weights[j] = f.Score(b, h, i, j));
  double sum = 0;
  for (int64_t j = 0; j < kv_len; ++j)
    if (f.Visible(b, h, i, j)) sum += weights[j] = std::exp(weights[j] - largest);
  for (int64_t j = 0; j < kv_len; ++j) weights[j] = sum > 0 ? weights[j] / sum : 0.0;
  return sum > 0 ? largest + std::log(sum) : -kInfinity;
}

// What key j gives to query i in column c.
double SeenValue(const Formulas& f, int64_t b, int64_t h, int64_t i, int64_t j, int64_t c) {
  const int64_t row = f.attention().content_bias ? f.Clipped(f.ContentRows(), b, i, j) : 0;
  return f.Value(b, h, j, c) + f.ContentValue(row, c);
}

void RowForward(const Formulas& f, int64_t b, int64_t h, int64_t i, Result& result) {
  const int64_t longest = f.LongestKeys(), value_dim = f.value_dim(), row = f.QueryRow(b, h, i);
  const auto at = static_cast<size_t>(row);
  double* weights = result.weights.data() + row * longest;
  double* kept = result.kept.data() + row * longest;
  result.lse[at] = Softmax(f, b, h, i, weights);
  for (int64_t j = 0; j < f.KeyCount(b); ++j) {
    kept[j] = f.Kept(b, h, i, j) ? 1.0 : 0.0;
    if (weights[j] == 0) continue;
    result.entropy[at] -= weights[j] * std::log(weights[j]);
    result.max_weight[at] = std::max(result.max_weight[at], weights[j]);
    result.mean_distance[at] += weights[j] * std::abs(f.Offset(b, i, j));
    for (int64_t c = 0; c < value_dim; ++c)
      result.out[static_cast<size_t>(row * value_dim + c)] +=
          weights[j] * kept[j] * f.KeptScale() * SeenValue(f, b, h, i, j, c);
  }
}

struct PairGradient {
  double d_score;
  double noise;  // what its rounding is measured by
};

// Gradients of the biases from that of the whole score.
void AddBiasGradients(const Formulas& f, int64_t b, int64_t h, int64_t i, int64_t j, PairGradient pair, Result& result) {
  const Attention& attention = f.attention();
  if (attention.bias)
    std::visit(
        [&](const auto& bias) {
          const auto fit = [&](int r, int64_t index) { return bias.extent[r] == 1 ? 0 : index; };
          const int64_t at =
              ((fit(0, b) * bias.extent[1] + fit(1, h)) * bias.extent[2] + fit(2, i)) * bias.extent[3] + fit(3, j);
          result.d_bias[static_cast<size_t>(at)] += pair.d_score;
        },
        attention.bias->values);
  if (attention.relative_bias) {
    const int64_t columns = static_cast<int64_t>(result.d_relative_bias.size()) / f.heads();
    result.d_relative_bias[static_cast<size_t>(h * columns + f.Clipped(columns, b, i, j))] += pair.d_score;
  }
  if (!attention.slope_bias) return;
  result.d_slopes[static_cast<size_t>(h)] += pair.d_score * f.DistanceTerm(b, i, j);
  result.slope_mass[static_cast<size_t>(h)] += std::abs(pair.noise * f.DistanceTerm(b, i, j));
}

// One pair's gradients, from that of its score.
void PairBackward(const Formulas& f, int64_t b, int64_t h, int64_t i, int64_t j, PairGradient pair, Result& result) {
  AddBiasGradients(f, b, h, i, j, pair, result);
  if (f.attention().softcap) {
    const double tanh = std::tanh(f.Product(b, h, i, j) / *f.attention().softcap);
    pair.d_score *= 1 - tanh * tanh;
  }
  const int64_t head_dim = f.head_dim();
  const bool content = f.attention().content_bias.has_value();
  const int64_t row = content ? f.Clipped(f.ContentRows(), b, i, j) : 0;
  const double d_product = f.Scale() * pair.d_score, noise = f.Scale() * pair.noise;
  for (int64_t c = 0; c < head_dim; ++c) {
    const double query = f.Query(b, h, i, c), key = f.Key(b, h, j, c);
    result.d_q[static_cast<size_t>(f.QueryRow(b, h, i) * head_dim + c)] += d_product * (key + f.ContentKey(row, c));
    result.d_k[static_cast<size_t>(f.KeyRow(b, h, j) * head_dim + c)] += d_product * (query + f.ContentQuery(row, c));
    const auto at = static_cast<size_t>(row * head_dim + c);
    if (content && f.attention().content_bias->keys) {
      result.d_content_keys[at] += d_product * query;
      result.content_key_mass[at] += std::abs(noise * query);
    }
    if (content && f.attention().content_bias->queries) {
      result.d_content_queries[at] += d_product * key;
      result.content_query_mass[at] += std::abs(noise * key);
    }
  }
}

void RowBackward(const Formulas& f, int64_t b, int64_t h, int64_t i, const View<const double, 4>& d_out, Result& result) {
  const int64_t longest = f.LongestKeys(), value_dim = f.value_dim(), row = f.QueryRow(b, h, i);
  const double* weights = result.weights.data() + row * longest;
  const double* kept = result.kept.data() + row * longest;
  const bool uniform = f.Uniform(b, h, i), content = f.attention().content_bias && f.attention().content_bias->values;
  double delta = 0;
  for (int64_t c = 0; c < value_dim; ++c)
    delta += f.Gradient(d_out, b, h, i, c) * result.out[static_cast<size_t>(row * value_dim + c)];
  for (int64_t j = 0; j < f.KeyCount(b); ++j) {
    if (weights[j] == 0) continue;
    const double share = kept[j] * f.KeptScale();
    double d_weight = 0;
    for (int64_t c = 0; c < value_dim; ++c) {
      const double of_out = f.Gradient(d_out, b, h, i, c), of_value = weights[j] * share * of_out;
      d_weight += share * of_out * SeenValue(f, b, h, i, j, c);
      result.d_v[static_cast<size_t>(f.KeyRow(b, h, j) * value_dim + c)] += of_value;
      if (!content) continue;
      const auto at = static_cast<size_t>(f.Clipped(f.ContentRows(), b, i, j) * value_dim + c);
      result.d_content_values[at] += of_value;
      result.content_value_mass[at] += std::abs(of_value);
    }
    const double noise = weights[j] * (std::abs(d_weight) + std::abs(delta));
    if (!uniform) PairBackward(f, b, h, i, j, {weights[j] * (d_weight - delta), noise}, result);
  }
}

void MakeRoom(const Attention& attention, const Formulas& f, int64_t rows, int64_t kv_rows, bool backward, Result& result) {
  const auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0.0); };
  result.out = zeros(rows * f.value_dim());
  result.lse = result.entropy = result.max_weight = result.mean_distance = zeros(rows);
  result.weights = result.kept = zeros(rows * f.LongestKeys());
  if (!backward) return;
  result.d_q = zeros(rows * f.head_dim());
  result.d_k = zeros(kv_rows * f.head_dim());
  result.d_v = zeros(kv_rows * f.value_dim());
  const auto like = [&](const auto& table) { return zeros(std::visit([](const auto& t) { return t.size(); }, table)); };
  if (attention.bias) result.d_bias = like(attention.bias->values);
  if (attention.relative_bias) result.d_relative_bias = like(attention.relative_bias->table);
  if (attention.slope_bias) result.d_slopes = result.slope_mass = like(attention.slope_bias->slopes);
  if (!attention.content_bias) return;
  if (attention.content_bias->keys) result.d_content_keys = result.content_key_mass = like(*attention.content_bias->keys);
  if (attention.content_bias->queries)
    result.d_content_queries = result.content_query_mass = like(*attention.content_bias->queries);
  if (attention.content_bias->values)
    result.d_content_values = result.content_value_mass = like(*attention.content_bias->values);
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
               View<const double, 4> d_out) {
  const Formulas f(attention, q, k, v);
  Result result;
  MakeRoom(attention, f, q.extent[0] * q.extent[1] * q.extent[2], k.extent[0] * k.extent[1] * k.extent[2], d_out.present(),
           result);
  for (int64_t b = 0; b < f.batch(); ++b)
    for (int64_t h = 0; h < f.heads(); ++h)
      for (int64_t i = 0; i < f.QueryCount(b); ++i) {
        RowForward(f, b, h, i, result);
        if (d_out.present()) RowBackward(f, b, h, i, d_out, result);
      }
  return result;
}

}  // namespace heed::reference
