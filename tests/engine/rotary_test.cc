// Rotation against its formula, its group properties, every way to lay out memory; frequencies against closed forms.
#include "heed/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "heed/error.h"

namespace heed {
namespace {

template <class T>
struct Array {
  explicit Array(size_t size, double seed = 0) : values(size) {
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<T>(std::sin(seed + 1.7 * static_cast<double>(i)));
  }
  template <int Rank>
  View<T, Rank> Of(std::array<int64_t, Rank> extent) {
    return View<T, Rank>::Contiguous(values.data(), extent);
  }
  std::vector<T> values;
};

// cos and sin [N, R] of positions first .. first + N - 1, as tables of one batch row.
template <class T>
struct Tables {
  Tables(const RotaryFrequencies& frequencies, int64_t first, int64_t steps)
      : pairs(static_cast<int64_t>(frequencies.values.size())),
        cos_values(static_cast<size_t>(steps * pairs)),
        sin_values(cos_values.size()),
        cos(View<T, 3>::Contiguous(cos_values.data(), {1, steps, pairs})),
        sin(View<T, 3>::Contiguous(sin_values.data(), {1, steps, pairs})) {
    RotaryTable(frequencies, first, View<T, 2>::Contiguous(cos_values.data(), {steps, pairs}),
                View<T, 2>::Contiguous(sin_values.data(), {steps, pairs}));
  }
  int64_t pairs;
  std::vector<T> cos_values, sin_values;
  View<T, 3> cos, sin;
};

RotaryOptions Options(int64_t rotary_dim, RotaryScaling scaling = {}, double base = 10000.0) {
  return {rotary_dim, base, std::move(scaling), Angles::kFloat64};
}

std::vector<double> Frequencies(int64_t rotary_dim, RotaryScaling scaling = {}, int64_t length = 0) {
  return ComputeRotaryFrequencies(Options(rotary_dim, std::move(scaling)), length).values;
}

template <class T>
void Rotate(const Rotation& rotation, View<T, 4> x, const Tables<T>& tables, View<T, 4> out) {
  SerialExecutor serial;
  ApplyRotary(rotation, x, tables.cos, tables.sin, out, serial);
}

class BothLayouts : public testing::TestWithParam<RotaryLayout> {};
INSTANTIATE_TEST_SUITE_P(Rotary, BothLayouts, testing::Values(RotaryLayout::kHalf, RotaryLayout::kInterleaved));

TEST_P(BothLayouts, TurnsEachPairByItsAngle) {
  constexpr int64_t kBatch = 2, kHeads = 3, kSteps = 5, kWidth = 11, kDim = 6;
  const Tables<double> tables(ComputeRotaryFrequencies(Options(kDim)), 7, kSteps);
  Array<double> x(kBatch * kHeads * kSteps * kWidth), out(x.values.size(), 9);
  const auto from = x.Of<4>({kBatch, kHeads, kSteps, kWidth}), to = out.Of<4>({kBatch, kHeads, kSteps, kWidth});
  Rotate({GetParam(), false}, from, tables, to);
  const bool half = GetParam() == RotaryLayout::kHalf;
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < kSteps; ++i) {
        for (int64_t t = 0; t < kDim / 2; ++t) {
          const int64_t first = half ? t : 2 * t, second = half ? t + kDim / 2 : 2 * t + 1;
          const double angle = static_cast<double>(7 + i) / std::pow(10000.0, 2.0 * static_cast<double>(t) / kDim);
          const double a = from(b, h, i, first), c = from(b, h, i, second);
          EXPECT_NEAR(to(b, h, i, first), a * std::cos(angle) - c * std::sin(angle), 1e-15);
          EXPECT_NEAR(to(b, h, i, second), c * std::cos(angle) + a * std::sin(angle), 1e-15);
        }
        for (int64_t c = kDim; c < kWidth; ++c) EXPECT_EQ(to(b, h, i, c), from(b, h, i, c));
      }
}

// Angles in double are off by at most 1e6 * 2^-53 = 1.1e-10 at a million, and a product has 64 pairs of length
// at most 2; their errors add up with signs.
TEST_P(BothLayouts, SeesDistanceAloneUpToAMillion) {
  constexpr int64_t kWidth = 128;
  const RotaryFrequencies frequencies = ComputeRotaryFrequencies(Options(kWidth));
  Array<double> q(kWidth, 1), k(kWidth, 2), q_turned(kWidth), k_turned(kWidth);
  const auto product = [&](int64_t i, int64_t j) {
    Rotate({GetParam(), false}, q.Of<4>({1, 1, 1, kWidth}), Tables<double>(frequencies, i, 1),
           q_turned.Of<4>({1, 1, 1, kWidth}));
    Rotate({GetParam(), false}, k.Of<4>({1, 1, 1, kWidth}), Tables<double>(frequencies, j, 1),
           k_turned.Of<4>({1, 1, 1, kWidth}));
    double sum = 0;
    for (size_t c = 0; c < kWidth; ++c) sum += q_turned.values[c] * k_turned.values[c];
    return sum;
  };
  for (int64_t shift : {int64_t{1}, int64_t{1000}, int64_t{999983}, int64_t{1000000}})
    for (int64_t distance : {-37, 0, 5})
      EXPECT_NEAR(product(40 + shift, 40 + distance + shift), product(40, 40 + distance), 1e-9) << shift << " " << distance;
  EXPECT_GT(std::abs(product(40, 45) - product(40, 46)), 0.1);
}

TEST_P(BothLayouts, KeepsNormsAndIsUndoneByTheInverse) {
  Array<float> x(4 * 9 * 10), turned(x.values.size()), back(x.values.size());
  const Tables<float> tables(ComputeRotaryFrequencies(Options(10)), 100, 9);
  Rotate({GetParam(), false}, x.Of<4>({2, 2, 9, 10}), tables, turned.Of<4>({2, 2, 9, 10}));
  Rotate({GetParam(), true}, turned.Of<4>({2, 2, 9, 10}), tables, back.Of<4>({2, 2, 9, 10}));
  double change = 0;
  for (size_t row = 0; row < 36; ++row) {
    double before = 0, after = 0;
    for (size_t c = 10 * row; c < 10 * row + 10; ++c) {
      before += std::pow(static_cast<double>(x.values[c]), 2), after += std::pow(static_cast<double>(turned.values[c]), 2);
      EXPECT_NEAR(back.values[c], x.values[c], 4e-7);  // a few roundings of numbers up to 1.5
      change = std::max(change, std::abs(static_cast<double>(turned.values[c] - x.values[c])));
    }
    EXPECT_NEAR(after, before, 3e-6);
  }
  EXPECT_GT(change, 0.1);
}

// The transpose: <R x, y> = <x, R^-1 y>, which is what a gradient needs, with an attention factor too.
TEST_P(BothLayouts, InverseIsTheTranspose) {
  RotaryFrequencies frequencies = ComputeRotaryFrequencies(Options(6));
  frequencies.attention_factor = 1.3;
  const Tables<double> tables(frequencies, 3, 4);
  Array<double> x(4 * 8, 1), y(4 * 8, 5), x_turned(4 * 8), y_back(4 * 8);
  Rotate({GetParam(), false}, x.Of<4>({1, 1, 4, 8}), tables, x_turned.Of<4>({1, 1, 4, 8}));
  Rotate({GetParam(), true}, y.Of<4>({1, 1, 4, 8}), tables, y_back.Of<4>({1, 1, 4, 8}));
  double left = 0, right = 0;
  for (size_t i = 0; i < x.values.size(); ++i)
    left += x_turned.values[i] * y.values[i], right += x.values[i] * y_back.values[i];
  EXPECT_NEAR(left, right, 1e-13);
}

TEST_P(BothLayouts, WorksInPlaceAndWithAnyStrides) {
  constexpr int64_t kBatch = 2, kHeads = 3, kSteps = 70, kWidth = 9;
  const Tables<float> tables(ComputeRotaryFrequencies(Options(8)), 0, kSteps);
  Array<float> x(kBatch * kHeads * kSteps * kWidth), expected(x.values.size());
  const auto dense = x.Of<4>({kBatch, kHeads, kSteps, kWidth}), plain = expected.Of<4>({kBatch, kHeads, kSteps, kWidth});
  Rotate({GetParam(), false}, dense, tables, plain);

  // Rows last to first, columns two apart, heads inside the steps.
  std::vector<float> memory(static_cast<size_t>(2 * kBatch * kHeads * kSteps * kWidth), -7.0f);
  const View<float, 4> strided{memory.data() + 2 * kWidth * kHeads * (kSteps - 1),
                               dense.extent,
                               {2 * kWidth * kHeads * kSteps, 2 * kWidth, -2 * kWidth * kHeads, 2}};
  Rotate({GetParam(), false}, dense, tables, strided);
  const auto compare = [&](const View<float, 4>& view) {
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t i = 0; i < kSteps; ++i)
          for (int64_t c = 0; c < kWidth; ++c) ASSERT_EQ(view(b, h, i, c), plain(b, h, i, c));
  };
  compare(strided);
  for (size_t i = 1; i < memory.size(); i += 2) ASSERT_EQ(memory[i], -7.0f) << "the gaps stay";

