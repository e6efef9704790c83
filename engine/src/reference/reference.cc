#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heed::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One call as the formulas see it.
class Problem {
 public:
  Problem(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v)
      : attention_(attention), q_(q), k_(k), v_(v) {}

  int64_t batch() const { return q_.extent[0]; }
  int64_t heads() const { return q_.extent[1]; }
  int64_t kv_heads() const { return k_.extent[1]; }
  int64_t q_len() const { return q_.extent[2]; }
  int64_t kv_len() const { return k_.extent[2]; }
  int64_t head_dim() const { return q_.extent[3]; }
  int64_t value_dim() const { return v_.extent[3]; }
  int64_t KvHead(int64_t h) const { return h / (heads() / kv_heads()); }
  double Scale() const { return attention_.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim()))); }

  int64_t Offset(int64_t i, int64_t j) const {  // key position - query position
    const int64_t key_first = attention_.key_positions.offset.value_or(0);
    int64_t query_first = 0;
    if (attention_.causal == Causal::kBottomRight) query_first = key_first + kv_len() - q_len();
    if (attention_.query_positions.offset) query_first = *attention_.query_positions.offset;
    return (key_first + j) - (query_first + i);
  }

  bool Padded(int64_t b, int64_t i) const {
    const auto& lengths = attention_.query_lengths;
    return lengths.present() && i >= lengths.values(b, 0);
  }

  bool Visible(int64_t b, int64_t i, int64_t j) const {
    if (attention_.causal != Causal::kNone && Offset(i, j) > 0) return false;
    const auto& lengths = attention_.key_lengths.values;
    if (!lengths.present()) return true;
    return j < (lengths.extent[1] == 1 ? lengths(b, 0) : lengths(b, i));
  }

  bool Uniform(int64_t b, int64_t i) const {
    if (attention_.empty_row != EmptyRow::kUniform || Padded(b, i)) return false;
    for (int64_t j = 0; j < kv_len(); ++j)
      if (Visible(b, i, j)) return false;
    return true;
  }

  int64_t BiasColumn(int64_t i, int64_t j) const {
    const int64_t limit =
        std::visit([](const auto& table) { return (table.extent[1] - 1) / 2; }, attention_.relative_bias->table);
    return std::clamp(Offset(i, j), -limit, limit) + limit;
  }

  double Score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    double dot = 0;
    for (int64_t c = 0; c < head_dim(); ++c) dot += q_(b, h, i, c) * k_(b, KvHead(h), j, c);
    double score = Scale() * dot;
    if (attention_.relative_bias)
      score += std::visit([&](const auto& table) { return static_cast<double>(table(h, BiasColumn(i, j))); },
                          attention_.relative_bias->table);
    return score;
  }

  bool Kept(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const Dropout& dropout = attention_.dropout;
    if (dropout.probability == 0) return true;
    const auto threshold = static_cast<uint32_t>(std::lround(dropout.probability * 65536));
    return DropoutBits(dropout.seed, static_cast<uint64_t>(b + dropout.batch_offset), static_cast<uint64_t>(h),
                       static_cast<uint64_t>(i), static_cast<uint64_t>(j)) >= threshold;
  }

  double KeptScale() const {
    return 65536.0 / (65536.0 - static_cast<double>(std::lround(attention_.dropout.probability * 65536)));
  }

  double Value(int64_t b, int64_t h, int64_t j, int64_t c) const { return v_(b, KvHead(h), j, c); }
  double Query(int64_t b, int64_t h, int64_t i, int64_t c) const { return q_(b, h, i, c); }
  double Key(int64_t b, int64_t h, int64_t j, int64_t c) const { return k_(b, KvHead(h), j, c); }

 private:
  const Attention& attention_;
  View<const double, 4> q_, k_, v_;
};

// weights[0..Nk) of one row; returns the log-sum-exp.
double Softmax(const Problem& problem, int64_t b, int64_t h, int64_t i, double* weights) {
  const int64_t kv_len = problem.kv_len();
  std::fill_n(weights, kv_len, 0.0);
  if (problem.Padded(b, i)) return -kInfinity;
  if (problem.Uniform(b, i)) {
    std::fill_n(weights, kv_len, 1.0 / static_cast<double>(kv_len));
    return kv_len > 0 ? std::log(static_cast<double>(kv_len)) : -kInfinity;
  }
  double largest = -kInfinity;
  for (int64_t j = 0; j < kv_len; ++j)
    if (problem.Visible(b, i, j)) largest = std::max(largest, weights[j] = problem.Score(b, h, i, j));
  double sum = 0;
  for (int64_t j = 0; j < kv_len; ++j)
    if (problem.Visible(b, i, j)) sum += weights[j] = std::exp(weights[j] - largest);
  for (int64_t j = 0; j < kv_len; ++j) weights[j] = sum > 0 ? weights[j] / sum : 0.0;
  return sum > 0 ? largest + std::log(sum) : -kInfinity;
}

