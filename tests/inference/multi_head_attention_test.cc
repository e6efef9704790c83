// The layer against the formulas in double precision, for every positional scheme; decoding against the whole pass; refusals.
#include "heed/multi_head_attention.h"

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/error_text.h"

namespace heed {
namespace {

constexpr int64_t kBatch = 2, kSteps = 7, kWidth = 12, kHeads = 3, kHeadDim = 4;

// The layer's parameters by name, random and the same every time.
std::map<std::string, std::vector<float>> RandomWeights(const Parameters& parameters) {
  std::mt19937 generator(3);
  std::map<std::string, std::vector<float>> weights;
  for (const Parameter& parameter : parameters.list) {
    int64_t count = 1;
    for (const int64_t extent : parameter.shape) count *= extent;
    std::vector<float>& numbers = weights[parameter.name];
    for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(generator() % 2001) / 1000.0f - 1.0f);
  }
  return weights;
}

void Assign(const Parameters& parameters, const std::map<std::string, std::vector<float>>& weights) {
  std::map<std::string, Array> arrays;
  for (const Parameter& parameter : parameters.list) arrays[parameter.name] = {parameter.shape, weights.at(parameter.name)};
  LoadWeights(parameters, arrays);
}

std::vector<float> RandomInput(int64_t steps = kSteps) {
  std::mt19937 generator(4);
  std::vector<float> numbers;
  for (int64_t i = 0; i < kBatch * steps * kWidth; ++i) {
    numbers.push_back(static_cast<float>(generator() % 2001) / 1000.0f - 1.0f);
  }
  return numbers;
}

View<const float, 3> InputView(const std::vector<float>& numbers) {
  const auto steps = static_cast<int64_t>(numbers.size()) / kBatch / kWidth;
  return View<const float, 3>::Contiguous(numbers.data(), {kBatch, steps, kWidth});
}

std::vector<float> Forward(const MultiHeadAttention& attention, View<const float, 3> X, const Lengths& lengths = {},
                           KeyValueCache<float>* cache = nullptr) {
  std::vector<float> out(static_cast<std::size_t>(X.size()));
  attention.Forward(X, X, X, View<float, 3>::Contiguous(out.data(), X.extent), lengths, cache);
  return out;
}

// The same layer in double, one number after the other.
class Formula {
 public:
  Formula(const MultiHeadAttentionOptions& options, std::map<std::string, std::vector<float>> weights)
      : options_(options),
        kv_heads_(options.kv_heads > 0 ? options.kv_heads : options.num_heads),
        weights_(std::move(weights)) {}

