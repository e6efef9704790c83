#include "lab/positions/identities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "heed/nn/position_choice.h"
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
  std::vector<std::string> names = nn::PositionSchemeNames();
  std::erase_if(names, [](const std::string& name) { return name == "none" || name == "sinusoidal" || name == "learned"; });
  return names;
}

bool AllHold(const Identities& identities) { return std::ranges::all_of(identities, &Identity::Holds); }

TEST(CheckPositions, HoldsForEveryScheme) {
  for (const std::string& scheme : nn::PositionSchemeNames()) {
    if (scheme == "none") continue;
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
  for (const char* scheme : {"alibi", "kerple_power", "rotary", "xpos"}) {
    PositionsOptions options = Small(scheme);
    options.width = 6, options.steps = 4096;
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
      const at::Tensor off = queries.remainder(7) + (keys - queries) + 1;
      return scores(queries, keys) + 1e-6 * off.to(at::kDouble).unsqueeze(1);
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

TEST(LearnedIdentities, SeeATableThatHoldsNoNumbers) {
  SchemeTable table{"learned", 3, 2, {1, 0, 1, 1, 0, 2}, true};
  EXPECT_TRUE(AllHold(LearnedIdentities(table)));
  table.values[3] = NAN;
  EXPECT_FALSE(AllHold(LearnedIdentities(table)));
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