  Rotate({GetParam(), true}, strided, tables, strided);
  Rotate({GetParam(), false}, strided, tables, strided);
  for (int64_t c = 0; c < kWidth; ++c) EXPECT_NEAR(strided(1, 2, 69, c), plain(1, 2, 69, c), 1e-6f);
  Rotate({GetParam(), false}, dense, tables, dense);
  compare(dense);

  // Keys that all heads share: stride 0 on the input.
  View<float, 4> shared = plain;
  shared.stride[1] = 0;
  Array<float> out(x.values.size());
  Rotate({GetParam(), false}, shared, tables, out.Of<4>(dense.extent));
  EXPECT_EQ(out.Of<4>(dense.extent)(1, 0, 5, 3), out.Of<4>(dense.extent)(1, 2, 5, 3));
}

TEST(Rotary, InterleavedIsHalfAfterAPermutation) {
  const Tables<double> tables(ComputeRotaryFrequencies(Options(8)), 11, 3);
  Array<double> x(3 * 8), permuted(3 * 8), half(3 * 8), interleaved(3 * 8);
  for (size_t i = 0; i < 3; ++i)
    for (size_t t = 0; t < 4; ++t)
      for (size_t part = 0; part < 2; ++part) permuted.values[8 * i + t + 4 * part] = x.values[8 * i + 2 * t + part];
  Rotate({RotaryLayout::kInterleaved, false}, x.Of<4>({1, 1, 3, 8}), tables, interleaved.Of<4>({1, 1, 3, 8}));
  Rotate({RotaryLayout::kHalf, false}, permuted.Of<4>({1, 1, 3, 8}), tables, half.Of<4>({1, 1, 3, 8}));
  for (size_t i = 0; i < 3; ++i)
    for (size_t t = 0; t < 4; ++t)
      for (size_t part = 0; part < 2; ++part)
        EXPECT_EQ(half.values[8 * i + t + 4 * part], interleaved.values[8 * i + 2 * t + part]);
}

