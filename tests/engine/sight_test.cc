// What a tile's sight tells of each pair against the plan, which knows one query at a time, on every target.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sight_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/sight-inl.h"
#include "core/arena.h"
#include "core/validation.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Bit w of the result's key: the sight of a panel's tiles tells that lane w sees the key. A fault ends it early and is named.
template <class T>
std::string WordsTold(const attention::Plan& plan, const attention::Problem& problem, const Panel& panel,
                      attention::Lanes<T>& lanes, int64_t tile_keys, std::vector<uint64_t>& told) {
  Sight<T> sight(problem, lanes, {});
  sight.Begin(panel.b);
  std::string fault;
  sight.ForEachTile(panel, tile_keys, {0, plan.KeyCount(panel.b)}, [&](const TileSight& tile) {
    int64_t next = tile.strips().front().place.key;
    for (const StripSight& strip : tile.strips()) {
      const TilePlace& place = strip.place;
      if (place.key != next) fault = "a gap before key " + std::to_string(place.key);
      next = place.key + place.keys;
      const uint64_t all = LaneBits(place);
      for (int64_t j = 0; j < place.keys; ++j) {
        uint64_t& word = told[static_cast<std::size_t>(place.key + j)];
        if (strip.seen == Seen::kAll) word = all;
        if (strip.seen == Seen::kSome) word = VisibleOf(lanes, place)[j];
      }
    }
  });
  return fault;
}

// The first pair that sight and plan tell differently, or nothing.
template <class T>
std::string Difference(const Attention& attention, const Shape& shape, int64_t tile_keys) {
  const attention::HiddenPairs nothing;
  const attention::Plan plan(attention, shape, nothing);
  const attention::Cut cut = attention::CutBackward(shape, sizeof(T), {.one_head = true});
  core::Arena room;
  attention::Lanes<T> lanes{};
  lanes.Lay(room, cut);
  Workspace workspace(room.used());
  core::Arena arena(workspace.data());
  lanes.Lay(arena, cut);
  const attention::Problem problem{.attention = attention, .plan = plan, .cut = cut, .dropout = {}, .q = {}, .k = {}};
  for (int64_t index = 0; index < cut.panels; ++index) {
    const Panel panel = MakePanel(plan, cut, 0, 0, index, lanes);
    std::vector<uint64_t> told(static_cast<std::size_t>(shape.kv_len));
    if (std::string fault = WordsTold(plan, problem, panel, lanes, tile_keys, told); !fault.empty()) return fault;
    const int32_t* ranks = plan.order().KeyRanks(0);
    for (int64_t w = 0; w < panel.count; ++w) {
      const attention::QueryRow row = plan.Row(0, 0, panel.begin + w);
      for (int64_t j = 0; j < shape.kv_len; ++j) {
        bool expected = j >= row.keys.begin && j < row.keys.end;
        if (ranks) expected = expected && ranks[j] >= row.ranks.begin && ranks[j] < row.ranks.end;
        if (attention.mask.present()) expected = expected && core::Broadcast(attention.mask.values, 0, 0, panel.begin + w, j);
        if ((told[static_cast<std::size_t>(j)] >> w & 1) != (expected ? 1 : 0))
          return "query " + std::to_string(panel.begin + w) + ", key " + std::to_string(j);
      }
    }
  }
  return {};
}

