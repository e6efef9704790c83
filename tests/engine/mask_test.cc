// Which lanes see which keys, on every target.
#include <array>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mask_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/sight-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Words of the keys whose ranks are given, for 16 lanes that may look at ranks from `first` up to and without `last`.
template <class T>
std::vector<uint64_t> WordsOf(const std::vector<int32_t>& ranks, int64_t first, int64_t last) {
  constexpr int64_t kLanes = attention::kLaneQuantum;
  const auto keys = static_cast<int64_t>(ranks.size());
  alignas(64) std::array<T, kLanes> from{}, to;
  alignas(64) std::array<attention::Rank<T>, kLanes> rank_first, rank_last;
  to.fill(static_cast<T>(keys));
  rank_first.fill(static_cast<attention::Rank<T>>(first));
  rank_last.fill(static_cast<attention::Rank<T>>(last));
  std::vector<uint64_t> words(ranks.size());
  attention::Lanes<T> lanes{};
  lanes.first = from.data();
  lanes.last = to.data();
  lanes.rank_first = rank_first.data();
  lanes.rank_last = rank_last.data();
  lanes.visible = words.data();
  TilePlace place{};
  place.keys = keys;
  place.panel = place.lane_end = place.used = kLanes;
  SeeRanges(hn::ScalableTag<T>(), lanes, place, ranks.data());
  return words;
}

std::vector<uint64_t> WordsOfFloats(const std::vector<int32_t>& ranks, int64_t first, int64_t last) {
  return WordsOf<float>(ranks, first, last);
}
std::vector<uint64_t> WordsOfDoubles(const std::vector<int32_t>& ranks, int64_t first, int64_t last) {
  return WordsOf<double>(ranks, first, last);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"

namespace heed {
HWY_EXPORT(WordsOfFloats);
HWY_EXPORT(WordsOfDoubles);

namespace {

// Ranks are whole numbers up to 2^31, which floats cannot tell apart beyond 2^24.
TEST(Mask, TellsNeighbouringRanksApartHoweverManyKeysThereAre) {
  constexpr uint64_t kNone = 0, kEvery = 0xFFFF;
  for (const std::string& target : SupportedTargets()) {
    UseTarget(target);
    for (const int32_t base : {0, 1 << 24, 2147483640}) {
      const std::vector<int32_t> ranks{base + 1, base, base + 3, base + 2};
      const std::vector<uint64_t> expected{kEvery, kNone, kNone, kEvery};
      EXPECT_EQ(HWY_DYNAMIC_DISPATCH(WordsOfFloats)(ranks, base + 1, base + 3), expected) << target << " " << base;
      EXPECT_EQ(HWY_DYNAMIC_DISPATCH(WordsOfDoubles)(ranks, base + 1, base + 3), expected) << target << " " << base;
    }
  }
  UseTarget("");
}

}  // namespace
}  // namespace heed
#endif