TEST(Rotary, DoesNotDependOnThreadsAndTakesTablesPerBatchRow) {
  constexpr int64_t kSteps = 600, kWidth = 64;
  const RotaryFrequencies frequencies = ComputeRotaryFrequencies(Options(kWidth));
  Array<float> x(2 * 2 * kSteps * kWidth), serial(x.values.size()), parallel(x.values.size());
  const std::array<int64_t, 4> shape{2, 2, kSteps, kWidth};
  Array<float> cos(2 * kSteps * kWidth / 2), sin(cos.values.size());
  const auto cos_view = cos.Of<3>({2, kSteps, kWidth / 2}), sin_view = sin.Of<3>({2, kSteps, kWidth / 2});
  const Tables<float> rows[2] = {{frequencies, 0, kSteps}, {frequencies, 5000, kSteps}};
  for (size_t b = 0; b < 2; ++b) {
    const auto size = static_cast<std::ptrdiff_t>(rows[b].cos_values.size());
    std::copy(rows[b].cos_values.begin(), rows[b].cos_values.end(), cos.values.begin() + static_cast<std::ptrdiff_t>(b) * size);
    std::copy(rows[b].sin_values.begin(), rows[b].sin_values.end(), sin.values.begin() + static_cast<std::ptrdiff_t>(b) * size);
  }
  SerialExecutor one;
  ThreadPool three(3);
  ApplyRotary({}, x.Of<4>(shape), cos_view, sin_view, serial.Of<4>(shape), one);
  ApplyRotary({}, x.Of<4>(shape), cos_view, sin_view, parallel.Of<4>(shape), three);
  EXPECT_EQ(serial.values, parallel.values);

  Array<float> alone(static_cast<size_t>(2 * kSteps * kWidth));
  View<float, 4> second = x.Of<4>(shape);
  second.data += second.stride[0], second.extent[0] = 1;
  Rotate({}, second, rows[1], alone.Of<4>(second.extent));
  EXPECT_TRUE(std::equal(alone.values.begin(), alone.values.end(), serial.values.begin() + 2 * kSteps * kWidth));
}

