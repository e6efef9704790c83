// Products of pairs on every target: the definition in simd/pair_product.h to the bit, and what calls make of them.
#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pair_product_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "simd/pair_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

void Multiply(const simd::PairScalars& a, const simd::PairVectors& b, const simd::PairSize& size, const simd::PairTarget& c) {
  simd::Ahead ahead;
  ahead.Clear();
  const DenormalsAsZero zero;
  PairProduct(a, b, size, c, ahead);
}

bool OperandsInPairs() { return InPairs(); }

void Round(float* tile, int64_t stride, int64_t rows, int64_t width, const simd::RoundedTile& rounded) {
  RoundTile(tile, stride, rows, width, rounded);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "hwy/aligned_allocator.h"
#include "targets.h"

namespace heed {
HWY_EXPORT(Multiply);
HWY_EXPORT(Round);
HWY_EXPORT(OperandsInPairs);

namespace {

constexpr uint16_t kQuietNan = 0x7FC0;

// Numbers below the smallest normal one are 0.
float Flushed(float x) { return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x; }
float Value(uint16_t bits) { return Flushed(ToFloat(BFloat16{bits})); }

class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed) : engine_(seed) {}

  // Of sizes near 1, or of all sizes, denormal ones among them.
  uint16_t Bits(bool all) {
    const auto bits = static_cast<uint16_t>(engine_());
    if (all) return (bits & 0x7F80) == 0x7F80 ? static_cast<uint16_t>(bits ^ 0x4000) : bits;
    return ToBFloat16(normal_(engine_)).bits;
  }
  float Number() { return normal_(engine_); }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<float> normal_;
};

struct Product {
  int64_t rows, steps, width;
  bool along_steps;  // whether the steps of a row of A are neighbours, else its rows are
  bool accumulates;
  float factor;
};

// What simd/pair_product.h says of one element.
float Expected(const Product& p, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b, int64_t r, int64_t w,
               float held) {
  const auto at = [&](const std::vector<uint16_t>& m, int64_t outer, int64_t inner, int64_t extent) {
    return Value(m[static_cast<std::size_t>(outer * extent + inner)]);
  };
  const bool starts = p.accumulates && p.factor == 1;
  float sum = starts ? held : 0.0F;
  for (int64_t step = 0; step < p.steps; step += 2)
    for (const int64_t s : {step + 1, step}) {
      if (s < p.steps) sum = Flushed(std::fma(at(a, r, s, p.steps), at(b, s, w, p.width), Flushed(sum)));
    }
  if (p.factor == 1) return sum;
  return Flushed(p.accumulates ? std::fma(sum, p.factor, Flushed(held)) : sum * p.factor);
}

std::vector<uint16_t> Drawn(RandomNumbers& random, int64_t count, bool all) {
  std::vector<uint16_t> bits(static_cast<std::size_t>(count));
  for (uint16_t& x : bits) x = random.Bits(all);
  return bits;
}

// A and B as calls lay them on the target in use.
class Operands {
 public:
  Operands(const Product& p, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b)
      : vectors_(hwy::AllocateAligned<uint32_t>(static_cast<std::size_t>(p.steps * p.width + p.width) + 1)) {
    if (HWY_DYNAMIC_DISPATCH(OperandsInPairs)()) {
      LayPairs(p, a, b);
    } else {
      LayFloats(p, a, b);
    }
  }

  const simd::PairScalars& scalars() const { return scalars_; }
  const uint32_t* vectors() const { return vectors_.get(); }

 private:
  // A lies as rows, or pair by pair with the rows side by side; what is not read is no number.
  void LayPairs(const Product& p, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
    const int64_t pairs = (p.steps + 1) / 2;
    pairs_.assign(static_cast<std::size_t>(2 * pairs * p.rows), kQuietNan);
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t s = 0; s < p.steps; ++s)
        pairs_[static_cast<std::size_t>(p.along_steps ? r * 2 * pairs + s : (s / 2 * p.rows + r) * 2 + s % 2)] =
            a[static_cast<std::size_t>(r * p.steps + s)];
    scalars_ = p.along_steps ? simd::PairScalars{pairs_.data(), 2 * pairs, 2} : simd::PairScalars{pairs_.data(), 2, 2 * p.rows};
    std::fill_n(vectors_.get(), pairs * p.width, 0U);
    for (int64_t s = 0; s < p.steps; ++s)
      for (int64_t w = 0; w < p.width; ++w)
        vectors_[static_cast<std::size_t>(s / 2 * p.width + w)] |= uint32_t{b[static_cast<std::size_t>(s * p.width + w)]}
                                                                   << (s % 2 * 16);
  }
  void LayFloats(const Product& p, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
    floats_.resize(a.size());
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t s = 0; s < p.steps; ++s)
        floats_[static_cast<std::size_t>(p.along_steps ? r * p.steps + s : s * p.rows + r)] =
            ToFloat(BFloat16{a[static_cast<std::size_t>(r * p.steps + s)]});
    scalars_ = p.along_steps ? simd::PairScalars{floats_.data(), p.steps, 1} : simd::PairScalars{floats_.data(), 1, p.rows};
    for (std::size_t x = 0; x < b.size(); ++x) vectors_[x] = uint32_t{b[x]} << 16;
  }

  std::vector<uint16_t> pairs_;
  std::vector<float> floats_;
  simd::PairScalars scalars_{};
  hwy::AlignedFreeUniquePtr<uint32_t[]> vectors_;
};

