// Dropout by counter: the generator is Philox, its decisions behave like independent coins, and both passes draw the same ones
// however the work is cut.
#include <gtest/gtest.h>

#include <cmath>

#include "heed/attention.h"
#include "problem.h"
#include "reference/reference.h"

namespace heed {
namespace {

// Known answer of Philox4x32-10 for an all-zero counter and key, published with Random123: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
TEST(Dropout, UsesPhilox) {
  const uint32_t words[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
  for (uint64_t key = 0; key < 8; ++key)
    EXPECT_EQ(reference::DropoutBits(0, 0, 0, 0, key), key % 2 ? words[key / 2] >> 16 : words[key / 2] & 0xFFFFu);
}

// Which weights [B, H, Nq, Nk] a forward pass keeps, read off with values that single out one key each.
template <class T = float>
std::vector<bool> KeptForward(const Attention& attention, Shape shape, Executor& executor) {
  shape.value_dim = shape.kv_len;
  Problem<T> problem(shape);
  problem.v.assign(problem.v.size(), T{0});
  const auto v = problem.Values(problem.v);
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.kv_heads; ++h)
      for (int64_t j = 0; j < shape.kv_len; ++j) v(b, h, j, j) = T{1};
  problem.Forward(attention, executor);
  std::vector<bool> kept;
  kept.reserve(problem.out.size());
  for (T x : problem.out) kept.push_back(x != 0);
  return kept;
}

// The same of a backward pass, from the gradient of the values: d_out singles out one query each.
template <class T>
std::vector<bool> KeptBackward(const Attention& attention, Shape shape, Executor& executor) {
  shape.value_dim = shape.q_len;
  Problem<T> problem(shape);
  problem.d_out.assign(problem.d_out.size(), T{0});
  const auto d_out = problem.Outputs(problem.d_out), d_v = problem.Values(problem.d_v);
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.q_heads; ++h)
      for (int64_t i = 0; i < shape.q_len; ++i) d_out(b, h, i, i) = T{1};
  problem.Run(attention, executor);
  std::vector<bool> kept;
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.q_heads; ++h)
      for (int64_t i = 0; i < shape.q_len; ++i)
        for (int64_t j = 0; j < shape.kv_len; ++j) kept.push_back(d_v(b, h, j, i) != 0);
  return kept;
}

// The same by definition.
std::vector<bool> KeptByDefinition(const Dropout& dropout, const Shape& shape) {
  const auto threshold = static_cast<uint32_t>(std::lround(dropout.probability * 65536));
  const auto index = [](int64_t at, int64_t first) { return static_cast<uint64_t>(at + first); };
  std::vector<bool> kept;
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.q_heads; ++h)
      for (int64_t i = 0; i < shape.q_len; ++i)
        for (int64_t j = 0; j < shape.kv_len; ++j)
          kept.push_back(reference::DropoutBits(dropout.seed, index(b, dropout.batch_offset), index(h, dropout.first_head),
                                                index(i, dropout.first_query), index(j, dropout.first_key)) >= threshold);
  return kept;
}

std::vector<bool> KeptWeights(double probability, uint64_t seed, int64_t heads, int64_t length, int64_t batch = 1) {
  Attention attention;
  attention.dropout = {probability, seed, 0};
  SerialExecutor serial;
  return KeptForward(attention, {batch, heads, heads, length, length, 8, 0}, serial);
}

double Fraction(const std::vector<bool>& bits) {
  double sum = 0;
  for (bool bit : bits) sum += bit;
  return sum / static_cast<double>(bits.size());
}

TEST(Dropout, DropsTheShareItPromises) {
  for (double p : {0.1, 0.5, 0.9}) {
    const std::vector<bool> kept = KeptWeights(p, 11, 8, 200);
    const double standard_error = std::sqrt(p * (1 - p) / static_cast<double>(kept.size()));
    EXPECT_NEAR(1 - Fraction(kept), p, 4 * standard_error);
  }
}

// Two sets of independent coins agree in p^2 + (1-p)^2 of the places.
void ExpectIndependent(const std::vector<bool>& a, const std::vector<bool>& b, double p, const char* what) {
  const double expected = p * p + (1 - p) * (1 - p);
  double agree = 0;
  for (size_t i = 0; i < a.size(); ++i) agree += a[i] == b[i];
  const double standard_error = std::sqrt(expected * (1 - expected) / static_cast<double>(a.size()));
  EXPECT_NEAR(agree / static_cast<double>(a.size()), expected, 4 * standard_error) << what;
}

TEST(Dropout, IsIndependentAcrossHeadsRowsKeysBatchAndSeeds) {
  const double p = 0.3;
  const int64_t n = 256;
  const std::vector<bool> kept = KeptWeights(p, 5, 2, n, 2);
  // Weights at a distance of `lag` from each other in [B, H, Nq, Nk].
  const auto expect_independent_at = [&](int64_t lag, const char* what) {
    ExpectIndependent({kept.begin(), kept.end() - lag}, {kept.begin() + lag, kept.end()}, p, what);
  };
  expect_independent_at(1, "neighbouring keys");
  expect_independent_at(8, "keys of neighbouring calls of the generator");
  expect_independent_at(n, "neighbouring rows");
  expect_independent_at(n * n, "heads");
  expect_independent_at(2 * n * n, "batch rows");
  ExpectIndependent(kept, KeptWeights(p, 6, 2, n, 2), p, "seeds");
}