TEST(RotaryTable, TakesListsAndRealPositions) {
  const RotaryFrequencies frequencies = ComputeRotaryFrequencies(Options(6));
  const std::vector<int64_t> whole{5, 2, 1000000};
  const std::vector<double> real{5.0, 2.0, 1e6};
  const double half = 2.5;
  Array<double> by_list(2 * 9), by_real(2 * 9), at_half(2 * 3);
  const auto cos = [](Array<double>& a, int64_t n) { return View<double, 2>::Contiguous(a.values.data(), {n, 3}); };
  const auto sin = [](Array<double>& a, int64_t n) { return View<double, 2>::Contiguous(a.values.data() + 3 * n, {n, 3}); };
  RotaryTable(frequencies, View<const int64_t, 1>::Contiguous(whole.data(), {3}), cos(by_list, 3), sin(by_list, 3));
  RotaryTable(frequencies, View<const double, 1>::Contiguous(real.data(), {3}), cos(by_real, 3), sin(by_real, 3));
  RotaryTable(frequencies, View<const double, 1>::Contiguous(&half, {1}), cos(at_half, 1), sin(at_half, 1));
  EXPECT_EQ(by_list.values, by_real.values);
  for (int64_t t = 0; t < 3; ++t) {
    const long double angle = 1e6L / std::pow(10000.0L, 2.0L * t / 6.0L);
    EXPECT_NEAR(cos(by_list, 3)(2, t), static_cast<double>(std::cos(angle)), 2e-10);
    EXPECT_NEAR(sin(at_half, 1)(0, t), std::sin(2.5 * frequencies.values[static_cast<size_t>(t)]), 2e-16);
  }
  for (const double lost : {std::nan(""), 1.7e18, -1.7e18}) {
    EXPECT_THROW(RotaryTable(frequencies, View<const double, 1>::Contiguous(&lost, {1}), cos(at_half, 1), sin(at_half, 1)),
                 InvalidArgument);
  }
  const int64_t nanoseconds = 1700000000000000000;  // since 1970; a double holds them to multiples of 256
  EXPECT_THROW(
      RotaryTable(frequencies, View<const int64_t, 1>::Contiguous(&nanoseconds, {1}), cos(at_half, 1), sin(at_half, 1)),
      InvalidArgument);
  EXPECT_THROW(RotaryTable(frequencies, nanoseconds, cos(at_half, 1), sin(at_half, 1)), InvalidArgument);
  EXPECT_THROW(RotaryTable(frequencies, 0, cos(by_list, 3), cos(by_list, 3)), InvalidArgument) << "one memory for both";
}

// Angles in float, as pretrained models saw them: near below a thousand, visibly off at a million.
TEST(RotaryTable, OffersFloatAngles) {
  RotaryOptions options = Options(128);
  const RotaryFrequencies exact = ComputeRotaryFrequencies(options);
  options.angles = Angles::kFloat32;
  const RotaryFrequencies in_float = ComputeRotaryFrequencies(options);
  const auto error = [&](int64_t position) {
    const Tables<float> a(exact, position, 1), b(in_float, position, 1);
    double worst = 0;
    for (size_t t = 0; t < a.cos_values.size(); ++t)
      worst = std::max(worst, std::abs(static_cast<double>(a.cos_values[t] - b.cos_values[t])));
    return worst;
  };
  EXPECT_LT(error(900), 4e-5);
  EXPECT_GT(error(1000000), 1e-3);
  const Tables<float> rounded(in_float, 12345, 1);
  for (size_t t = 0; t < in_float.values.size(); ++t) {
    const auto frequency = static_cast<float>(in_float.values[t]);
    EXPECT_EQ(in_float.values[t], static_cast<double>(frequency));
    EXPECT_FLOAT_EQ(rounded.cos_values[t], std::cos(12345.0f * frequency));
  }
}