void ExpectDefinition(const Product& p, bool all, const std::string& what) {
  RandomNumbers random(static_cast<uint64_t>(p.rows * 1000 + p.steps * 10 + p.width));
  const std::vector<uint16_t> a = Drawn(random, p.rows * p.steps, all), b = Drawn(random, p.steps * p.width, all);
  const Operands operands(p, a, b);
  hwy::AlignedFreeUniquePtr<float[]> c = hwy::AllocateAligned<float>(static_cast<std::size_t>(p.rows * p.width) + 1);
  std::vector<float> held;
  for (int64_t x = 0; x < p.rows * p.width; ++x) held.push_back(c[static_cast<std::size_t>(x)] = random.Number());
  HWY_DYNAMIC_DISPATCH(Multiply)
  (operands.scalars(), {operands.vectors(), p.width}, {p.rows, p.steps, p.width}, {c.get(), p.width, p.accumulates, p.factor});
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t w = 0; w < p.width; ++w) {
      const auto at = static_cast<std::size_t>(r * p.width + w);
      const float expected = Expected(p, a, b, r, w, held[at]);
      if (std::isnan(expected) && std::isnan(c[at])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(c[at]), std::bit_cast<uint32_t>(expected))
          << what << ": " << c[at] << " for " << expected << ", rows " << p.rows << ", steps " << p.steps << ", width "
          << p.width << ", row " << r << ", column " << w << ", factor " << p.factor;
    }
}

class PairProducts : public OnTarget {};

// Without an instruction that multiplies and adds at once a factor is rounded twice, and a product that is too small for a
// float is 0 before it is added.
bool Fuses(const std::string& target) { return target.starts_with("AVX"); }

TEST_P(PairProducts, AreWhatTheirDefinitionSays) {
  for (const bool all : {false, Fuses(GetParam())})
    for (const bool along_steps : {false, true})
      for (const int64_t rows : {1, 2, 5, 13, 70})
        for (const int64_t steps : {0, 1, 2, 7, 64, 131})
          for (const int64_t width : {16, 48, 144}) {
            ExpectDefinition({rows, steps, width, along_steps, false, 1}, all, GetParam());
            ExpectDefinition({rows, steps, width, along_steps, true, 1}, all, GetParam());
            ExpectDefinition({rows, steps, width, along_steps, false, 0.3F}, all, GetParam());
            if (Fuses(GetParam())) ExpectDefinition({rows, steps, width, along_steps, true, 0.3F}, all, GetParam());
          }
}

TEST_P(PairProducts, TilesAreRoundedToNearestEven) {
  constexpr int64_t kRows = 7, kWidth = 48;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  RandomNumbers random(1);
  hwy::AlignedFreeUniquePtr<float[]> tile = hwy::AllocateAligned<float>(kRows * kWidth);
  for (int64_t x = 0; x < kRows * kWidth; ++x) tile[static_cast<std::size_t>(x)] = random.Number();
  const float odd[] = {0.0F, -0.0F, 1e-40F, -1e-40F, kInfinity, -kInfinity, 3.4e38F, std::bit_cast<float>(0x7FC00001U),
                       // Ties: to even below, to even above.
                       std::bit_cast<float>(0x3F808000U), std::bit_cast<float>(0x3F818000U)};
  std::copy(std::begin(odd), std::end(odd), tile.get());
  std::vector<uint32_t> pairs((kRows + 1) / 2 * kWidth);
  std::vector<uint16_t> rows(kRows * kWidth);
  const std::vector<float> given(tile.get(), tile.get() + kRows * kWidth);
  const bool in_pairs = HWY_DYNAMIC_DISPATCH(OperandsInPairs)();
  HWY_DYNAMIC_DISPATCH(Round)(tile.get(), kWidth, kRows, kWidth, {pairs.data(), rows.data()});
  for (int64_t j = 0; j < kRows; ++j)
    for (int64_t w = 0; w < kWidth; ++w) {
      const auto at = static_cast<std::size_t>(j * kWidth + w);
      const uint16_t expected = ToBFloat16(Flushed(given[at])).bits;
      if (!in_pairs) {
        EXPECT_EQ(std::bit_cast<uint32_t>(tile[at]), uint32_t{expected} << 16) << GetParam() << ": " << given[at];
        continue;
      }
      EXPECT_EQ(rows[at], expected) << GetParam() << ": " << given[at];
      EXPECT_EQ(pairs[static_cast<std::size_t>(j / 2 * kWidth + w)] >> (j % 2 * 16) & 0xFFFFU, expected) << given[at];
    }
  for (int64_t w = 0; in_pairs && w < kWidth; ++w) EXPECT_EQ(pairs[static_cast<std::size_t>(kRows / 2 * kWidth + w)] >> 16, 0U);
}

