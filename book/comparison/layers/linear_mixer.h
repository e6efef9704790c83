// Layers in linear time: what a head keeps of the past is a matrix of fixed size, into which each step writes and which it
// reads.
#ifndef HEED_BOOK_COMPARISON_LAYERS_LINEAR_MIXER_H_
#define HEED_BOOK_COMPARISON_LAYERS_LINEAR_MIXER_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "book/comparison/layers/parts.h"
#include "heed/rotary.h"

namespace heed::lab {

// elu(x) + 1, with one exponential whatever the sign of x.
inline Counted EluAndOne(const Counted& x) {
  const Counted positive = PositivePart(x);
  return Exp(x - positive) + positive;
}

// The layers of heed/nn/linear_encoders.h, which has their equations, one step after the other as they are defined there. A
// head keeps a state S [value, key], 0 at first and then multiplied like every other:
//   linear, retention, mamba2   S = decay S + v k^T                           y = S q
//   gated-delta                 S = decay S, S = S + beta (v - S k) k^T       y = S q
// Weights: the module's parameters without biases, in its order: of a convolution, decays, D and norm those that the kind has,
// then in_proj and out_proj.
struct LinearMixer {
  enum class Kind { kLinear, kRetention, kMamba2, kGatedDelta };  // in the order of Facts' rows
  Kind kind;

  static constexpr int64_t kTaps = 4;        // of the convolution
  static constexpr double kEpsilon = 1e-5;   // beside a mean square
  static constexpr double kShortest = 1e-6;  // beside the square of a key's length

  // What in_proj gives of a step: columns for the gate, v, k and q, and numbers for decays and beta; and a head's part of them.
  struct Columns {
    int64_t gate, value, key, numbers;  // key: of k and q each
    int64_t head_value, head_key;

    int64_t mixed() const { return value + 2 * key; }
    int64_t state() const { return value * head_key; }  // of all heads
  };
  Columns ColumnsOf(const LayerShape& shape) const {
    const int64_t d = shape.width, h = shape.heads;
    if (kind == Kind::kMamba2) return {2 * d, 2 * d, 2 * d / h, h, 2 * d / h, 2 * d / h};  // all heads have one k and one q
    return {kind == Kind::kLinear ? 0 : d, d, d, kind == Kind::kGatedDelta ? 2 * h : 0, d / h, d / h};
  }