TEST(RotaryFrequencies, ScalingsByOneChangeNothing) {
  const std::vector<double> plain = Frequencies(16);
  for (size_t t = 0; t < 8; ++t) EXPECT_NEAR(plain[t], std::pow(10000.0, -static_cast<double>(t) / 8), 1e-16);
  EXPECT_EQ(Frequencies(16, LinearScaling{1.0}), plain);
  EXPECT_EQ(Frequencies(16, NtkScaling{1.0}), plain);
  EXPECT_EQ(Frequencies(16, DynamicScaling{2.0, 100}, 100), plain);
  EXPECT_EQ(Frequencies(16, DynamicScaling{1.0, 100}, 5000), Frequencies(16, NtkScaling{50.0}));
  const std::vector<double> ones(8, 1.0), twos(8, 2.0);
  EXPECT_EQ(Frequencies(16, LongRopeScaling{ones, twos, 64, 1.0, {}}, 64), plain) << "short up to the original length";
  EXPECT_EQ(Frequencies(16, LongRopeScaling{ones, twos, 64, 1.0, {}}, 65), Frequencies(16, LinearScaling{2.0}));
  const std::vector<double> yarn = Frequencies(16, YarnScaling{1.0, 64});
  const std::vector<double> llama3 = Frequencies(16, Llama3Scaling{1.0, 1.0, 4.0, 64});
  for (size_t t = 0; t < 8; ++t) {
    EXPECT_NEAR(yarn[t], plain[t], 1e-15);
    EXPECT_NEAR(llama3[t], plain[t], 1e-15);
  }
}

TEST(RotaryFrequencies, FollowTheirFormulas) {
  const std::vector<double> plain = Frequencies(16), ntk = Frequencies(16, NtkScaling{4.0});
  EXPECT_DOUBLE_EQ(ntk[0], plain[0]);
  EXPECT_NEAR(ntk[7], plain[7] / 4, 1e-16);  // that is what the exponent dim/(dim-2) is for
  EXPECT_NEAR(Frequencies(16, LinearScaling{4.0})[3], plain[3] / 4, 1e-17);
  // Dynamic at three times the original length: the factor 2 * 3 - 1.
  EXPECT_NEAR(Frequencies(16, DynamicScaling{2.0, 100}, 300)[7], plain[7] / 5, 1e-16);

  // Over 2000 positions the first pair turns 318 times and the last one 0.1 times.
  for (bool truncate : {true, false}) {
    const std::vector<double> yarn = Frequencies(16, YarnScaling{4.0, 2000, 32, 1, truncate, {}, {}, {}});
    EXPECT_DOUBLE_EQ(yarn[0], plain[0]);
    EXPECT_DOUBLE_EQ(yarn[7], plain[7] / 4);
    const double pair_fast = 8 * std::log(2000 / (32 * 2 * std::numbers::pi)) / std::log(10000.0);
    const double pair_slow = 8 * std::log(2000 / (2 * std::numbers::pi)) / std::log(10000.0);
    const double low = truncate ? std::floor(pair_fast) : pair_fast, high = truncate ? std::ceil(pair_slow) : pair_slow;
    const double ramp = (3 - low) / (high - low);
    EXPECT_NEAR(yarn[3], plain[3] * (1 - ramp) + plain[3] / 4 * ramp, 1e-15) << truncate;
  }
  const auto factor = [](const RotaryScaling& s) { return ComputeRotaryFrequencies(Options(16, s)).attention_factor; };
  EXPECT_NEAR(factor(YarnScaling{4.0, 2000}), 0.1 * std::log(4.0) + 1, 1e-15);
  EXPECT_NEAR(factor(YarnScaling{4.0, 2000, 32, 1, true, {}, 2.0, 1.0}), (0.2 * std::log(4.0) + 1) / (0.1 * std::log(4.0) + 1),
              1e-15);
  EXPECT_EQ(factor(YarnScaling{4.0, 2000, 32, 1, true, 0.5, {}, {}}), 0.5);
  const std::vector<double> ones(8, 1.0);
  EXPECT_NEAR(factor(LongRopeScaling{ones, ones, 64, 4.0, {}}), std::sqrt(1 + std::log(4.0) / std::log(64.0)), 1e-15);

  // Wavelengths 2 pi 10000^(t/8) against 2000/4 and 2000/1: pairs 0..3 stay, 6 and 7 are stretched, 4 and 5 blended.
  const std::vector<double> llama3 = Frequencies(16, Llama3Scaling{8.0, 1.0, 4.0, 2000});
  EXPECT_DOUBLE_EQ(llama3[3], plain[3]);
  EXPECT_DOUBLE_EQ(llama3[6], plain[6] / 8);
  const double smooth = (2000 / (2 * std::numbers::pi / plain[4]) - 1) / 3;
  EXPECT_NEAR(llama3[4], plain[4] * ((1 - smooth) / 8 + smooth), 1e-16);
}

template <class F>
void ExpectRefused(const F& call, const std::string& argument) {
  try {
    call();
    ADD_FAILURE() << argument << ": no exception";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, argument.size()), argument) << error.what();
  }
}