// Panels of other widths, splits and chunks of keys, strips of boundary tiles, threads: each way to cut the work, in both
// passes, against the definition.
TEST(Dropout, DrawsTheSameMaskInBothPassesHoweverTheWorkIsCut) {
  SerialExecutor serial;
  ThreadPool pool(3);
  Attention attention;
  attention.dropout = {0.3, 21, 2};
  for (const Shape& shape : {Shape{2, 2, 2, 130, 1100, 4, 0}, Shape{1, 3, 3, 17, 1100, 4, 0}, Shape{2, 2, 2, 300, 90, 4, 0},
                             Shape{3, 1, 1, 1, 70, 4, 0}}) {
    const std::vector<bool> expected = KeptByDefinition(attention.dropout, shape);
    for (Executor* executor : {static_cast<Executor*>(&serial), static_cast<Executor*>(&pool)}) {
      EXPECT_EQ(KeptForward<float>(attention, shape, *executor), expected) << shape.q_len << " queries, forward, float";
      EXPECT_EQ(KeptBackward<float>(attention, shape, *executor), expected) << shape.q_len << " queries, backward, float";
    }
    EXPECT_EQ(KeptForward<double>(attention, shape, serial), expected) << shape.q_len << " queries, forward, double";
    EXPECT_EQ(KeptBackward<double>(attention, shape, serial), expected) << shape.q_len << " queries, backward, double";
  }
}

TEST(Dropout, DrawsTheSameMaskUnderCausality) {
  SerialExecutor serial;
  Attention attention;
  attention.dropout = {0.3, 21, 0};
  attention.causal = Causal::kBottomRight;
  const Shape shape{1, 2, 2, 150, 170, 4, 0};
  std::vector<bool> expected = KeptByDefinition(attention.dropout, shape);
  for (size_t x = 0; x < expected.size(); ++x) {
    const size_t i = x / 170 % 150, j = x % 170;
    if (j > i + 20) expected[x] = false;
  }
  EXPECT_EQ(KeptForward<float>(attention, shape, serial), expected);
  EXPECT_EQ(KeptBackward<float>(attention, shape, serial), expected);
}

TEST(Dropout, IsTheSameOnEveryTarget) {
  SerialExecutor serial;
  Attention attention;
  attention.dropout = {0.4, 9, 0};
  const Shape shape{1, 3, 3, 100, 600, 4, 0};
  const std::vector<bool> expected = KeptByDefinition(attention.dropout, shape);
  for (const std::string& target : SupportedTargets()) {
    UseTarget(target);
    EXPECT_EQ(KeptForward<float>(attention, shape, serial), expected) << target;
    EXPECT_EQ(KeptBackward<float>(attention, shape, serial), expected) << target;
    EXPECT_EQ(KeptForward<double>(attention, shape, serial), expected) << target;
    EXPECT_EQ(KeptBackward<double>(attention, shape, serial), expected) << target;
  }
  UseTarget("");
}

// Some heads, queries and keys of a larger call. A draw serves eight keys from a multiple of eight on, wherever the part
// begins; queries may stand in lanes or, where they are few, keys, and heads that share keys side by side.
TEST(Dropout, OfAPartIsThatOfTheWhole) {
  SerialExecutor serial;
  const std::vector<Shape> shapes{
      {2, 2, 2, 70, 200, 4, 0}, {2, 2, 2, 3, 300, 4, 0}, {1, 4, 2, 2, 90, 4, 0}, {2, 12, 2, 3, 90, 4, 0}};
  Attention attention;
  for (const Shape& shape : shapes)
    for (int64_t first_key : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{8}, int64_t{200}, (int64_t{1} << 35) + 3}) {
      attention.dropout = {.probability = 0.3, .seed = 17, .batch_offset = 1, .first_head = 3, .first_key = first_key};
      attention.dropout.first_query = 5 * first_key + 1;
      const std::vector<bool> expected = KeptByDefinition(attention.dropout, shape);
      for (const std::string& target : SupportedTargets()) {
        SCOPED_TRACE(target + " from key " + std::to_string(first_key) + ", queries: " + std::to_string(shape.q_len));
        UseTarget(target);
        EXPECT_EQ(KeptForward<float>(attention, shape, serial), expected);
        EXPECT_EQ(KeptForward<double>(attention, shape, serial), expected);
        if (shape.q_heads != shape.kv_heads) continue;  // whose gradients are sums over heads
        EXPECT_EQ(KeptBackward<float>(attention, shape, serial), expected);
        EXPECT_EQ(KeptBackward<double>(attention, shape, serial), expected);
      }
      UseTarget("");
    }
}

// A packed sequence counts as the batch row of its number.
TEST(Dropout, OfPackedSequencesIsThatOfBatchRows) {
  SerialExecutor serial;
  const std::vector<int64_t> offsets{0, 70, 140};
  Attention attention;
  attention.dropout = {0.3, 4, 0};
  Problem<float> batch({2, 1, 1, 70, 70, 8, 8});
  batch.Run(attention, serial);
  Problem<float> packed({1, 1, 1, 140, 140, 8, 8});
  attention.packed = {View<const int64_t, 1>::Contiguous(offsets.data(), {3}),
                      View<const int64_t, 1>::Contiguous(offsets.data(), {3})};
  packed.q = batch.q, packed.k = batch.k, packed.v = batch.v, packed.d_out = batch.d_out;
  packed.Run(attention, serial);
  EXPECT_EQ(packed.out, batch.out);
  EXPECT_EQ(packed.d_q, batch.d_q);
  EXPECT_EQ(packed.d_k, batch.d_k);
  EXPECT_EQ(packed.d_v, batch.d_v);
}

TEST(Dropout, OfZeroKeepsEverything) {
  EXPECT_EQ(Fraction(KeptWeights(0.0, 1, 2, 64)), 1.0);
  EXPECT_EQ(Fraction(KeptWeights(1e-9, 1, 2, 64)), 1.0);  // below the resolution of 1/65536
}

}  // namespace
}  // namespace heed