  LayerFacts Facts() const {
    struct Row {
      const char *id, *name, *multiply_adds, *memory;
    };
    static constexpr Row kRows[] = {
        {"linear", "linear attention", "4 n d² + 2 n d² / h + n d", "n d + d² / h + 5 d"},
        {"retention", "retention", "5 n d² + 2 n d² / h + n d", "n d + d² / h + 5 d"},
        {"mamba2", "Mamba-2", "6 n d² + 12 n d² / h + (h + 4) n d + (4 n - 6) (2 + 4 / h) d",
         "n d + 4 d² / h + 14 d + 20 d / h + h"},
        {"gated-delta", "gated DeltaNet", "5 n d² + 3 n d² / h + (2 h + 3) n d + (4 n - 6) 3 d", "n d + d² / h + 17 d + h"},
    };
    const Row& row = kRows[static_cast<std::size_t>(kind)];
    const bool convolves = kind == Kind::kMamba2 || kind == Kind::kGatedDelta;
    LayerFacts facts;
    facts.id = row.id, facts.name = row.name, facts.multiply_adds = row.multiply_adds, facts.memory = row.memory;
    facts.causal = true;
    facts.steps = "n";
    facts.hops = convolves ? "⌈(n - 1) / 3⌉" : "n - 1";
    facts.layers = "1";
    facts.growth = {
        {Term::kProjections, {.n = 1, .d = 2}}, {Term::kRecurrence, {.n = 1, .d = 2}}, {Term::kElementwise, {.n = 1, .d = 1}}};
    if (convolves) facts.growth.push_back({Term::kConvolution, {.n = 1, .d = 1}});
    facts.path = PowerOfSizes{.n = 1};
    return facts;
  }

  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    const Columns c = ColumnsOf(shape);
    std::vector<int64_t> sizes;
    if (c.numbers > 0) sizes = {c.mixed() * kTaps, shape.heads, shape.heads};
    if (kind == Kind::kMamba2) sizes.push_back(shape.heads);
    if (c.gate > 0) sizes.push_back(NormWidth(c));
    sizes.insert(sizes.end(), {(c.gate + c.mixed() + c.numbers) * shape.width, shape.width * c.value});
    return sizes;
  }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const;

  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    const Columns c = ColumnsOf(shape);
    const bool delta = kind == Kind::kGatedDelta;
    const int64_t d = shape.width, h = shape.heads, cells = c.state(), pairs = c.head_key / 2;
    LayerNumbers numbers;
    Operations& others = numbers.operations;
    numbers.Of(Term::kProjections) = n * d * (c.gate + c.mixed() + c.value);
    numbers.Of(Term::kRecurrence) = (delta ? 3 : 2) * n * cells;
    // The gate, and the norm that goes with it.
    const int64_t norms = c.gate == 0 ? 0 : c.value / NormWidth(c);
    numbers.Of(Term::kElementwise) = n * c.gate;
    others = {.multiplications = n * (norms + 4 * c.gate), .additions = n * norms, .sigmoids = n * c.gate};
    others.inverse_roots = n * norms;
    if (c.numbers > 0) {
      numbers.Of(Term::kConvolution) = (n + PairsWithin(kTaps - 1, 1, n)) * c.mixed();
      numbers.Of(Term::kElementwise) += n * d * c.numbers;
      others.sigmoids += n * c.mixed();
      others.multiplications += n * (c.mixed() + h + cells);
      others.additions += (n + 1) * h;
      others.exponentials = (n + 1) * h;
      others.softpluses = n * h;
    }
    // The longest way: to k, the turns, and from q's product to the output.
    const int64_t project = 1 + CeilLog2(d), key_sum = 1 + CeilLog2(c.head_key), norm = 5 + CeilLog2(NormWidth(c));
    const int64_t turn_rounds = delta ? 5 : 1, turn_span = delta ? 5 + key_sum : 2;
    switch (kind) {
      case Kind::kLinear:
        numbers.Of(Term::kElementwise) += n * d;
        others.comparisons = others.exponentials = 2 * n * d;
        others.additions = 5 * n * d;
        others.divisions = n * d;
        numbers.rounds = 8;
        numbers.span = project + 4 + key_sum + 1 + project;
        break;
      case Kind::kRetention:
        others.multiplications += n * (8 * h * pairs + d + cells);
        others.additions += 4 * n * h * pairs;
        numbers.rounds = pairs > 0 ? 14 : 12;
        numbers.span = project + (pairs > 0 ? 4 : 2) + key_sum + norm + 2 + project;
        break;
      case Kind::kMamba2:
        numbers.Of(Term::kElementwise) += n * c.value;
        others.multiplications += n * c.value;
        numbers.rounds = 16;
        numbers.span = project + 5 + key_sum + 3 + norm + 1 + 1 + CeilLog2(c.value);
        break;
      case Kind::kGatedDelta:
        numbers.Of(Term::kElementwise) += 2 * n * c.key;
        others.sigmoids += n * h;
        others.multiplications += n * (2 * h + 2 * c.key + c.value);
        others.additions += n * (2 * h + c.value);
        others.inverse_roots += 2 * n * h;
        numbers.rounds = 17;
        // The first turn waits for k, which comes later than the decay of S.
        numbers.span = project + 3 + (key_sum + 4) - 1 + key_sum + norm + 2 + project;
        break;
    }
    numbers.rounds += turn_rounds * n;
    numbers.span += turn_span * n;
    numbers.sequential_steps = n;
    numbers.longest_sum = std::max(c.value, n);  // a state is a sum of one product for each step before it
    numbers.memory = n * d + cells + c.gate + c.mixed() + c.value;
    if (kind == Kind::kLinear) numbers.memory += c.key;
    if (c.numbers > 0) numbers.memory += kTaps * c.mixed() + h;
    numbers.path_length = numbers.longest_path = HopsOver(n - 1, c.numbers > 0 ? kTaps - 1 : 1);
    numbers.layers_to_connect = std::min<int64_t>(n - 1, 1);
    return numbers;
  }

  int64_t NormWidth(const Columns& columns) const { return kind == Kind::kMamba2 ? columns.value : columns.head_value; }
};

// What the layer holds from step to step, and what it computes of one.
class LinearMixerTurns {
 public:
  using Kind = LinearMixer::Kind;

