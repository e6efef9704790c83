#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

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

// One row of a call.
class Row {
 public:
  Row(const Formulas& f, Tape& tape, int64_t b, int64_t h, int64_t i, Result& result)
      : f_(f),
        tape_(tape),
        seen_(KeysSeenBy(f, b, h, i)),
        at_(static_cast<size_t>(f.QueryRow(b, h, i))),
        result_(result),
        weights_(static_cast<size_t>(f.KeyCount(b))),
        out_(static_cast<size_t>(f.value_dim())) {}

  void Forward() {
    Softmax();
    // Beside a key without a value the weights of all others may be so small that they count as 0 (2^-100 of the largest).
    const double least = valueless_.value * 0x1p-50;
    for (size_t j = 0; j < weights_.size(); ++j) {
      const Pair pair = PairOf(static_cast<int64_t>(j));
      const double weight = weights_[j].value;
      result_.weights[at_ * static_cast<size_t>(f_.LongestKeys()) + j] = weight;
      if (weight == 0) continue;
      Count(weight, pair.j);
      result_.mean_distance[at_] += weight * std::abs(f_.Offset(pair));
      FindValue(pair);
      const Measured share = weights_[j] * ShareOf(pair);
      for (size_t c = 0; c < out_.size(); ++c) {
        out_[c] += share * value_[c];
        result_.out_mass[at_ * out_.size() + c] += (weight + least) * value_[c].magnitude;
      }
    }
    if (valueless_.value > 0) Count(valueless_.value, -1);
    for (size_t c = 0; c < out_.size(); ++c) {
      const size_t x = at_ * out_.size() + c;
      result_.out[x] = out_[c].value;
      if (!result_.t_out.empty()) result_.t_out[x] = out_[c].tangent, result_.t_out_mass[x] = out_[c].tangent_magnitude;
    }
  }

  void Backward(const View<const double, 4>& d_out, const RowGradients& d, const InputTangents& tangents, GradientSums& sums) {
    const auto number = [&](const std::vector<double>& rows) { return rows.empty() ? 0.0 : rows[at_]; };
    const std::vector<Measured> of_out = OfOut(d_out, tangents.d_out);
    Measured delta, of_all(number(d.lse), number(tangents.d_lse));
    for (size_t c = 0; c < out_.size(); ++c)
      delta += of_out[c] * Measured(-out_[c].value, -out_[c].tangent, std::abs(out_[c].value), out_[c].tangent_magnitude);
    // A 16-bit output and its remainder hold 2^-18 of each element; the unit of 16-bit gradients is 2^-16 of the noise.
    delta.magnitude = std::max(std::abs(delta.value), delta.magnitude / 4);
    const double d_entropy = number(d.entropy), d_max_weight = number(d.max_weight), d_distance = number(d.mean_distance);
    const int64_t largest_key = d.largest_key.empty() ? result_.largest_key[at_] : d.largest_key[at_];
    of_all += delta;
    of_all += -d_entropy * result_.entropy[at_];
    of_all += -d_max_weight * result_.max_weight[at_];
    of_all += -d_distance * result_.mean_distance[at_];
    // Of a key's score, from what the output gives to the gradient of its weight; of one without a value where j is -1.
    const auto of_score = [&](const Measured& weight, Measured d_weight, int64_t j, double distance) {
      d_weight += of_all;
      d_weight += -d_entropy * std::log(weight.value);
      d_weight += d_distance * distance;
      if (j == largest_key) d_weight += d_max_weight;
      return weight * d_weight;
    };
    std::vector<Measured> of_scores(weights_.size());
    for (size_t j = 0; j < weights_.size(); ++j) {
      if (weights_[j].value == 0) continue;
      const Pair pair = PairOf(static_cast<int64_t>(j));
      of_scores[j] = of_score(weights_[j], OfWeight(pair, of_out, sums), pair.j, std::abs(f_.Offset(pair)));
    }
    if (valueless_.value > 0) key_score_->Give(of_score(valueless_, {}, -1, 0), sums);
    for (size_t x = 0; x < scores_.size(); ++x) scores_[x].Give(of_scores[static_cast<size_t>(seen_.keys[x])], sums);
    tape_.WalkBack(sums);
  }

 private:
  Pair PairOf(int64_t j) const { return {seen_.b, seen_.h, seen_.i, j}; }
  // What dropout leaves of a weight.
  double ShareOf(const Pair& pair) const { return f_.Kept(pair) ? f_.KeptScale() : 0; }

  // The weights, that of a key without a value, and the log-sum-exp.
  void Softmax() {
    Measured lse(-kInfinity);
    if (f_.Uniform(seen_.b, seen_.h, seen_.i)) {
      const auto count = static_cast<double>(weights_.size());
      std::ranges::fill(weights_, 1.0 / count);
      if (count > 0) lse.value = std::log(count);
    } else if (!f_.Padded(seen_.b, seen_.i)) {
      scores_.reserve(seen_.keys.size());
      for (int64_t j : seen_.keys) scores_.push_back(f_.Score(PairOf(j)));
      ForEachScheme([&]<class Scheme>() { Scheme::MakeRow(f_, seen_, scores_); });
      WeighScores(lse);
    }
    result_.lse[at_] = lse.value;
    result_.valueless[at_] = valueless_.value;
    if (!result_.t_lse.empty()) result_.t_lse[at_] = lse.tangent, result_.t_lse_mass[at_] = lse.tangent_magnitude;
  }