  std::vector<double> operator()(const std::vector<float>& X, const std::vector<int64_t>& lengths) const {
    std::vector<double> out;
    const auto steps = static_cast<int64_t>(X.size()) / kBatch / kWidth;
    for (int64_t b = 0; b < kBatch; ++b) {
      const std::vector<double> x(X.begin() + b * steps * kWidth, X.begin() + (b + 1) * steps * kWidth);
      const std::vector<double> q = Linear("W_q", x, kWidth), k = Linear("W_k", x, kv_heads_ * kHeadDim),
                                v = Linear("W_v", x, kv_heads_ * kHeadDim);
      std::vector<double> heads(static_cast<std::size_t>(steps * kWidth));
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t i = 0; i < steps; ++i) Row(q, k, v, h, i, lengths.empty() ? steps : lengths[b], heads);
      }
      const std::vector<double> rows = Linear("W_o", heads, kWidth);
      out.insert(out.end(), rows.begin(), rows.end());
    }
    return out;
  }

 private:
  std::vector<double> Linear(const std::string& name, const std::vector<double>& x, int64_t width) const {
    const std::vector<float>&w = weights_.at(name + ".weight"), &bias = weights_.at(name + ".bias");
    std::vector<double> y;
    for (std::size_t r = 0; r < x.size() / kWidth; ++r) {
      for (int64_t o = 0; o < width; ++o) {
        y.push_back(bias[o]);
        for (int64_t c = 0; c < kWidth; ++c) y.back() += double{w[o * kWidth + c]} * x[r * kWidth + c];
      }
    }
    return y;
  }

  // The head's vector of a step, turned where the scheme turns.
  std::vector<double> Vector(const std::vector<double>& rows, int64_t heads, int64_t h, int64_t step, bool turned) const {
    std::vector<double> x(rows.begin() + (step * heads + h) * kHeadDim, rows.begin() + (step * heads + h + 1) * kHeadDim);
    if (!turned || !std::holds_alternative<RotaryPosition>(options_.position)) return x;
    std::vector<double> y = x;
    for (int64_t t = 0; t < kHeadDim / 2; ++t) {
      const double angle = static_cast<double>(step) * std::pow(10000.0, -2.0 * static_cast<double>(t) / kHeadDim);
      const double a = x[t], b = x[t + kHeadDim / 2];
      y[t] = a * std::cos(angle) - b * std::sin(angle);
      y[t + kHeadDim / 2] = b * std::cos(angle) + a * std::sin(angle);
    }
    return y;
  }

  double Bias(int64_t h, int64_t offset) const {
    if (std::holds_alternative<AlibiPosition>(options_.position)) {
      return -AlibiSlopes(kHeads)[h] * std::abs(static_cast<double>(offset));
    }
    if (const auto* relative = std::get_if<RelativeBiasPosition>(&options_.position)) {
      const int64_t reach = relative->max_distance;
      return weights_.at("position.relative_bias")[h * (2 * reach + 1) + std::clamp(offset, -reach, reach) + reach];
    }
    if (const auto* t5 = std::get_if<T5Position>(&options_.position)) {
      int64_t buckets[2 * kSteps + 1];
      T5Buckets(t5->options, kSteps, View<int64_t, 1>::Contiguous(buckets, {2 * kSteps + 1}));
      return weights_.at("position.weight")[buckets[offset + kSteps] * kHeads + h];
    }
    return 0.0;
  }

  double Shaw(const char* name, int64_t offset, int64_t column) const {
    const auto* shaw = std::get_if<ShawPosition>(&options_.position);
    if (shaw == nullptr) return 0.0;
    const auto table = weights_.find(std::string("position.") + name);
    const int64_t row = std::clamp(offset, -shaw->max_distance, shaw->max_distance) + shaw->max_distance;
    return table == weights_.end() ? 0.0 : table->second[row * kHeadDim + column];
  }

  void Row(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v, int64_t h, int64_t i,
           int64_t length, std::vector<double>& heads) const {
    const int64_t kv_head = h / (kHeads / kv_heads_);
    const int64_t seen = options_.causal == Causal::kNone ? length : std::min(length, i + 1);
    const std::vector<double> query = Vector(q, kHeads, h, i, true);
    std::vector<double> weights;
    double sum = 0.0;
    for (int64_t j = 0; j < seen; ++j) {
      const std::vector<double> key = Vector(k, kv_heads_, kv_head, j, true);
      double score = 0.0;
      for (int64_t c = 0; c < kHeadDim; ++c) {
        score += query[c] * (key[c] + Shaw("keys", j - i, c)) + key[c] * Shaw("queries", j - i, c);
      }
      score *= options_.scale.value_or(1.0 / std::sqrt(double{kHeadDim}));
      if (options_.softcap) score = *options_.softcap * std::tanh(score / *options_.softcap);
      const bool outside = options_.window.left >= 0 && i - j > options_.window.left;
      weights.push_back(outside ? 0.0 : std::exp(score + Bias(h, j - i)));
      sum += weights.back();
    }
    for (int64_t j = 0; j < seen; ++j) {
      const std::vector<double> value = Vector(v, kv_heads_, kv_head, j, false);
      for (int64_t c = 0; c < kHeadDim; ++c) {
        heads[(i * kHeads + h) * kHeadDim + c] += weights[j] / sum * (value[c] + Shaw("values", j - i, c));
      }
    }
  }

  MultiHeadAttentionOptions options_;
  int64_t kv_heads_;
  std::map<std::string, std::vector<float>> weights_;
};