TEST(RotaryFrequencies, RefuseWhatHasNoMeaning) {
  const std::vector<double> ones(8, 1.0), few(7, 1.0), zeros(8, 0.0);
  for (int64_t dim : {0, 1, 7, -2}) ExpectRefused([&] { Frequencies(dim); }, "rotary_dim");
  ExpectRefused([&] { Frequencies(2, NtkScaling{2.0}); }, "rotary_dim");
  ExpectRefused([&] { Frequencies(2, DynamicScaling{2.0, 10}); }, "rotary_dim");
  ExpectRefused([&] { ComputeRotaryFrequencies(Options(8, {}, 1.0)); }, "base");
  ExpectRefused([&] { Frequencies(16, LinearScaling{0.0}); }, "factor");
  ExpectRefused([&] { Frequencies(16, NtkScaling{-1.0}); }, "factor");
  ExpectRefused([&] { Frequencies(16, YarnScaling{0.0, 64}); }, "factor");
  ExpectRefused([&] { Frequencies(16, Llama3Scaling{0.0}); }, "factor");
  ExpectRefused([&] { Frequencies(16, DynamicScaling{0.5, 64}); }, "factor");
  ExpectRefused([&] { Frequencies(16, YarnScaling{2.0, 0}); }, "original_length");
  ExpectRefused([&] { Frequencies(16, DynamicScaling{2.0, 0}); }, "original_length");
  ExpectRefused([&] { Frequencies(16, LongRopeScaling{few, ones, 64, 1.0, {}}); }, "short_factors");
  ExpectRefused([&] { Frequencies(16, LongRopeScaling{ones, few, 64, 1.0, {}}); }, "long_factors");
  ExpectRefused([&] { Frequencies(16, LongRopeScaling{ones, zeros, 64, 1.0, {}}); }, "long_factors");
  ExpectRefused([&] { Frequencies(16, Llama3Scaling{8.0, 4.0, 1.0, 64}); }, "high_frequency_factor");
  ExpectRefused([&] { Frequencies(16, {}, -1); }, "length");
}

TEST(Rotary, RefusesWhatDoesNotFitBeforeWriting) {
  SerialExecutor serial;
  const Tables<float> tables(ComputeRotaryFrequencies(Options(8)), 0, 3);
  Array<float> x(2 * 3 * 8), out(x.values.size(), 4);
  const std::vector<float> before = out.values;
  const auto from = x.Of<4>({1, 2, 3, 8}), to = out.Of<4>({1, 2, 3, 8});
  const auto apply = [&](View<float, 4> a, View<float, 3> cos, View<float, 3> sin, View<float, 4> b) {
    return [=, &serial] { ApplyRotary({}, a, cos, sin, b, serial); };
  };
  const auto narrow = x.Of<4>({1, 2, 3, 6});
  View<float, 3> two_rows = tables.cos, five_batches = tables.cos, fewer_pairs = tables.sin;
  two_rows.extent[1] = 2, five_batches.extent[0] = 5, five_batches.stride[0] = 0, fewer_pairs.extent[2] = 3;
  ExpectRefused(apply(from, two_rows, tables.sin, to), "cos");
  ExpectRefused(apply(from, tables.cos, five_batches, to), "sin");
  ExpectRefused(apply(from, tables.cos, fewer_pairs, to), "sin");
  ExpectRefused(apply(narrow, tables.cos, tables.sin, out.Of<4>({1, 2, 3, 6})), "cos");
  ExpectRefused(apply(from, tables.cos, tables.sin, out.Of<4>({2, 1, 3, 8})), "out");
  ExpectRefused(apply(from, tables.cos, tables.sin, View<float, 4>{nullptr, from.extent, from.stride}), "out");
  View<float, 4> shifted = from, folded = to;
  shifted.data += 1, shifted.extent[1] = 1;
  View<float, 4> one_head = from;
  one_head.extent[1] = 1;
  folded.stride[1] = 0;
  ExpectRefused(apply(one_head, tables.cos, tables.sin, shifted), "out");
  ExpectRefused(apply(from, tables.cos, tables.sin, folded), "out");
  EXPECT_EQ(out.values, before);
  // Nothing to do is no error.
  apply(View<float, 4>{nullptr, {0, 2, 3, 8}, {}}, tables.cos, tables.sin, View<float, 4>{nullptr, {0, 2, 3, 8}, {}})();
}

}  // namespace
}  // namespace heed