void RowForward(const Problem& problem, int64_t b, int64_t h, int64_t i, int64_t row, Result& result) {
  const int64_t kv_len = problem.kv_len(), value_dim = problem.value_dim();
  double* weights = result.weights.data() + row * kv_len;
  double* kept = result.kept.data() + row * kv_len;
  result.lse[static_cast<size_t>(row)] = Softmax(problem, b, h, i, weights);
  for (int64_t j = 0; j < kv_len; ++j) {
    kept[j] = problem.Kept(b, h, i, j) ? 1.0 : 0.0;
    if (weights[j] == 0) continue;
    for (int64_t c = 0; c < value_dim; ++c)
      result.out[static_cast<size_t>(row * value_dim + c)] +=
          weights[j] * kept[j] * problem.KeptScale() * problem.Value(b, h, j, c);
  }
}

void RowBackward(const Problem& problem, const Attention& attention, int64_t b, int64_t h, int64_t i, int64_t row,
                 const View<const double, 4>& d_out, Result& result) {
  const int64_t kv_len = problem.kv_len(), head_dim = problem.head_dim(), value_dim = problem.value_dim();
  const double* weights = result.weights.data() + row * kv_len;
  const double* kept = result.kept.data() + row * kv_len;
  const bool uniform = problem.Uniform(b, i);
  double delta = 0;
  for (int64_t c = 0; c < value_dim; ++c) delta += d_out(b, h, i, c) * result.out[static_cast<size_t>(row * value_dim + c)];
  const int64_t kv_row = (b * problem.kv_heads() + problem.KvHead(h)) * kv_len;
  for (int64_t j = 0; j < kv_len; ++j) {
    if (weights[j] == 0) continue;
    const double share = kept[j] * problem.KeptScale();
    double d_weight = 0;
    for (int64_t c = 0; c < value_dim; ++c) {
      d_weight += share * d_out(b, h, i, c) * problem.Value(b, h, j, c);
      result.d_v[static_cast<size_t>((kv_row + j) * value_dim + c)] += weights[j] * share * d_out(b, h, i, c);
    }
    if (uniform) continue;
    const double d_score = weights[j] * (d_weight - delta);
    for (int64_t c = 0; c < head_dim; ++c) {
      result.d_q[static_cast<size_t>(row * head_dim + c)] += problem.Scale() * d_score * problem.Key(b, h, j, c);
      result.d_k[static_cast<size_t>((kv_row + j) * head_dim + c)] += problem.Scale() * d_score * problem.Query(b, h, i, c);
    }
    if (attention.relative_bias) {
      const int64_t columns = static_cast<int64_t>(result.d_relative_bias.size()) / problem.heads();
      result.d_relative_bias[static_cast<size_t>(h * columns + problem.BiasColumn(i, j))] += d_score;
    }
  }
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
  const Problem problem(attention, q, k, v);
  const int64_t rows = problem.batch() * problem.heads() * problem.q_len();
  const int64_t kv_rows = problem.batch() * problem.kv_heads() * problem.kv_len();
  const auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0.0); };
  Result result;
  result.out = zeros(rows * problem.value_dim());
  result.lse = zeros(rows);
  result.weights = zeros(rows * problem.kv_len());
  result.kept = zeros(rows * problem.kv_len());
  if (d_out.present()) {
    result.d_q = zeros(rows * problem.head_dim());
    result.d_k = zeros(kv_rows * problem.head_dim());
    result.d_v = zeros(kv_rows * problem.value_dim());
    if (attention.relative_bias)
      result.d_relative_bias =
          zeros(std::visit([](const auto& table) { return table.size(); }, attention.relative_bias->table));
  }
  int64_t row = 0;
  for (int64_t b = 0; b < problem.batch(); ++b)
    for (int64_t h = 0; h < problem.heads(); ++h)
      for (int64_t i = 0; i < problem.q_len(); ++i, ++row) {
        RowForward(problem, b, h, i, row, result);
        if (d_out.present()) RowBackward(problem, attention, b, h, i, row, d_out, result);
      }
  return result;
}

}  // namespace heed::reference
