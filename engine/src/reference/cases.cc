#include "reference/cases.h"

#include <string>

#include "reference/case_table.h"
#include "reference/schemes.h"

namespace heed::reference {
namespace {

using given::bare, given::causal, given::dropout, given::keys, given::layout, given::lse_gradient, given::mask, given::offsets,
    given::packed, given::positions, given::prefix, given::queries, given::scale, given::softcap, given::spoiled,
    given::statistic_gradients, given::uniform, given::weights, given::window;

void AddShapesAndLengths(CaseTable& table) {
  table.Add("plain", {2, 3, 3, 40, 48, 16, 16});
  table.Add("one token", {1, 1, 1, 1, 1, 1, 1});
  table.Add("one query", {2, 2, 2, 1, 130, 32, 32});
  table.Add("one key", {2, 2, 2, 70, 1, 8, 8});
  table.Add("tile edges", {1, 2, 2, 64, 64, 64, 64});
  table.Add("past tile edges", {1, 2, 2, 65, 129, 64, 64});
  table.Add("several chunks", {1, 2, 2, 70, 1100, 16, 16});
  table.Add("odd widths", {2, 2, 2, 33, 37, 5, 7});
  table.Add("width 80", {1, 2, 2, 65, 65, 80, 80});
  table.Add("width 257", {1, 1, 1, 5, 70, 257, 257});
  table.Add("wider values", {2, 2, 2, 40, 50, 16, 48});
  table.Add("narrower values", {2, 2, 2, 40, 50, 48, 3});
  table.Add("no queries", {2, 2, 2, 0, 5, 4, 4});
  table.Add("no keys", {2, 2, 2, 5, 0, 4, 4});
  table.Add("no query heads", {2, 0, 2, 5, 20, 4, 4});
  table.Add("no batch", {0, 2, 2, 5, 5, 4, 4});
  table.Add("no value width", {1, 2, 2, 5, 5, 4, 0});
  table.Add("scale", {1, 2, 2, 20, 30, 16, 16}, scale(0.7));
  table.Add("without statistics", {2, 2, 2, 70, 90, 16, 16}, bare);
  table.Add("weights", {2, 4, 2, 70, 90, 16, 16}, weights, keys(LengthKind::kPerBatch), causal(Causal::kBottomRight));
  table.Add("gradient of lse", {2, 2, 2, 70, 90, 16, 16}, lse_gradient, dropout(0.2));
  table.Add("scale zero", {1, 2, 2, 20, 30, 16, 16}, scale(0.0));
  table.Add("grouped heads", {2, 6, 2, 35, 67, 16, 16});
  table.Add("one key head", {1, 8, 1, 20, 600, 16, 16}, causal(Causal::kBottomRight));
  table.Add("one key head, several pieces", {1, 16, 1, 150, 90, 16, 16}, causal(Causal::kBottomRight), dropout(0.2));
  table.Add("causal", {2, 2, 2, 100, 100, 32, 32}, causal(Causal::kBottomRight));
  table.Add("causal, more keys", {1, 2, 2, 50, 90, 16, 16}, causal(Causal::kBottomRight));
  table.Add("causal, more queries", {1, 2, 2, 90, 50, 16, 16}, causal(Causal::kBottomRight));
  table.Add("causal, more queries, uniform", {1, 2, 2, 90, 50, 16, 16}, causal(Causal::kBottomRight), uniform);
  table.Add("causal top-left, more keys", {1, 2, 2, 50, 90, 16, 16}, causal(Causal::kTopLeft));
  table.Add("causal top-left, more queries", {1, 2, 2, 90, 50, 16, 16}, causal(Causal::kTopLeft));
  table.Add("causal, several chunks", {1, 2, 2, 1100, 1100, 16, 16}, causal(Causal::kBottomRight));
  table.Add("causal, several chunks and pieces", {1, 1, 1, 2100, 700, 16, 16}, causal(Causal::kBottomRight));
  table.Add("causal at an offset", {1, 2, 2, 10, 90, 16, 16}, causal(Causal::kBottomRight), offsets(60, 0));
  table.Add("key lengths", {4, 2, 2, 70, 150, 16, 16}, keys(LengthKind::kPerBatch));
  table.Add("key lengths per query", {3, 2, 2, 70, 150, 16, 16}, keys(LengthKind::kPerQuery));
  table.Add("key lengths, uniform", {4, 2, 2, 70, 90, 16, 16}, keys(LengthKind::kPerBatch), uniform);
  table.Add("key lengths per query, uniform, dropout", {3, 2, 2, 70, 90, 16, 16}, keys(LengthKind::kPerQuery), uniform,
            dropout(0.2));
  table.Add("query lengths", {4, 2, 2, 70, 90, 16, 16}, queries);
  table.Add("both lengths, causal", {4, 2, 2, 90, 90, 16, 16}, keys(LengthKind::kPerBatch), queries,
            causal(Causal::kBottomRight));
  table.Add("dropout", {2, 2, 2, 70, 90, 16, 16}, dropout(0.1));
  table.Add("dropout, half", {1, 2, 2, 33, 1100, 16, 16}, dropout(0.5));
  table.Add("dropout, lengths", {3, 2, 2, 40, 90, 16, 16}, dropout(0.9), keys(LengthKind::kPerBatch), queries);
}

void AddPositionsAndMasks(CaseTable& table) {
  table.Add("window", {2, 2, 2, 150, 150, 16, 16}, window(20, 3));
  table.Add("window, causal", {1, 2, 2, 150, 200, 16, 16}, window(33, -1), causal(Causal::kBottomRight));
  table.Add("window, several chunks", {1, 1, 1, 700, 1100, 16, 16}, window(64, 0), causal(Causal::kBottomRight));
  table.Add("window beyond the keys, uniform", {1, 2, 2, 100, 30, 16, 16}, window(2, 2), uniform);
  table.Add("prefix", {3, 2, 2, 90, 90, 16, 16}, prefix, causal(Causal::kBottomRight));
  table.Add("prefix, lengths", {3, 2, 2, 90, 120, 16, 16}, prefix, causal(Causal::kTopLeft), keys(LengthKind::kPerBatch));
  table.Add("packed", {4, 2, 2, 70, 90, 16, 16}, packed);
  table.Add("packed, causal, dropout", {3, 4, 2, 130, 130, 16, 16}, packed, causal(Causal::kBottomRight), dropout(0.2));
  table.Add("packed, several pieces", {3, 16, 1, 130, 130, 16, 16}, packed, causal(Causal::kBottomRight));
  table.Add("packed, lengths, uniform", {4, 2, 2, 40, 60, 16, 16}, packed, keys(LengthKind::kPerQuery), queries, uniform);
  table.Add("ascending positions, causal", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kAscending),
            causal(Causal::kBottomRight));
  table.Add("shuffled positions, causal", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kShuffled),
            causal(Causal::kBottomRight));
  table.Add("shuffled positions, window, uniform", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kShuffled), window(9, 4),
            uniform);
  table.Add("jumping positions, window", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kJumping), window(5, 5));
  table.Add("jumping positions, window, few", {2, 2, 2, 3, 300, 16, 16}, positions(PositionKind::kJumping), window(0, 9));
  table.Add("jumping positions, causal, uniform", {2, 4, 2, 40, 90, 16, 16}, positions(PositionKind::kJumping),
            causal(Causal::kBottomRight), uniform);
  table.Add("dense mask", {2, 3, 3, 70, 90, 16, 16}, mask(0));
  table.Add("dense mask of keys", {2, 2, 2, 70, 90, 16, 16}, mask(0b0110), uniform);
  table.Add("dense mask of pairs, causal", {2, 2, 2, 70, 90, 16, 16}, mask(0b0011), causal(Causal::kBottomRight), uniform);
  table.Add("soft-cap", {2, 2, 2, 70, 90, 32, 32}, softcap(1.5));
  table.Add("decoding", {2, 8, 2, 1, 3000, 32, 32}, causal(Causal::kBottomRight));
  table.Add("whole vectors, one panel, heads inside", {2, 3, 3, 40, 130, 32, 48}, layout(Layout::kHeadsInside));
  table.Add("whole vectors, grouped", {1, 4, 2, 100, 130, 32, 32}, keys(LengthKind::kPerBatch));
  table.Add("whole vectors, causal chunks", {1, 2, 2, 150, 700, 16, 32}, causal(Causal::kBottomRight), dropout(0.1));
  table.Add("whole vectors, backwards", {2, 2, 2, 50, 90, 32, 32}, layout(Layout::kBackwards));
  table.Add("heads inside", {2, 3, 3, 70, 90, 24, 24}, layout(Layout::kHeadsInside), causal(Causal::kBottomRight));
  table.Add("backwards", {2, 2, 2, 70, 90, 24, 24}, layout(Layout::kBackwards), dropout(0.1));
  table.Add("shared keys", {3, 2, 2, 40, 90, 24, 24}, layout(Layout::kShared));
}

