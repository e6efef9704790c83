// The gated delta rule against its recurrence in double precision: every target, all gradients, decays of any size, sequences
// of any length, the same bits for any number of threads.
#include "heed/gated_delta.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/recurrence.h"
#include "tests/engine/recurrence_checks.h"
#include "tests/engine/targets.h"

namespace heed {
namespace {

class GatedDeltaTest : public OnTarget {};
HEED_ON_TARGETS(GatedDeltaTest);

TEST_P(GatedDeltaTest, IsTheRecurrence) {
  for (const MixerSizes& sizes : MixerShapes())
    for (const Decay decay : {Decay::kNone, Decay::kHead, Decay::kStep}) {
      ExpectTheRecurrence<double>(sizes, decay, true, false);
      ExpectTheRecurrence<float>(sizes, decay, true, false);
    }
}

TEST(GatedDelta, GradientsAreFiniteDifferences) {
  ExpectFiniteDifferences({1, 1, 67, 3, 2}, Decay::kStep, true, false);
  ExpectFiniteDifferences({1, 2, 5, 2, 3}, Decay::kHead, true, false);
}

TEST(GatedDelta, ThreadsGiveTheSameBits) {
  for (const MixerSizes& sizes : {MixerSizes{1, 1, 300, 20, 16}, {2, 3, 200, 17, 33}, {3, 7, 70, 8, 8}})
    for (const Decay decay : {Decay::kHead, Decay::kStep}) ExpectTheSameBits<float>(sizes, decay, true, false);
}

TEST(GatedDelta, StatesCarriedOverAreOnePass) { ExpectStatesCarryOver({2, 2, 333, 5, 7}, true, false); }

TEST(GatedDelta, StepsOfDecodingAreOnePass) {
  for (const Decay decay : {Decay::kNone, Decay::kStep}) ExpectStepsAreOnePass({2, 3, 9, 5, 35}, decay, true, false);
}

TEST(GatedDelta, SequencesOfAnyLengthAreThoseAlone) {
  ExpectLengthsAreAlone(true);
  ExpectPackedAreAlone(true);
}

TEST(GatedDelta, DecaysOfAnySizeAreExact) { ExpectExtremeDecays(true); }

TEST(GatedDelta, WhatComesLaterDoesNotReachBack) { ExpectNothingReachesBack(true); }

TEST(GatedDelta, MemoryIsLinear) { ExpectMemoryIsLinear(true); }

TEST(GatedDelta, AnyStrides) { ExpectAnyStrides(true); }

TEST(GatedDelta, AGradientThatIsNotWantedIsNotNeeded) { ExpectWantedGradientsAlone(true); }

// Keys of length 1 at right angles and beta 1: the state holds the last value of each key.
TEST(GatedDelta, AValueReplacesWhatItsKeyHeld) {
  MixerProblem<double> p({1, 1, 100, 4, 3}, Decay::kNone, true);
  for (int64_t t = 0; t < 100; ++t) {
    for (int64_t c = 0; c < 4; ++c) {
      p.Keys(p.k.data())(0, 0, t, c) = c == t % 4 ? 1 : 0;
      p.Keys(p.q.data())(0, 0, t, c) = c == (t + 1) % 4 ? 1 : 0;
    }
    p.Steps(p.beta.data())(0, 0, t) = 1;
  }
  SerialExecutor serial;
  p.Forward(serial);
  // The query of step t asks for the key of step t - 3.
  for (int64_t t = 3; t < 100; ++t)
    for (int64_t c = 0; c < 3; ++c)
      EXPECT_NEAR(p.Values(p.out.data())(0, 0, t, c), p.Values(p.v.data())(0, 0, t - 3, c), 1e-14) << t;
}

TEST(GatedDelta, WhatDoesNotFitIsRefused) { ExpectCommonRefusals(true); }

}  // namespace
}  // namespace heed