std::string DifferenceInFloats(const Attention& attention, const Shape& shape, int64_t tile_keys) {
  return Difference<float>(attention, shape, tile_keys);
}
std::string DifferenceInDoubles(const Attention& attention, const Shape& shape, int64_t tile_keys) {
  return Difference<double>(attention, shape, tile_keys);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"

namespace heed {
HWY_EXPORT(DifferenceInFloats);
HWY_EXPORT(DifferenceInDoubles);

namespace {

void ExpectTheSame(const Attention& attention, const Shape& shape, const std::string& name) {
  for (const std::string& target : SupportedTargets()) {
    UseTarget(target);
    EXPECT_EQ(HWY_DYNAMIC_DISPATCH(DifferenceInFloats)(attention, shape, simd::kTileKeys), "") << target << " " << name;
    EXPECT_EQ(HWY_DYNAMIC_DISPATCH(DifferenceInDoubles)(attention, shape, simd::kTileKeys), "") << target << " " << name;
  }
  UseTarget("");
}

constexpr Shape ShapeOf(int64_t queries, int64_t keys) { return {1, 1, 1, queries, keys, 4, 4}; }

// Two queries for each strip of a tile that is seen at all, the first ones first or last.
TEST(Sight, TellsOfEveryPatternOfStrips) {
  constexpr int64_t kStrips = 4, kKeys = 64, kStrip = kKeys / kStrips;
  for (unsigned pattern = 1; pattern < 1U << kStrips; ++pattern)
    for (const bool backwards : {false, true}) {
      std::vector<int64_t> at;
      for (int64_t strip = 0; strip < kStrips; ++strip)
        if ((pattern >> strip & 1) != 0) at.insert(at.end(), 2, strip * kStrip + kStrip / 2);
      // Lanes of another quantum see other strips.
      at.resize(17, at.back());
      at.push_back(at.front());
      if (backwards) std::reverse(at.begin(), at.end());
      std::vector<int64_t> keys(static_cast<std::size_t>(kKeys));
      for (std::size_t j = 0; j < keys.size(); ++j) keys[j] = static_cast<int64_t>(j);
      Attention attention;
      const auto queries = static_cast<int64_t>(at.size());
      attention.query_positions.list = View<const int64_t, 2>::Contiguous(at.data(), {1, queries});
      attention.key_positions.list = View<const int64_t, 2>::Contiguous(keys.data(), {1, kKeys});
      attention.window.left = attention.window.right = 5;
      ExpectTheSame(attention, ShapeOf(queries, kKeys), "strips " + std::to_string(pattern) + (backwards ? " back" : ""));
    }
}

TEST(Sight, TellsOfRangesAndLengths) {
  const std::vector<int64_t> lengths{100};
  for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft})
    for (const int64_t left : {-1, 0, 20})
      for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{1, 1}, {70, 130}, {130, 70}, {5, 300}}) {
        Attention attention;
        attention.causal = causal;
        attention.window.left = left;
        ExpectTheSame(attention, ShapeOf(queries, keys), "window " + std::to_string(left));
        if (keys < lengths[0]) continue;
        attention.key_lengths = Lengths::PerBatch(lengths.data(), 1);
        ExpectTheSame(attention, ShapeOf(queries, keys), "lengths");
      }
}

// Keys out of order have ranks, and whole rows of a mask may hide a tile.
TEST(Sight, TellsOfRanksAndMasks) {
  constexpr int64_t kQueries = 20, kKeys = 150;
  std::vector<int64_t> queries, keys;
  for (int64_t i = 0; i < kQueries; ++i) queries.push_back(i * 37 % kKeys);
  for (int64_t j = 0; j < kKeys; ++j) keys.push_back(j * 77 % kKeys);
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.query_positions.list = View<const int64_t, 2>::Contiguous(queries.data(), {1, kQueries});
  attention.key_positions.list = View<const int64_t, 2>::Contiguous(keys.data(), {1, kKeys});
  ExpectTheSame(attention, ShapeOf(kQueries, kKeys), "ranks");
  std::array<bool, kQueries * kKeys> mask{};
  for (std::size_t x = 0; x < mask.size(); ++x) mask[x] = x % 3 == 0 && (x % kKeys < 64 || x % kKeys >= 128);
  attention.mask = Mask{View<const bool, 4>::Contiguous(mask.data(), {1, 1, kQueries, kKeys})};
  ExpectTheSame(attention, ShapeOf(kQueries, kKeys), "ranks and a mask");
  Attention masked;
  masked.mask = attention.mask;
  ExpectTheSame(masked, ShapeOf(kQueries, kKeys), "a mask");
}

}  // namespace
}  // namespace heed
#endif