// NaN and infinity where no row looks.
void AddSpoiled(CaseTable& table) {
  table.Add("spoiled, both lengths", {4, 2, 2, 70, 90, 16, 16}, queries, keys(LengthKind::kPerBatch), spoiled);
  table.Add("spoiled, more queries, mask", {2, 4, 2, 40, 20, 16, 16}, causal(Causal::kBottomRight), mask(0), spoiled);
  table.Add("spoiled, uniform, dropout", {2, 2, 2, 40, 6, 16, 16}, causal(Causal::kBottomRight), dropout(0.2), uniform,
            spoiled);
  table.Add("spoiled, few", {4, 4, 2, 2, 90, 16, 16}, queries, keys(LengthKind::kPerQuery), mask(0), spoiled);
  table.Add("spoiled, weights", {3, 2, 2, 20, 40, 16, 16}, window(2, -1), mask(0b0011), weights, spoiled);
}

// Entropy, largest weight and mean distance of rows have gradients.
void AddStatisticGradients(CaseTable& table) {
  const auto add = [&](const std::string& name, const Shape& shape, const auto&... set) {
    table.Add("gradients of statistics" + name, shape, statistic_gradients, set...);
  };
  add("", {2, 3, 3, 70, 90, 16, 16});
  add(", grouped, causal, of lse too", {2, 4, 2, 70, 90, 33, 24}, causal(Causal::kBottomRight), lse_gradient);
  add(", dropout, chunks", {1, 2, 2, 80, 1300, 16, 16}, dropout(0.3));
  add(", real positions, window", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kReal), window(10, 5));
  add(", packed, prefix", {4, 2, 2, 70, 90, 16, 16}, packed, prefix, causal(Causal::kBottomRight));
  add(", lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, keys(LengthKind::kPerQuery), queries, uniform);
  add(", soft-cap, mask", {2, 2, 2, 70, 90, 16, 16}, softcap(1.5), mask(0));
  add(", equal scores", {2, 2, 2, 70, 90, 16, 16}, scale(0), causal(Causal::kBottomRight));
  add(", few, dropout", {2, 4, 2, 2, 600, 24, 40}, dropout(0.3));
  add(", few, splits", {1, 8, 8, 1, 5000, 16, 24}, keys(LengthKind::kPerBatch));
  add(", few, shuffled positions", {2, 2, 2, 3, 90, 16, 16}, positions(PositionKind::kShuffled));
  add(", spoiled", {4, 2, 2, 40, 90, 16, 16}, queries, keys(LengthKind::kPerBatch), spoiled);
}