  LinearMixerTurns(const LinearMixer& layer, const LayerShape& shape, const LayerWeights& weights)
      : layer_(layer), heads_(shape.heads), width_(shape.width), sizes_(layer.ColumnsOf(shape)), weights_(weights) {
    for (int64_t head = 0; sizes_.numbers > 0 && head < heads_; ++head) rates_[head] = Counted(0.0) - Exp(weights_[1][head]);
    if (kind_ == Kind::kRetention && sizes_.head_key > 1) {
      frequencies_ = ComputeRotaryFrequencies({.rotary_dim = sizes_.head_key / 2 * 2}).values;
    }
  }

  // y_i from x_i, [width] both.
  void Turn(int64_t i, const Counted* x, std::span<Counted> y) {
    Read(i, x);
    for (int64_t head = 0; head < heads_; ++head) Mix(i, head, x);
    NormAndGate();
    Multiply(Term::kProjections, weights_.back().data(), mixed_.data(), sizes_.value, y);
    KeepAsState(y, i);
  }

 private:
  const std::vector<Counted>& in_proj() const { return weights_[weights_.size() - 2]; }
  const std::vector<Counted>& norm() const { return weights_[weights_.size() - 3]; }
  Counted* values() { return &columns_[sizes_.gate]; }
  Counted* keys() { return values() + sizes_.value; }  // and queries behind them

  static Counted Silu(const Counted& x) { return x * Sigmoid(x); }

  // x scale / sqrt(x . x + smallest)
  static void Normalise(Counted* x, int64_t count, double smallest, double scale) {
    const Counted squares = Dot(Term::kElementwise, Operand(x), Operand(x), count);
    const Counted factor = InverseRoot(squares + Counted(smallest)) * Counted(scale);
    for (int64_t c = 0; c < count; ++c) x[c] = x[c] * factor;
  }

  // The gate, v, k and q.
  void Read(int64_t i, const Counted* x) {
    Multiply(Term::kProjections, in_proj().data(), x, width_, columns_);
    for (int64_t c = 0; c < sizes_.gate; ++c) columns_[c] = Silu(columns_[c]);
    if (sizes_.numbers > 0) Convolve(i);
    const int64_t key = sizes_.head_key;
    const double scale = 1 / std::sqrt(static_cast<double>(key));
    if (kind_ == Kind::kLinear) {
      for (int64_t c = 0; c < 2 * sizes_.key; ++c) keys()[c] = EluAndOne(keys()[c]);
    } else if (kind_ == Kind::kRetention) {
      for (int64_t head = 0; head < 2 * heads_; ++head) Rotate(i, keys() + head * key);
      for (int64_t c = 0; c < sizes_.key; ++c) keys()[c] = keys()[c] * Counted(scale);
    } else if (kind_ == Kind::kGatedDelta) {
      for (int64_t head = 0; head < 2 * heads_; ++head) {
        Normalise(keys() + head * key, key, LinearMixer::kShortest, head < heads_ ? 1 : scale);
      }
    }
  }

  // Taps before the first step are left out.
  void Convolve(int64_t i) {
    const int64_t mixed = sizes_.mixed(), taps = std::min(i + 1, LinearMixer::kTaps), left_out = LinearMixer::kTaps - taps;
    std::move(recent_.begin() + mixed, recent_.end(), recent_.begin());
    std::copy_n(values(), mixed, recent_.end() - mixed);
    for (int64_t c = 0; c < mixed; ++c) {
      const Operand filter(&weights_[0][c * LinearMixer::kTaps + left_out]);
      values()[c] = Silu(Dot(Term::kConvolution, filter, Operand(&recent_[left_out * mixed + c], mixed), taps));
    }
  }

  // Halves of a head's columns against each other.
  void Rotate(int64_t i, Counted* x) const {
    const std::size_t pairs = frequencies_.size();
    for (std::size_t c = 0; c < pairs; ++c) {
      const double angle = static_cast<double>(i) * frequencies_[c];
      const Counted cosine(std::cos(angle)), sine(std::sin(angle)), first = x[c], second = x[c + pairs];
      x[c] = first * cosine - second * sine;
      x[c + pairs] = second * cosine + first * sine;
    }
  }

  // One of the step's numbers.
  Counted Number(int64_t index, const Counted* x) const {
    const Counted* const row = &in_proj()[(sizes_.gate + sizes_.mixed() + index) * width_];
    return Dot(Term::kElementwise, Operand(row), Operand(x), width_);
  }

