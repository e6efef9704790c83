// What the comparison measures beside counts: exponents against theory, and the influence of tokens by gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "book/comparison/comparison.h"
#include "lab/options/fields.h"

namespace heed::lab {
namespace {

TEST(FitPowerLaw, RecoversAnExponentAndItsSpread) {
  const auto fit = [](const std::vector<double>& x, const std::vector<double>& y) { return FitPowerLaw({x}, y).front(); };
  const Exponent exact = fit({2, 4, 8, 16}, {3 * std::pow(2, 1.5), 3 * std::pow(4, 1.5), 3 * std::pow(8, 1.5), 3 * 64.0});
  EXPECT_NEAR(exact.value, 1.5, 1e-12);
  EXPECT_NEAR(exact.standard_error, 0, 1e-7);
  EXPECT_GT(fit({1, 2, 4}, {1, 3, 4}).standard_error, 0.01);
  EXPECT_EQ(fit({1, 2}, {1, 4}).standard_error, 0);
}

TEST(FitPowerLaw, RecoversExponentsOfSeveralFactorsOverAGrid) {
  std::vector<double> a, b, y;
  for (const double x : {1, 2, 4}) {
    for (const double z : {3, 5, 9, 11}) {
      a.push_back(x);
      b.push_back(z);
      y.push_back(7 * std::pow(x, 2) / std::sqrt(z));
    }
  }
  const std::vector<Exponent> exponents = FitPowerLaw({a, b}, y);
  EXPECT_NEAR(exponents[0].value, 2, 1e-12);
  EXPECT_NEAR(exponents[1].value, -0.5, 1e-12);
}

const TermExponents& Find(const std::vector<TermExponents>& all, const std::string& quantity) {
  return *std::ranges::find(all, quantity, &TermExponents::quantity);
}

TEST(FitExponents, AreThoseOfTheoryForEveryLayerAndTerm) {
  for (const Layer* layer : AllLayers()) {
    const std::vector<TermExponents> all = FitExponents(*layer);
    EXPECT_EQ(all.size(), layer->facts().growth.size() + (layer->facts().path ? 1 : 0));
    for (const TermExponents& entry : all) {
      for (const FittedExponent& one : entry.exponents) {
        EXPECT_NEAR(one.fitted.value, one.theory, kExponentTolerance) << entry.layer << ' ' << entry.quantity << ' ' << one.of;
      }
    }
    // Every term that costs anything has a theory.
    const LayerNumbers numbers = layer->Expected({.width = 8}, 64);
    for (std::size_t term = 0; term < numbers.products.size(); ++term) {
      const bool named = std::ranges::any_of(layer->facts().growth,
                                             [&](const TermGrowth& one) { return one.term == static_cast<Term>(term); });
      EXPECT_EQ(named, numbers.products[term] > 0) << layer->name() << ' ' << kTermNames[term];
    }
  }
}

TEST(FitExponents, TellScoresFromProjections) {
  const std::vector<TermExponents> all = FitExponents(LayerNamed("attention"));
  const std::vector<FittedExponent>&projections = Find(all, "projections").exponents,
        &scores = Find(all, "score products").exponents;
  EXPECT_NEAR(projections[0].fitted.value, 1, 1e-9);
  EXPECT_NEAR(projections[1].fitted.value, 2, 1e-9);
  EXPECT_NEAR(scores[0].fitted.value, 2, 1e-9);
  EXPECT_NEAR(scores[1].fitted.value, 1, 1e-9);
  const TermExponents hops = Find(FitExponents(LayerNamed("convolution-causal")), "hops");
  EXPECT_EQ(hops.exponents[1].of, "k - 1");
  EXPECT_NEAR(hops.exponents[1].fitted.value, -1, 1e-9);
}

InfluenceCurve Curve(const std::string& encoder, int64_t layers = 2) {
  return MeasureInfluence(encoder, {.length = 128, .width = 32, .layers = layers, .seed = 5});
}

TEST(Influence, IsOfResidualEncoders) {
  // At distance 0 the residual path dominates: the norm of an identity of width 32 is 5.7, and a final norm keeps its size.
  const std::vector<InfluenceCurve> curves = MeasureInfluences({.length = 128, .width = 32, .seed = 5});
  ASSERT_EQ(curves.size(), EncoderNames().size());
  for (const InfluenceCurve& curve : curves) {
    ASSERT_EQ(curve.log10.size(), 128U);
    EXPECT_NEAR(curve.log10[0], std::log10(std::sqrt(32.0)), 0.3) << curve.encoder;
  }
}

TEST(Influence, DecaysExponentiallyInRecurrences) {
  for (const char* encoder : {"rnn", "gru", "lstm"}) {
    const std::vector<double> log10 = Curve(encoder).log10;
    for (const std::size_t distance : {8, 16, 32, 64}) {
      // An order of magnitude per eight tokens at least; twice the distance, about twice the orders.
      const double fall = log10[distance / 2] - log10[distance];
      EXPECT_GT(fall, static_cast<double>(distance) / 16) << encoder << ' ' << distance;
    }
    EXPECT_LT(log10[127], -10) << encoder;
    EXPECT_TRUE(std::isfinite(log10[127])) << encoder;
  }
}

TEST(Influence, IsFlatInAttention) {
  for (const char* encoder : {"attention", "decomposable"}) {
    const std::vector<double> log10 = Curve(encoder).log10;
    const auto [least, most] = std::minmax_element(log10.begin() + 1, log10.end());
    EXPECT_LT(*most - *least, std::log10(10.0)) << encoder;  // every token is one of 128 that are looked at alike
  }
}

TEST(Influence, IsThatOfAttentionWhereTheRecurrenceBelowHasForgotten) {
  const std::vector<double> log10 = Curve("gru-attention").log10, recurrence = Curve("gru").log10;
  const auto [least, most] = std::minmax_element(log10.begin() + 32, log10.end());
  EXPECT_LT(*most - *least, std::log10(10.0));
  EXPECT_GT(*least, recurrence[32] + 2);
}

TEST(Influence, IsNoneBeyondTheReceptiveField) {
  for (const int64_t layers : {1, 2, 3}) {
    const std::vector<double> contiguous = Curve("convolution", layers).log10, dilated = Curve("dilated", layers).log10;
    const int64_t reach = 2 * layers, dilated_reach = static_cast<int64_t>(std::pow(3, layers)) - 1;
    for (int64_t distance = 0; distance < 128; ++distance) {
      EXPECT_EQ(std::isfinite(contiguous[distance]), distance <= reach) << layers << ' ' << distance;
      EXPECT_EQ(std::isfinite(dilated[distance]), distance <= dilated_reach) << layers << ' ' << distance;
    }
  }
}

TEST(Influence, FollowsTheSeed) {
  const InfluenceOptions options{.length = 16, .width = 8, .seed = 1};
  InfluenceOptions other = options;
  other.seed = 2;
  EXPECT_EQ(MeasureInfluence("gru", options).log10, MeasureInfluence("gru", options).log10);
  EXPECT_NE(MeasureInfluence("gru", options).log10, MeasureInfluence("gru", other).log10);
}

}  // namespace
}  // namespace heed::lab
