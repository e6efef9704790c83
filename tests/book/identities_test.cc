#include "tests/book/identities/identities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "book/positions/positions.h"

namespace heed::lab {
namespace {

PositionsOptions Small(const std::string& scheme) {
  PositionsOptions options;
  options.scheme = scheme;
  options.steps = 40, options.width = 4, options.head_width = 8, options.max_distance = 20;
  options.first_column = 0, options.last_column = 4;
  return options;
}

struct OfScheme {
  const char* scheme;
  Identities (*identities)(const Probe& probe);
};
constexpr OfScheme kInsideAttention[] = {
    {"rotary", &RotaryIdentities},
    {"axial_rotary", &AxialRotaryIdentities},
    {"xpos", &XPosIdentities},
    {"alibi", &AlibiIdentities},
    {"relative", &RelativeIdentities},
    {"t5", &T5Identities},
    {"kerple", &KerpleIdentities},
    {"kerple_power", &KerplePowerIdentities},
    {"sandwich", &SandwichIdentities},
    {"fire", &FireIdentities},
    {"temperature", &TemperatureIdentities},
    {"sinusoidal_bias", &SinusoidalBiasIdentities},
    {"shaw", &ShawIdentities},
    {"transformer_xl", &TransformerXlIdentities},
    {"deberta", &DebertaIdentities},
    {"cope", &CopeIdentities},
    {"swin", &SwinIdentities},
    {"swin_v2", &SwinV2Identities},
};

// All that belongs to a scheme.
Identities IdentitiesOf(const PositionsOptions& options) {
  if (options.scheme == "learned") return LearnedIdentities(options, StartingTable(options));
  if (options.scheme == "random_fourier") return RandomFourierIdentities(options, StartingTable(options));
  const auto* found = std::ranges::find(kInsideAttention, options.scheme, &OfScheme::scheme);
  return found == std::end(kInsideAttention) ? Identities() : found->identities(MakeProbe(options));
}

bool AllHold(const Identities& identities) { return std::ranges::all_of(identities, &Identity::Holds); }

TEST(Identities, HoldOfEveryScheme) {
  for (const std::string& scheme : PictureNames()) {
    SCOPED_TRACE(scheme);
    for (const uint64_t seed : {0, 7}) {
      PositionsOptions options = Small(scheme);
      options.seed = seed;
      const Identities identities = IdentitiesOf(options);
      EXPECT_EQ(identities.empty(), scheme == "sinusoidal");
      for (const Identity& identity : identities) EXPECT_LE(identity.error, identity.bound) << identity.what;
    }
  }
}

TEST(Identities, HoldAtTheEdgesOfTables) {
  for (const char* scheme : {"relative", "shaw", "transformer_xl", "deberta", "t5", "cope"}) {
    for (const int64_t max_distance : {1, 2, 39, 40, 500}) {
      PositionsOptions options = Small(scheme);
      options.max_distance = max_distance;
      if (scheme == std::string("t5") && max_distance < 9) continue;
      EXPECT_TRUE(AllHold(IdentitiesOf(options))) << scheme << " " << max_distance;
    }
  }
  for (const char* scheme : {"alibi", "kerple_power", "rotary", "axial_rotary", "xpos", "random_fourier", "swin", "swin_v2"}) {
    PositionsOptions options = Small(scheme);
    options.width = 8, options.steps = 4096;
    EXPECT_TRUE(AllHold(IdentitiesOf(options))) << scheme;
  }
}

// Wherever query and key stand, a millionth more: each identity that looks at scores must see it.
TEST(Identities, SeeScoresThatAreOff) {
  for (const auto& [scheme, identities] : kInsideAttention) {
    Probe probe = MakeProbe(Small(scheme));
    ASSERT_TRUE(AllHold(identities(probe))) << scheme;
    probe.scores = [scores = probe.scores](const at::Tensor& queries, const at::Tensor& keys) {
      const at::Tensor off = (queries.remainder(7) + (keys - queries) + 1).to(at::kDouble);
      return scores(queries, keys) + 1e-6 * off.view({queries.size(0), -1}).sum(1, /*keepdim=*/true);
    };
    for (const Identity& identity : identities(probe)) {
      // These are about another module of the scheme, with parameters of their own.
      const bool of_another = identity.what.starts_with("of rate 1") || identity.what.starts_with("of cosines alone");
      EXPECT_EQ(identity.Holds(), of_another) << scheme << ": " << identity.what;
    }
  }
}

TEST(Identities, SeeASchemeThatDoesNothing) {
  for (const auto& [scheme, identities] : kInsideAttention) {
    Probe probe = MakeProbe(Small(scheme));
    probe.scores = [&probe](const at::Tensor& queries, const at::Tensor&) {
      const double scale = ScaleOf(*probe.scheme, probe.tokens.query.size(1));
      return ((probe.tokens.query * probe.tokens.key).sum(1) * scale).expand({queries.size(0), -1});
    };
    EXPECT_FALSE(identities(probe).front().Holds()) << scheme;
  }
}

TEST(Identities, SeeOneScoreThatIsNoNumber) {
  for (const auto& [scheme, identities] : kInsideAttention) {
    Probe probe = MakeProbe(Small(scheme));
    probe.scores = [scores = probe.scores](const at::Tensor& queries, const at::Tensor& keys) {
      at::Tensor all = scores(queries, keys).clone();
      all[0][0] = NAN;
      return all;
    };
    EXPECT_FALSE(identities(probe).front().Holds()) << scheme;
  }
}

TEST(Identities, HoldInTheSmallestSquare) {
  for (const char* scheme : {"axial_rotary", "swin", "swin_v2"}) {
    for (const int64_t steps : {4, 8, 9, 10}) {
      PositionsOptions options = Small(scheme);
      options.steps = steps;
      EXPECT_TRUE(AllHold(IdentitiesOf(options))) << scheme << " " << steps;
    }
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

}  // namespace
}  // namespace heed::lab
