// The plan is integers: compare it with the definition, pair by pair.
#include <gtest/gtest.h>

#include "attention/plan.h"

namespace heed::attention {
namespace {

struct Setting {
  Causal causal;
  int64_t q_len, kv_len;
  std::optional<int64_t> query_offset, key_offset;
};

class Plans : public ::testing::TestWithParam<Setting> {};

TEST_P(Plans, SeeWhatTheDefinitionSees) {
  const Setting& s = GetParam();
  const std::vector<int64_t> key_lengths{0, s.kv_len, s.kv_len / 2}, query_lengths{s.q_len, s.q_len / 2, s.q_len};
  Attention attention;
  attention.causal = s.causal;
  attention.query_positions.offset = s.query_offset;
  attention.key_positions.offset = s.key_offset;
  attention.key_lengths = Lengths::PerBatch(key_lengths.data(), 3);
  attention.query_lengths = Lengths::PerBatch(query_lengths.data(), 3);
  const HiddenPairs none;
  const Plan plan(attention, {3, 1, 1, s.q_len, s.kv_len, 8, 8}, none);
  const int64_t key_first = s.key_offset.value_or(0);
  const int64_t query_first = s.query_offset.value_or(s.causal == Causal::kBottomRight ? key_first + s.kv_len - s.q_len : 0);
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t begin = 0; begin < s.q_len; begin += 16) {
      const int64_t count = std::min<int64_t>(16, s.q_len - begin);
      QueryRow rows[16];
      const PanelRange panel = plan.Panel(b, {0, 1}, begin, count, rows);
      for (int64_t i = begin; i < begin + count; ++i) {
        const QueryRow row = plan.Row(b, 0, i);
        EXPECT_EQ(rows[i - begin].keys.end, row.keys.end);
        EXPECT_EQ((panel.idle >> (i - begin) & 1) != 0, !row.active());
        EXPECT_EQ((panel.uniform >> (i - begin) & 1) != 0, row.uniform);
        for (int64_t j = 0; j < s.kv_len; ++j) {
          const bool visible = i < query_lengths[static_cast<size_t>(b)] && j < key_lengths[static_cast<size_t>(b)] &&
                               (s.causal == Causal::kNone || key_first + j <= query_first + i);
          ASSERT_EQ(row.keys.begin <= j && j < row.keys.end, visible) << b << " " << i << " " << j;
          if (visible) {
            EXPECT_TRUE(panel.reach.begin <= j && j < panel.reach.end);
          }
          if (!visible && row.active()) {
            EXPECT_TRUE(panel.NeedsMask(j, j + 1));
          }
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Plans,
    ::testing::Values(Setting{Causal::kNone, 20, 30, {}, {}}, Setting{Causal::kBottomRight, 40, 40, {}, {}},
                      Setting{Causal::kBottomRight, 20, 50, {}, {}}, Setting{Causal::kBottomRight, 50, 20, {}, {}},
                      Setting{Causal::kTopLeft, 20, 50, {}, {}}, Setting{Causal::kBottomRight, 10, 40, 25, {}},
                      Setting{Causal::kBottomRight, 10, 40, 25, 20}));

TEST(CutWork, DependsOnTheShapeAlone) {
  const Cut cut = CutBackward({1, 1, 1, 2048, 2048, 64, 64}, 4);
  EXPECT_EQ(cut.panel % kLaneQuantum, 0);
  EXPECT_EQ(cut.tile % kDropoutKeys, 0);
  EXPECT_EQ(cut.chunk % cut.tile, 0);
  EXPECT_GE(cut.panels * cut.panel, 2048);
  EXPECT_GE(cut.chunks * cut.chunk, 2048);
  EXPECT_EQ(CutBackward({1, 1, 1, 2048, 0, 64, 64}, 4).chunks, 1);
  EXPECT_EQ(CutBackward({1, 1, 1, 1, 5, 65, 64}, 8).head_dim, 80);
}

// One or few queries in a window: as many splits as its keys need, which cover every key that is seen exactly once.
TEST(CutWork, SplitsCoverWhatAWindowReaches) {
  for (const int64_t queries : {1, 3, 70, 250})
    for (const int64_t keys : {1, 700, 5000, 40'000})
      // The last one, from query 4096 on, reaches one key more than two splits hold.
      for (const Window window :
           {Window{}, Window{0, 0}, Window{100, 0}, Window{3000, 50}, Window{-1, 5}, Window{12'345, 0}, Window{3841, 0}})
        for (const int64_t offset : {int64_t{0}, keys / 3, keys - 1, int64_t{4096}}) {
          Attention attention;
          attention.window = window;
          attention.query_positions.offset = offset;
          const Shape shape{1, 8, 8, queries, keys, 16, 16};
          const HiddenPairs none;
          const Plan plan(attention, shape, none);
          const Cut cut = CutForward(attention, shape, 4);
          for (int64_t panel = 0; panel < cut.panels; ++panel) {
            QueryRow rows[64];
            const int64_t begin = panel * cut.panel, count = std::min(cut.panel, queries - begin);
            const KeyRange reach = plan.Panel(0, {0, 1}, begin, count, rows).reach;
            int64_t next = reach.begin / cut.tile * cut.tile;
            for (int64_t split = 0; split < cut.splits; ++split) {
              const KeyRange part = SplitOf(reach, split, cut);
              if (part.empty()) continue;
              EXPECT_EQ(part.begin, next);
              EXPECT_EQ(part.begin % cut.tile, 0);
              EXPECT_LE(part.end - part.begin, cut.split);
              next = part.end;
            }
            if (!reach.empty()) {
              EXPECT_EQ(next, reach.end);
            }
          }
        }
  Attention narrow;
  narrow.window = {391, 0};
  EXPECT_EQ(CutForward(narrow, {1, 8, 8, 1, 28'252, 64, 64}, 4).splits, 1);
  EXPECT_GT(CutForward(Attention{}, {1, 8, 8, 1, 28'252, 64, 64}, 4).splits, 8);
}

TEST(CutWork, HeadsThatShareKeysStandSideBySideWhereQueriesAreFew) {
  EXPECT_EQ(CutForward({}, {1, 16, 2, 8, 500, 64, 64}, 4).group, 8);
  EXPECT_EQ(CutBackward({1, 16, 2, 8, 500, 64, 64}, 4).group, 8);
  EXPECT_EQ(CutBackward({1, 16, 2, 8, 500, 64, 64}, 4).panels, 1);
  EXPECT_EQ(CutBackward({1, 16, 2, 8, 500, 64, 64}, 8).group, 1);
  EXPECT_EQ(CutBackward({1, 16, 2, 9, 500, 64, 64}, 4).group, 1);
  EXPECT_EQ(CutBackward({1, 16, 2, 8, 500, 64, 64}, 4, {.one_head = true}).group, 1);
  EXPECT_EQ(CutBackward({1, 4, 4, 8, 500, 64, 64}, 4).group, 1);
}

TEST(CutWork, AllKeysOfAHeadAreOneChunkIfAsked) {
  for (const int64_t keys : {1, 2048, 100'001}) {
    const Shape shape{1, 1, 1, 64, keys, 64, 64};
    const Cut cut = CutBackward(shape, 4, {.all_keys = true});
    EXPECT_EQ(cut.chunks, 1);
    EXPECT_GE(cut.chunk, keys);
    EXPECT_EQ(cut.chunk % cut.tile, 0);
  }
  EXPECT_GT(CutBackward({1, 1, 1, 64, 100'001, 64, 64}, 4).chunks, 1);
}

}  // namespace
}  // namespace heed::attention