MultiHeadAttentionOptions Options(AttentionPosition position, Causal causal) {
  MultiHeadAttentionOptions options;
  options.num_hiddens = kWidth;
  options.num_heads = kHeads;
  options.bias = true;
  options.causal = causal;
  options.position = std::move(position);
  return options;
}

std::vector<AttentionPosition> Schemes() {
  T5Options t5{8, 6, false};
  return {std::monostate{},
          RotaryPosition{},
          AlibiPosition{},
          RelativeBiasPosition{2},
          T5Position{t5},
          ShawPosition{2},
          ShawPosition{3, false, true}};
}

TEST(MultiHeadAttentionTest, IsTheFormulaForEveryScheme) {
  const std::vector<float> X = RandomInput();
  for (const AttentionPosition& scheme : Schemes()) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
      for (const int64_t kv_heads : {int64_t{1}, kHeads}) {
        MultiHeadAttentionOptions options = Options(scheme, causal);
        options.kv_heads = kv_heads;
        MultiHeadAttention attention(options);
        const auto weights = RandomWeights(attention.parameters());
        Assign(attention.parameters(), weights);
        const std::vector<int64_t> lengths{5, kSteps};
        for (const bool padded : {false, true}) {
          const std::vector<float> out =
              Forward(attention, InputView(X), padded ? Lengths::PerBatch(lengths.data(), kBatch) : Lengths());
          const std::vector<double> expected = Formula(options, weights)(X, padded ? lengths : std::vector<int64_t>());
          for (std::size_t i = 0; i < out.size(); ++i) {
            ASSERT_NEAR(out[i], expected[i], 1e-5) << scheme.index() << ' ' << static_cast<int>(causal) << ' ' << i;
          }
        }
      }
    }
  }
}

TEST(MultiHeadAttentionTest, ScaleSoftcapAndWindowCount) {
  MultiHeadAttentionOptions scaled = Options({}, Causal::kBottomRight), capped = scaled, windowed = scaled;
  scaled.scale = 0.3;
  capped.softcap = 0.5;
  windowed.window = {2, -1};
  const std::vector<float> X = RandomInput();
  for (const MultiHeadAttentionOptions& options : {scaled, capped, windowed}) {
    MultiHeadAttention attention(options);
    const auto weights = RandomWeights(attention.parameters());
    Assign(attention.parameters(), weights);
    const std::vector<float> out = Forward(attention, InputView(X));
    const std::vector<double> expected = Formula(options, weights)(X, {});
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-5) << i;
  }
}

TEST(MultiHeadAttentionTest, StepsWithACacheAreTheWholePass) {
  const std::vector<float> X = RandomInput();
  for (const AttentionPosition& scheme : Schemes()) {
    MultiHeadAttention attention(Options(scheme, Causal::kBottomRight));
    Assign(attention.parameters(), RandomWeights(attention.parameters()));
    const std::vector<float> whole = Forward(attention, InputView(X));
    KeyValueCache<float> cache = attention.NewCache(kBatch);
    int64_t done = 0;
    for (const int64_t count : {int64_t{3}, int64_t{1}, int64_t{2}, int64_t{1}}) {
      const View<const float, 3> all = InputView(X);
      const View<const float, 3> part{all.data + done * kWidth, {kBatch, count, kWidth}, all.stride};
      const std::vector<float> out = Forward(attention, part, {}, &cache);
      for (int64_t b = 0; b < kBatch; ++b) {
        for (int64_t i = 0; i < count * kWidth; ++i) {
          ASSERT_NEAR(out[b * count * kWidth + i], whole[(b * kSteps + done) * kWidth + i], 2e-6) << scheme.index();
        }
      }
      done += count;
      EXPECT_EQ(cache.length(), done);
    }
  }
}

TEST(MultiHeadAttentionTest, ValidLensBeyondTheEndsCountAsTheEnds) {
  MultiHeadAttention attention(Options({}, Causal::kNone));
  Assign(attention.parameters(), RandomWeights(attention.parameters()));
  const std::vector<float> X = RandomInput();
  const std::vector<int64_t> beyond{-3, 99}, ends{0, kSteps};
  EXPECT_EQ(Forward(attention, InputView(X), Lengths::PerBatch(beyond.data(), kBatch)),
            Forward(attention, InputView(X), Lengths::PerBatch(ends.data(), kBatch)));
}

