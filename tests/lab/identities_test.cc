#include "lab/positions/identities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "lab/positions/portrait.h"
#include "lab/positions/scheme_table.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

PositionsOptions Small(const std::string& scheme) {
  PositionsOptions options;
  options.scheme = scheme;
  options.steps = 40, options.width = 4, options.head_width = 8, options.max_distance = 20;
  options.first_column = 0, options.last_column = 4;
  return options;
}

std::vector<std::string> InsideAttention() {
  std::vector<std::string> names = PictureNames();
  std::erase_if(names, [](const std::string& name) { return PortraitOf(name).identities == nullptr; });
  return names;
}

bool AllHold(const Identities& identities) { return std::ranges::all_of(identities, &Identity::Holds); }

TEST(CheckPositions, HoldsForEveryScheme) {
  for (const std::string& scheme : PictureNames()) {
    SCOPED_TRACE(scheme);
    for (const uint64_t seed : {0, 7}) {
      PositionsOptions options = Small(scheme);
      options.seed = seed;
      const PositionsCheck check = CheckPositions(options);
      EXPECT_TRUE(check.Passed());
      EXPECT_EQ(check.rotation.has_value(), scheme == "sinusoidal" || scheme == "rotary");
      EXPECT_EQ(check.identities.empty(), scheme == "sinusoidal");
      for (const Identity& identity : check.identities) EXPECT_LE(identity.error, identity.bound) << identity.what;
    }
  }
}

TEST(CheckPositions, HoldsAtTheEdgesOfTables) {
  for (const char* scheme : {"relative", "shaw", "transformer_xl", "deberta", "t5", "cope"}) {
    for (const int64_t max_distance : {1, 2, 39, 40, 500}) {
      PositionsOptions options = Small(scheme);
      options.max_distance = max_distance;
      if (scheme == std::string("t5") && max_distance < 9) continue;
      EXPECT_TRUE(CheckPositions(options).Passed()) << scheme << " " << max_distance;
    }
  }
  for (const char* scheme : {"alibi", "kerple_power", "rotary", "axial_rotary", "xpos", "random_fourier", "swin", "swin_v2"}) {
    PositionsOptions options = Small(scheme);
    options.width = 8, options.steps = 4096;
    EXPECT_TRUE(CheckPositions(options).Passed()) << scheme;
  }
}

// Wherever query and key stand, a millionth more: each identity that looks at scores must see it.
TEST(Identities, SeeScoresThatAreOff) {
  for (const std::string& scheme : InsideAttention()) {
    const Portrait& portrait = PortraitOf(scheme);
    Probe probe = MakeProbe(Small(scheme));
    ASSERT_TRUE(AllHold(portrait.identities(probe))) << scheme;
    probe.scores = [scores = probe.scores](const at::Tensor& queries, const at::Tensor& keys) {
      const at::Tensor off = (queries.remainder(7) + (keys - queries) + 1).to(at::kDouble);
      return scores(queries, keys) + 1e-6 * off.view({queries.size(0), -1}).sum(1, /*keepdim=*/true);
    };
    for (const Identity& identity : portrait.identities(probe)) {
      // These are about another module of the scheme, with parameters of their own.
      const bool of_another = identity.what.starts_with("of rate 1") || identity.what.starts_with("of cosines alone");
      EXPECT_EQ(identity.Holds(), of_another) << scheme << ": " << identity.what;
    }
  }
}

TEST(Identities, SeeASchemeThatDoesNothing) {
  for (const std::string& scheme : InsideAttention()) {
    const Portrait& portrait = PortraitOf(scheme);
    Probe probe = MakeProbe(Small(scheme));
    probe.scores = [&probe](const at::Tensor& queries, const at::Tensor&) {
      const double scale = ScaleOf(*probe.scheme, probe.tokens.query.size(1));
      return ((probe.tokens.query * probe.tokens.key).sum(1) * scale).expand({queries.size(0), -1});
    };
    EXPECT_FALSE(portrait.identities(probe).front().Holds()) << scheme;
  }
}

TEST(Identities, SeeOneScoreThatIsNoNumber) {
  for (const std::string& scheme : InsideAttention()) {
    Probe probe = MakeProbe(Small(scheme));
    probe.scores = [scores = probe.scores](const at::Tensor& queries, const at::Tensor& keys) {
      at::Tensor all = scores(queries, keys).clone();
      all[0][0] = NAN;
      return all;
    };
    EXPECT_FALSE(PortraitOf(scheme).identities(probe).front().Holds()) << scheme;
  }
}

TEST(CheckPositions, HoldsInTheSmallestSquare) {
  for (const char* scheme : {"axial_rotary", "swin", "swin_v2"}) {
    for (const int64_t steps : {4, 8, 9, 10}) {
      PositionsOptions options = Small(scheme);
      options.steps = steps;
      EXPECT_TRUE(CheckPositions(options).Passed()) << scheme << " " << steps;
    }
    PositionsOptions options = Small(scheme);
    options.steps = 3;
    EXPECT_EQ(WhatOf<InvalidArgument>([&] { CheckPositions(options); }),
              "steps: expected at least 4 to compare pairs of positions, got 3");
  }
}

TEST(RandomFourierIdentities, SeeARowThatIsOff) {
  PositionsOptions options = Small("random_fourier");
  SchemeTable table = StartingTable(options);
  EXPECT_TRUE(AllHold(RandomFourierIdentities(options, table)));
  table.values[3] += 1e-6;
  const Identities off = RandomFourierIdentities(options, table);
  ASSERT_EQ(off.size(), 3u);
  EXPECT_FALSE(off[0].Holds() || off[1].Holds());
  EXPECT_TRUE(off[2].Holds()) << "of other frequencies, from the seed";
  EXPECT_LT(off[2].bound, 0.02);
  options.seed = 1;
  EXPECT_FALSE(RandomFourierIdentities(options, StartingTable(Small("random_fourier")))[0].Holds());
}

TEST(LearnedIdentities, SeeATableThatHoldsNoNumbers) {
  SchemeTable table{"learned", 3, 2, {1, 0, 1, 1, 0, 2}, true};
  EXPECT_TRUE(AllHold(LearnedIdentities({}, table)));
  table.values[3] = NAN;
  EXPECT_FALSE(AllHold(LearnedIdentities({}, table)));
}

TEST(MakeProbe, RefusesASinglePosition) {
  PositionsOptions options = Small("kerple");
  options.steps = 1;
  EXPECT_EQ(WhatOf<InvalidArgument>([&] { CheckPositions(options); }).find("steps:"), 0u);
  options.scheme = "none";
  EXPECT_EQ(WhatOf<InvalidArgument>([&] { CheckPositions(options); }), "scheme: none has no numbers to draw");
}

}  // namespace
}  // namespace heed::lab