  void Mix(int64_t i, int64_t head, const Counted* x) {
    const bool linear = kind_ == Kind::kLinear, delta = kind_ == Kind::kGatedDelta, mamba = kind_ == Kind::kMamba2;
    const int64_t key = sizes_.head_key, value = sizes_.head_value, first = mamba ? 0 : head * key;
    const Counted *const k = keys() + first, *const q = k + sizes_.key;
    Counted decay(0.0), dt(0.0), beta(0.0), weight(0.0);
    if (kind_ == Kind::kRetention) decay = Counted(1 - std::exp2(-5.0 - static_cast<double>(head)));
    if (sizes_.numbers > 0) {
      dt = Softplus(Number(head, x) + weights_[2][head]);
      decay = Exp(dt * rates_[head]);
    }
    if (delta) beta = Sigmoid(Number(heads_ + head, x));
    if (linear) {
      for (int64_t r = 0; r < key; ++r) key_sums_[first + r] = key_sums_[first + r] + k[r];
      weight = Dot(Term::kElementwise, Operand(q), Operand(&key_sums_[first]), key);
      KeepAsState(std::span(key_sums_).subspan(first, key), i);
    }
    for (int64_t c = head * value; c < (head + 1) * value; ++c) {
      Counted* const S = &state_[c * key];
      Counted &y = mixed_[c], added = mamba ? values()[c] * dt : values()[c];
      if (delta) {
        for (int64_t r = 0; r < key; ++r) S[r] = decay * S[r];
        added = beta * (added - Dot(Term::kRecurrence, Operand(S), Operand(k), key));
      }
      for (int64_t r = 0; r < key; ++r) {
        S[r] = linear || delta ? MultiplyAdd(Term::kRecurrence, added, k[r], S[r])
                               : MultiplyAdd(Term::kRecurrence, decay, S[r], added * k[r]);
      }
      y = Dot(Term::kRecurrence, Operand(S), Operand(q), key);
      if (linear) y = y / weight;
      if (mamba) y = MultiplyAdd(Term::kElementwise, weights_[3][head], values()[c], y);
      KeepAsState(std::span(S, key), i);
    }
  }

  void NormAndGate() {
    if (kind_ == Kind::kLinear) return;
    const auto gate = [this] {
      for (int64_t c = 0; c < sizes_.value; ++c) mixed_[c] = mixed_[c] * columns_[c];
    };
    if (kind_ == Kind::kMamba2) gate();
    const int64_t width = layer_.NormWidth(sizes_);
    const auto count = static_cast<double>(width);
    for (int64_t first = 0; first < sizes_.value; first += width) {
      Normalise(&mixed_[first], width, count * LinearMixer::kEpsilon, std::sqrt(count));
      for (int64_t c = 0; c < width; ++c) mixed_[first + c] = mixed_[first + c] * norm()[c];
    }
    if (kind_ != Kind::kMamba2) gate();
  }

  const LinearMixer& layer_;
  const Kind kind_ = layer_.kind;
  const int64_t heads_, width_;
  const LinearMixer::Columns sizes_;
  const LayerWeights& weights_;
  std::vector<double> frequencies_;  // of retention's pairs
  Activations state_ = Activations(sizes_.state()), key_sums_ = Activations(kind_ == Kind::kLinear ? sizes_.key : 0);
  // The convolution's last inputs, [taps, mixed], the newest last; decays per dt, -exp(A_log).
  Activations recent_ = Activations(sizes_.numbers > 0 ? LinearMixer::kTaps * sizes_.mixed() : 0);
  Activations rates_ = Activations(sizes_.numbers > 0 ? heads_ : 0);
  Activations columns_ = Activations(sizes_.gate + sizes_.mixed());  // the gate, v, k and q of a step
  Activations mixed_ = Activations(sizes_.value);                    // its heads' y side by side
};

inline Activations LinearMixer::Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
  Activations y(x.size());
  LinearMixerTurns turns(*this, shape, weights);
  for (int64_t i = 0; i * shape.width < static_cast<int64_t>(x.size()); ++i) {
    turns.Turn(i, &x[i * shape.width], std::span(y).subspan(i * shape.width, shape.width));
  }
  return y;
}

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_LINEAR_MIXER_H_