TEST(MultiHeadAttentionTest, WhatDoesNotFitIsNamed) {
  EXPECT_EQ(WhatOf<InvalidArgument>([] { MultiHeadAttention(100, 7); }),
            "MultiHeadAttention: num_hiddens (100) must be a positive multiple of num_heads (7), or head_dim be given for "
            "heads of another width");
  MultiHeadAttentionOptions odd = Options(RotaryPosition{}, Causal::kNone);
  odd.num_heads = 4;
  EXPECT_NE(WhatOf<InvalidArgument>([&] { MultiHeadAttention{odd}; }).find("rotary_dim: expected an even number in 2..3"),
            std::string::npos);
  MultiHeadAttentionOptions far = Options(T5Position{T5Options{32, int64_t{1} << 26, false}}, Causal::kNone);
  EXPECT_NE(WhatOf<InvalidArgument>([&] { MultiHeadAttention{far}; }).find("at most 2^26 for num_heads"), std::string::npos);

  MultiHeadAttention attention(Options({}, Causal::kBottomRight));
  const std::vector<float> X = RandomInput();
  EXPECT_NE(WhatOf<InvalidArgument>([&] { Forward(attention, InputView(X)); }).find("weights were not loaded"),
            std::string::npos);
  Assign(attention.parameters(), RandomWeights(attention.parameters()));
  std::vector<float> out(X.size(), 7.0f);
  const auto narrow = View<const float, 3>::Contiguous(X.data(), {kBatch, kSteps, kWidth - 1});
  const auto out_view = View<float, 3>::Contiguous(out.data(), {kBatch, kSteps, kWidth});
  EXPECT_EQ(WhatOf<InvalidArgument>([&] { attention.Forward(InputView(X), narrow, InputView(X), out_view); }),
            "MultiHeadAttention: keys: expected shape [batch, steps, 12], got [2, 7, 11]");
  const std::vector<int64_t> lengths(3, 1);
  EXPECT_EQ(WhatOf<InvalidArgument>([&] {
              attention.Forward(InputView(X), InputView(X), InputView(X), out_view, Lengths::PerBatch(lengths.data(), 3));
            }),
            "MultiHeadAttention: valid_lens: expected shape [2] or [2, 7], got [3, 1]");
  EXPECT_EQ(out, std::vector<float>(X.size(), 7.0f));
}

TEST(MultiHeadAttentionTest, ARefusedStepLeavesTheCacheAsItWas) {
  MultiHeadAttention attention(Options({}, Causal::kBottomRight));
  Assign(attention.parameters(), RandomWeights(attention.parameters()));
  const std::vector<float> X = RandomInput();
  KeyValueCache<float> cache = attention.NewCache(kBatch);
  Forward(attention, InputView(X), {}, &cache);
  // An output whose elements share memory is found out last, by the output projection.
  std::vector<float> out(X.size());
  const View<float, 3> overlapping{out.data(), {kBatch, kSteps, kWidth}, {kSteps * kWidth, 1, 1}};
  EXPECT_NE(WhatOf<InvalidArgument>([&] {
              attention.Forward(InputView(X), InputView(X), InputView(X), overlapping, {}, &cache);
            }).find("overlap"),
            std::string::npos);
  EXPECT_EQ(cache.length(), kSteps);
  KeyValueCache<float> other = attention.NewCache(kBatch + 1);
  EXPECT_NE(WhatOf<InvalidArgument>([&] { Forward(attention, InputView(X), {}, &other); }).find("cache: expected a batch of 2"),
            std::string::npos);
  KeyValueCache<float> narrow(kBatch, 1, 2, 2);
  EXPECT_NE(
      WhatOf<InvalidArgument>([&] { Forward(attention, InputView(X), {}, &narrow); }).find("cache: expected one of NewCache()"),
      std::string::npos);
}

}  // namespace
}  // namespace heed