HEED_ON_TARGETS(PairProducts);

struct Results {
  std::vector<BFloat16> out, d_q, d_k, d_v;
  std::vector<float> lse;

  std::vector<uint32_t> Bits() const {
    std::vector<uint32_t> bits;
    for (const auto* array : {&out, &d_q, &d_k, &d_v})
      for (const BFloat16 x : *array) bits.push_back(x.bits);
    for (const float x : lse) bits.push_back(std::bit_cast<uint32_t>(x));
    return bits;
  }
};

// A call of random numbers of a size, forward and backward.
Results Call(const Shape& s, const Attention& attention, float size) {
  RandomNumbers random(5);
  const auto drawn = [&](int64_t count) {
    std::vector<BFloat16> numbers(static_cast<std::size_t>(count));
    for (BFloat16& x : numbers) x = ToBFloat16(size * random.Number());
    return numbers;
  };
  const auto view = [](auto& numbers, int64_t heads, int64_t length, int64_t width) {
    return View<BFloat16, 4>::Contiguous(numbers.data(), {1, heads, length, width});
  };
  auto q = drawn(s.q_heads * s.q_len * s.head_dim), k = drawn(s.kv_heads * s.kv_len * s.head_dim);
  auto v = drawn(s.kv_heads * s.kv_len * s.value_dim), d_out = drawn(s.q_heads * s.q_len * s.value_dim);
  Results r{.out = d_out, .d_q = q, .d_k = k, .d_v = v, .lse = {}};
  r.lse.resize(static_cast<std::size_t>(s.q_heads * s.q_len));
  const auto lse = View<float, 3>::Contiguous(r.lse.data(), {1, s.q_heads, s.q_len});
  const auto queries = [&](auto& numbers, int64_t width) { return view(numbers, s.q_heads, s.q_len, width); };
  const auto keys = [&](auto& numbers, int64_t width) { return view(numbers, s.kv_heads, s.kv_len, width); };
  Workspace workspace;
  SerialExecutor serial;
  Forward<BFloat16>(attention, queries(q, s.head_dim), keys(k, s.head_dim), keys(v, s.value_dim), queries(r.out, s.value_dim),
                    lse, workspace, serial);
  Backward<BFloat16>(attention, queries(q, s.head_dim), keys(k, s.head_dim), keys(v, s.value_dim), queries(r.out, s.value_dim),
                     lse, queries(d_out, s.value_dim), queries(r.d_q, s.head_dim), keys(r.d_k, s.head_dim),
                     keys(r.d_v, s.value_dim), {}, workspace, serial);
  return r;
}

// The processor's instruction and the two that take its place: nothing else differs between the two targets.
TEST(PairCalls, HaveTheSameBitsWithAndWithoutTheInstruction) {
  const std::vector<std::string> targets = SupportedTargets();
  if (std::find(targets.begin(), targets.end(), "AVX3_BF16") == targets.end())
    GTEST_SKIP() << "this processor has no products of bfloat16 pairs";
  for (const Shape& shape : {Shape{1, 2, 2, 100, 100, 64, 64}, Shape{1, 4, 2, 65, 129, 33, 47},
                             Shape{1, 8, 1, 6, 700, 128, 128}, Shape{1, 2, 2, 17, 3, 5, 1}})
    for (const Precision precision : {Precision::kFloat32, Precision::kFused})
      for (const float size : {1e-19F, 1.0F, 30.0F}) {
        Attention attention;
        attention.precision = precision;
        attention.causal = Causal::kBottomRight;
        attention.dropout.probability = 0.1;
        UseTarget("AVX3_BF16");
        const Results with = Call(shape, attention, size);
        UseTarget("AVX3");
        const Results without = Call(shape, attention, size);
        UseTarget("");
        EXPECT_EQ(with.Bits(), without.Bits()) << shape.q_len << " queries, size " << size;
      }
}

TEST(PairCalls, PrecisionRoundsWeightsOfBfloat16Alone) {
  Attention exact, fused;
  fused.precision = Precision::kFused;
  const Shape shape{1, 2, 2, 70, 90, 32, 32};
  const Results a = Call(shape, exact, 1), b = Call(shape, fused, 1);
  // Scores know no difference; their sum is taken from another reference.
  for (std::size_t x = 0; x < a.lse.size(); ++x)
    EXPECT_NEAR(a.lse[x], b.lse[x], 4 * std::numeric_limits<float>::epsilon() * std::abs(a.lse[x]));
  EXPECT_NE(a.Bits(), b.Bits());

  std::vector<float> numbers(70 * 32), out(numbers.size()), again(numbers.size());
  RandomNumbers random(2);
  for (float& x : numbers) x = random.Number();
  const auto rows = View<const float, 4>::Contiguous(numbers.data(), {1, 1, 70, 32});
  const auto to = [](std::vector<float>& array) { return View<float, 4>::Contiguous(array.data(), {1, 1, 70, 32}); };
  Forward<float>(exact, rows, rows, rows, to(out));
  Forward<float>(fused, rows, rows, rows, to(again));
  EXPECT_EQ(out, again);
}

}  // namespace
}  // namespace heed
#endif