// Up to four queries that share a key head, see attention/few_queries-inl.h.
void AddFewQueries(CaseTable& table) {
  table.Add("few, key lengths", {3, 2, 2, 1, 150, 20, 37}, keys(LengthKind::kPerQuery), uniform);
  table.Add("few, both lengths", {4, 2, 2, 4, 90, 64, 64}, keys(LengthKind::kPerQuery), queries);
  table.Add("few, causal", {2, 2, 2, 4, 150, 33, 48}, causal(Causal::kBottomRight));
  table.Add("few, causal top-left, uniform", {2, 2, 2, 3, 150, 16, 16}, causal(Causal::kTopLeft), uniform);
  table.Add("few, window", {2, 2, 2, 2, 300, 64, 64}, window(70, 3));
  table.Add("few, packed", {4, 2, 2, 4, 90, 16, 16}, packed, causal(Causal::kBottomRight));
  table.Add("few, shuffled positions", {2, 2, 2, 3, 90, 16, 16}, positions(PositionKind::kShuffled),
            causal(Causal::kBottomRight));
  table.Add("few, dense mask", {2, 2, 2, 4, 200, 80, 80}, mask(0), uniform);
  table.Add("few, soft-cap", {2, 2, 2, 2, 90, 32, 32}, softcap(1.5));
  table.Add("few, dropout", {2, 4, 2, 2, 90, 16, 16}, dropout(0.3));
  table.Add("few of two heads", {2, 4, 2, 2, 1100, 80, 80}, causal(Causal::kBottomRight));
  table.Add("few of three heads", {2, 6, 2, 1, 90, 5, 7}, keys(LengthKind::kPerBatch));
  table.Add("few of four heads", {1, 8, 2, 1, 2100, 128, 128}, window(1500, 0), causal(Causal::kBottomRight));
  table.Add("few, heads inside", {2, 4, 2, 1, 90, 24, 24}, layout(Layout::kHeadsInside));
  table.Add("few, backwards", {2, 4, 2, 2, 90, 24, 24}, layout(Layout::kBackwards));
  table.Add("few, lengths of several tiles", {2, 2, 2, 3, 700, 64, 64}, keys(LengthKind::kPerQuery));
  table.Add("few, dense mask of several tiles", {1, 2, 2, 4, 530, 20, 37}, mask(0), softcap(1.5));
  table.Add("few, dropout over several tiles", {1, 2, 2, 2, 600, 24, 40}, dropout(0.3), window(300, 0));
  table.Add("few, dropout, without statistics", {2, 4, 2, 2, 600, 24, 40}, dropout(0.3), bare);
  table.Add("few of eight heads side by side, dropout", {2, 16, 2, 1, 300, 16, 16}, dropout(0.3), bare);
  table.Add("three queries of six heads, dropout", {2, 12, 2, 3, 90, 16, 16}, dropout(0.3), keys(LengthKind::kPerBatch));
  table.Add("few, window and mask, without statistics", {2, 2, 2, 3, 700, 16, 40}, window(300, 1), mask(0), bare);
  table.Add("few, shared keys", {3, 2, 2, 2, 90, 24, 24}, layout(Layout::kShared));
  table.Add("one query, odd widths", {2, 3, 3, 1, 600, 97, 13}, causal(Causal::kBottomRight));
  table.Add("few, window of a long cache", {2, 2, 2, 1, 5000, 16, 16}, window(100, 0), causal(Causal::kBottomRight));
  table.Add("few, short keys in a long cache", {3, 2, 2, 2, 5000, 16, 16}, keys(LengthKind::kPerBatch));
  table.Add("few, without statistics", {2, 4, 4, 1, 700, 64, 64}, bare);
  table.Add("few of three heads, without statistics", {2, 6, 2, 1, 300, 20, 37}, bare, causal(Causal::kBottomRight));
  table.Add("few, window of several splits", {1, 2, 2, 2, 9000, 16, 16}, window(5000, 10), causal(Causal::kBottomRight));
  table.Add("few of eight heads, splits", {1, 8, 8, 1, 5000, 16, 24}, keys(LengthKind::kPerBatch));
  table.Add("five queries", {2, 2, 2, 5, 150, 33, 48}, causal(Causal::kBottomRight));
  table.Add("eight queries, dense mask", {2, 2, 2, 8, 141, 30, 44}, mask(0), uniform);
  table.Add("nine queries, dense mask of keys", {2, 2, 2, 9, 141, 44, 30}, mask(0b0110));
}

