// Dropout by counter: the generator is Philox, and its decisions behave like independent coins.
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

// The weights that an engine call keeps, read off with values that single out one key each.
std::vector<bool> KeptWeights(double probability, uint64_t seed, int64_t heads, int64_t length, int64_t batch_offset = 0) {
  Problem<float> problem({1, heads, heads, length, length, 8, length});
  problem.v.assign(problem.v.size(), 0.0f);
  const auto v = problem.Values(problem.v);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t j = 0; j < length; ++j) v(0, h, j, j) = 1.0f;
  Attention attention;
  attention.dropout = {probability, seed, batch_offset};
  SerialExecutor serial;
  problem.Forward(attention, serial);
  std::vector<bool> kept;
  kept.reserve(problem.out.size());
  for (float x : problem.out) kept.push_back(x != 0);
  return kept;
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
  const std::vector<bool> kept = KeptWeights(p, 5, 2, n);
  const std::vector<bool> first(kept.begin(), kept.begin() + n * n), second(kept.begin() + n * n, kept.end());
  ExpectIndependent(first, second, p, "heads");
  const std::vector<bool> upper(first.begin(), first.end() - n), lower(first.begin() + n, first.end());
  ExpectIndependent(upper, lower, p, "rows");
  const std::vector<bool> left(first.begin(), first.end() - 1), right(first.begin() + 1, first.end());
  ExpectIndependent(left, right, p, "keys");
  ExpectIndependent(kept, KeptWeights(p, 5, 2, n, 1), p, "batch rows");
  ExpectIndependent(kept, KeptWeights(p, 6, 2, n), p, "seeds");
}

TEST(Dropout, IsTheSameOnEveryTarget) {
  const std::vector<bool> best = KeptWeights(0.4, 9, 3, 100);
  for (const std::string& target : SupportedTargets()) {
    UseTarget(target);
    EXPECT_EQ(KeptWeights(0.4, 9, 3, 100), best) << target;
  }
  UseTarget("");
}

TEST(Dropout, OfZeroKeepsEverything) {
  EXPECT_EQ(Fraction(KeptWeights(0.0, 1, 2, 64)), 1.0);
  EXPECT_EQ(Fraction(KeptWeights(1e-9, 1, 2, 64)), 1.0);  // below the resolution of 1/65536
}

}  // namespace
}  // namespace heed