  void WeighScores(Measured& lse) {
    std::vector<std::pair<const Number*, Measured*>> weighed;
    for (size_t x = 0; x < scores_.size(); ++x)
      weighed.emplace_back(&scores_[x], &weights_[static_cast<size_t>(seen_.keys[x])]);
    const auto by_value = [](const Number& a, const Number& b) { return a.value < b.value; };
    if (scores_.empty() || std::ranges::max(scores_, by_value).value == -kInfinity) return;
    key_score_ = f_.KeyScore(seen_.b, seen_.h, seen_.i);
    if (key_score_) weighed.emplace_back(&*key_score_, &valueless_);
    double largest = -kInfinity, sum = 0;
    for (const auto& [score, weight] : weighed) {
      largest = std::max(largest, score->value);
      result_.largest_score = std::max(result_.largest_score, score->magnitude);
    }
    for (const auto& [score, weight] : weighed) sum += weight->value = std::exp(score->value - largest);
    lse.value = largest + std::log(sum);
    for (const auto& [score, weight] : weighed) {
      *weight = weight->value / sum;
      if (weight->value != 0) lse += Measured(0, weight->value * score->tangent, 0, weight->value * score->tangent_magnitude);
    }
    for (const auto& [score, weight] : weighed) {
      if (weight->value == 0) continue;
      weight->tangent = weight->value * (score->tangent - lse.tangent);
      weight->tangent_magnitude = weight->value * (score->tangent_magnitude + lse.tangent_magnitude);
    }
  }

  // Adds a weight to the statistics.
  void Count(double weight, int64_t j) {
    result_.entropy[at_] -= weight * std::log(weight);
    if (weight > result_.max_weight[at_]) result_.max_weight[at_] = weight, result_.largest_key[at_] = j;
  }

  // What a key gives to a query: its value and what schemes add to it.
  void FindValue(const Pair& pair) {
    value_.clear();
    const Formulas::Numbers row = f_.Value(pair.b, pair.h, pair.j);
    for (int64_t c = 0; c < f_.value_dim(); ++c) value_.push_back(row(c));
    ForEachScheme([&]<class Scheme>() { Scheme::AddToValue(f_, pair, value_); });
  }

  std::vector<Measured> OfOut(const View<const double, 4>& d_out, const View<const double, 4>& tangent) const {
    const auto row = [&](const View<const double, 4>& of) { return f_.RowOfQueries(of, seen_.b, seen_.h, seen_.i); };
    std::vector<Measured> of_out;
    for (int64_t c = 0; c < f_.value_dim(); ++c) of_out.emplace_back(row(d_out)(c), tangent.present() ? row(tangent)(c) : 0);
    return of_out;
  }

  // What the gradient of the output gives to that of a key's weight. Gradients of values go to `sums`.
  Measured OfWeight(const Pair& pair, const std::vector<Measured>& of_out, GradientSums& sums) {
    const auto j = static_cast<size_t>(pair.j);
    const double share = ShareOf(pair);
    Measured of_weight;
    FindValue(pair);
    for (size_t c = 0; c < value_.size(); ++c) {
      of_weight += share * of_out[c] * value_[c];
      value_[c].Give(weights_[j] * share * of_out[c], sums);
    }
    of_weight.magnitude = std::abs(of_weight.value);
    return of_weight;
  }

  const Formulas& f_;
  Tape& tape_;
  SeenKeys seen_;
  size_t at_;  // in arrays of rows
  Result& result_;
  std::vector<Number> scores_;  // of the keys that are seen
  std::optional<Number> key_score_;
  std::vector<Measured> weights_, out_;  // of all keys
  Measured valueless_;

  std::vector<Number> value_;  // of one key
};

void MakeRoom(const Formulas& f, int64_t rows, bool tangents, Result& result) {
  const auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0.0); };
  result.out = result.out_mass = zeros(rows * f.value_dim());
  result.lse = result.entropy = result.max_weight = result.mean_distance = result.valueless = zeros(rows);
  result.largest_key.assign(static_cast<size_t>(rows), -1);
  result.weights = zeros(rows * f.LongestKeys());
  if (tangents) result.t_out = result.t_out_mass = result.out, result.t_lse = result.t_lse_mass = result.lse;
}

// Those of a call, all 0.
Gradients Zeros(const Attention& attention, int64_t q_size, int64_t k_size, int64_t v_size) {
  const auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0.0); };
  Gradients d{zeros(q_size), zeros(k_size), zeros(v_size), {}};
  BiasGradients<double> views;
  ForEachScheme([&]<class Scheme>() {
    Scheme::ForEachTable(attention, views, [&](const char* name, const auto& table, auto&) {
      d.tables.push_back({name, zeros(std::visit([](const auto& view) { return view.size(); }, table))});
    });
  });
  return d;
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
               View<const double, 4> d_out, const RowGradients& d_rows, const std::optional<InputTangents>& tangents) {
  const InputTangents given = tangents.value_or(InputTangents());
  Tape tape;
  const Formulas f(attention, q, k, v, tangents || d_out.present() ? &tape : nullptr, given);
  Result result;
  MakeRoom(f, q.extent[0] * q.extent[1] * q.extent[2], tangents.has_value(), result);
  if (d_out.present()) result.d = result.mass = Zeros(attention, q.size(), k.size(), v.size());
  GradientSums sums(result.d, result.mass, tangents.has_value());
  for (int64_t b = 0; b < f.batch(); ++b)
    for (int64_t h = 0; h < f.heads(); ++h)
      for (int64_t i = 0; i < f.QueryCount(b); ++i) {
        tape.Clear();
        Row row(f, tape, b, h, i, result);
        row.Forward();
        if (d_out.present()) row.Backward(d_out, d_rows, given, sums);
      }
  sums.GiveBack();
  return result;
}

}  // namespace heed::reference