// Heads that share keys side by side, in panels of which some lanes are idle and some vectors half.
void AddHeadsSideBySide(CaseTable& table) {
  table.Add("seven heads side by side, mask", {2, 14, 2, 1, 700, 21, 40}, mask(0), keys(LengthKind::kPerBatch));
  table.Add("heads side by side, causal", {2, 6, 2, 3, 1300, 16, 16}, causal(Causal::kBottomRight));
  table.Add("heads side by side, more queries", {1, 6, 2, 5, 3, 16, 16}, causal(Causal::kBottomRight), uniform);
  table.Add("heads side by side, packed", {4, 6, 1, 4, 90, 16, 16}, packed, causal(Causal::kBottomRight));
  table.Add("heads side by side, both lengths", {4, 10, 2, 4, 90, 16, 24}, keys(LengthKind::kPerQuery), queries, uniform);
  table.Add("heads side by side, backwards, dropout", {2, 9, 1, 5, 300, 24, 24}, layout(Layout::kBackwards), dropout(0.2));
  table.Add("heads side by side, soft-cap, window", {2, 8, 4, 7, 300, 33, 16}, softcap(1.5), window(60, 2));
  table.Add("heads side by side, gradient of lse", {2, 24, 8, 7, 90, 16, 16}, lse_gradient);
  table.Add("seventeen heads side by side", {1, 17, 1, 3, 1100, 16, 48}, bare);
}

}  // namespace

const std::vector<Case>& Cases() {
  static const CaseTable table = [] {
    CaseTable all;
    AddShapesAndLengths(all);
    AddPositionsAndMasks(all);
    AddSpoiled(all);
    AddFewQueries(all);
    AddHeadsSideBySide(all);
    AddStatisticGradients(all);
    ForEachScheme([&]<class Scheme>() { Scheme::AddCases(all); });
    return all;
  }();
  return table.rows();
}

}  // namespace heed::reference
