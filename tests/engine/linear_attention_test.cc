// Linear attention against its recurrence in double precision: every target, all gradients, decays of any size, sequences of
// any length, the same bits for any number of threads.
#include "heed/linear_attention.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/recurrence.h"
#include "tests/engine/recurrence_checks.h"
#include "tests/engine/targets.h"
#include "tests/error_text.h"

namespace heed {
namespace {

class LinearAttentionTest : public OnTarget {};
HEED_ON_TARGETS(LinearAttentionTest);

TEST_P(LinearAttentionTest, IsTheRecurrence) {
  for (const MixerSizes& sizes : MixerShapes())
    for (const Decay decay : {Decay::kNone, Decay::kHead, Decay::kStep})
      for (const bool normalise : {false, true}) {
        ExpectTheRecurrence<double>(sizes, decay, false, normalise);
        ExpectTheRecurrence<float>(sizes, decay, false, normalise);
      }
}

TEST(LinearAttention, GradientsAreFiniteDifferences) {
  ExpectFiniteDifferences({1, 1, 67, 3, 2}, Decay::kStep, false, false);
  ExpectFiniteDifferences({1, 2, 5, 2, 3}, Decay::kHead, false, true);
}

TEST(LinearAttention, ThreadsGiveTheSameBits) {
  // Few heads, whose chunks are tasks of their own, and many, which are tasks as a whole.
  for (const MixerSizes& sizes : {MixerSizes{1, 1, 700, 20, 16}, {2, 3, 200, 17, 33}, {3, 7, 70, 8, 8}})
    for (const Decay decay : {Decay::kHead, Decay::kStep})
      for (const bool normalise : {false, true}) ExpectTheSameBits<float>(sizes, decay, false, normalise);
}

TEST(LinearAttention, StatesCarriedOverAreOnePass) {
  for (const bool normalise : {false, true}) ExpectStatesCarryOver({2, 2, 333, 5, 7}, false, normalise);
}

TEST(LinearAttention, StepsOfDecodingAreOnePass) {
  for (const Decay decay : {Decay::kNone, Decay::kStep})
    for (const bool normalise : {false, true}) ExpectStepsAreOnePass({2, 3, 9, 5, 35}, decay, false, normalise);
}

TEST(LinearAttention, SequencesOfAnyLengthAreThoseAlone) {
  ExpectLengthsAreAlone(false);
  ExpectPackedAreAlone(false);
}

TEST(LinearAttention, DecaysOfAnySizeAreExact) { ExpectExtremeDecays(false); }

TEST(LinearAttention, WhatComesLaterDoesNotReachBack) { ExpectNothingReachesBack(false); }

TEST(LinearAttention, ASumOfWeightsOfZeroGivesZero) {
  MixerProblem<double> p({1, 1, 70, 4, 3}, Decay::kStep, false, true);
  std::fill_n(p.q.begin() + 4 * 66, 4, 0.0);
  SerialExecutor serial;
  const MixerResults results = p.Run(serial);
  for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(results.out[66 * 3 + c], 0);
  for (const double x : results.d_k) EXPECT_TRUE(std::isfinite(x));
}

TEST(LinearAttention, MemoryIsLinear) { ExpectMemoryIsLinear(false); }

TEST(LinearAttention, AnyStrides) { ExpectAnyStrides(false); }

TEST(LinearAttention, AGradientThatIsNotWantedIsNotNeeded) { ExpectWantedGradientsAlone(false); }

TEST(LinearAttention, WhatDoesNotFitIsRefused) {
  ExpectCommonRefusals(false);
  MixerProblem<double> p({2, 3, 4, 2, 5}, Decay::kStep, false, true);
  p.beta.resize(24);
  SerialExecutor serial;
  LinearInputs<double> in = p.Inputs();
  LinearOutputs<double> to;
  std::vector<double> out(p.v.size()), sums(24);
  to.out = p.Values(out.data());
  const auto forward = [&] {
    return WhatOf<InvalidArgument>([&] { LinearAttentionForward(p.Options(), in, to, p.workspace, serial); });
  };
  in.beta = p.Steps<const double>(p.beta.data());
  EXPECT_EQ(forward(), "beta: linear attention has none; it belongs to the gated delta rule");
  in = p.Inputs();
  in.initial_state.extent[3] = 5;
  EXPECT_EQ(forward(), "initial_state: expected [B, H, D, Dv + 1] = [2, 3, 2, 6], got [2, 3, 2, 5]");
  in = p.Inputs();
  p.options.normalise = false;
  in.initial_state = {};
  to.sums = p.Steps(sums.data());
  EXPECT_EQ(forward(), "sums: expected none without normalise");
  p.options.normalise = true;
  LinearCotangents<double> from;
  from.d_out = p.Values<const double>(p.d_out.data());
  const std::string text =
      WhatOf<InvalidArgument>([&] { LinearAttentionBackward(p.Options(), in, from, {}, p.workspace, serial); });
  EXPECT_EQ(text, "out: expected the shape of v = [2, 3, 4, 5], got [0, 0, 0, 0]");
}

}  // namespace
}  // namespace heed
