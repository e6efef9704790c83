#include "reference/cases.h"

namespace heed::reference {
namespace {

// What rows of the table are made of: each takes a value and returns what sets it.
constexpr auto causal = [](Causal value) { return [value](Case& c) { c.causal = value; }; };
constexpr auto keys = [](LengthKind value) { return [value](Case& c) { c.key_lengths = value; }; };
constexpr auto queries = [](Case& c) { c.query_lengths = true; };
constexpr auto bias = [](int64_t distance) { return [distance](Case& c) { c.max_distance = distance; }; };
constexpr auto dropout = [](double p) { return [p](Case& c) { c.dropout = p; }; };
constexpr auto uniform = [](Case& c) { c.empty_row = EmptyRow::kUniform; };
constexpr auto layout = [](Layout value) { return [value](Case& c) { c.layout = value; }; };
constexpr auto scale = [](double value) { return [value](Case& c) { c.scale = value; }; };
constexpr auto offsets = [](int64_t q, int64_t k) { return [q, k](Case& c) { c.query_offset = q, c.key_offset = k; }; };
constexpr auto window = [](int64_t left, int64_t right) { return [left, right](Case& c) { c.window = {left, right}; }; };
constexpr auto prefix = [](Case& c) { c.prefix = true; };
constexpr auto packed = [](Case& c) { c.packed = true; };
constexpr auto positions = [](PositionKind value) { return [value](Case& c) { c.positions = value; }; };
constexpr auto dense_mask = [](int ones) { return [ones](Case& c) { c.mask = ones; }; };
constexpr auto dense_bias = [](int ones) { return [ones](Case& c) { c.bias = ones; }; };
constexpr auto hiding = [](Case& c) { c.hiding_bias = true; };
constexpr auto slopes = [](bool symmetric) { return [symmetric](Case& c) { c.slopes = true, c.symmetric = symmetric; }; };
constexpr auto content = [](int64_t distance) { return [distance](Case& c) { c.content_distance = distance; }; };
constexpr auto keys_only = [](Case& c) { c.content_values = false; };
constexpr auto values_only = [](Case& c) { c.content_keys = false; };
constexpr auto and_queries = [](Case& c) { c.content_queries = true; };
constexpr auto queries_only = [](Case& c) { c.content_keys = c.content_values = false, c.content_queries = true; };
constexpr auto weights = [](Case& c) { c.weights = true; };
constexpr auto lse_gradient = [](Case& c) { c.lse_gradient = true; };
constexpr auto bare = [](Case& c) { c.statistics = false; };
constexpr auto softcap = [](double value) { return [value](Case& c) { c.softcap = value; }; };

// Adds a row: shapes in the order batch, query heads, key heads, queries, keys, key width, value width.
template <class... Set>
void Add(std::vector<Case>& cases, std::string name, Shape shape, Set... set) {
  Case c{};
  c.name = std::move(name);
  c.shape = shape;
  (set(c), ...);
  cases.push_back(std::move(c));
}

void AddShapesAndLengths(std::vector<Case>& cases) {
  const auto add = [&](const char* name, Shape shape, auto... set) { Add(cases, name, shape, set...); };
  add("plain", {2, 3, 3, 40, 48, 16, 16});
  add("one token", {1, 1, 1, 1, 1, 1, 1});
  add("one query", {2, 2, 2, 1, 130, 32, 32});
  add("one key", {2, 2, 2, 70, 1, 8, 8});
  add("tile edges", {1, 2, 2, 64, 64, 64, 64});
  add("past tile edges", {1, 2, 2, 65, 129, 64, 64});
  add("several chunks", {1, 2, 2, 70, 1100, 16, 16});
  add("odd widths", {2, 2, 2, 33, 37, 5, 7});
  add("width 80", {1, 2, 2, 65, 65, 80, 80});
  add("width 257", {1, 1, 1, 5, 70, 257, 257});
  add("wider values", {2, 2, 2, 40, 50, 16, 48});
  add("narrower values", {2, 2, 2, 40, 50, 48, 3});
  add("no queries", {2, 2, 2, 0, 5, 4, 4});
  add("no keys", {2, 2, 2, 5, 0, 4, 4});
  add("no batch", {0, 2, 2, 5, 5, 4, 4});
  add("no value width", {1, 2, 2, 5, 5, 4, 0});
  add("scale", {1, 2, 2, 20, 30, 16, 16}, scale(0.7));
  add("without statistics", {2, 2, 2, 70, 90, 16, 16}, bare);
  add("weights", {2, 4, 2, 70, 90, 16, 16}, weights, keys(LengthKind::kPerBatch), causal(Causal::kBottomRight));
  add("gradient of lse", {2, 2, 2, 70, 90, 16, 16}, lse_gradient, dropout(0.2));
  add("scale zero", {1, 2, 2, 20, 30, 16, 16}, scale(0.0));
  add("grouped heads", {2, 6, 2, 35, 67, 16, 16});
  add("one key head", {1, 8, 1, 20, 600, 16, 16}, causal(Causal::kBottomRight));
  add("causal", {2, 2, 2, 100, 100, 32, 32}, causal(Causal::kBottomRight));
  add("causal, more keys", {1, 2, 2, 50, 90, 16, 16}, causal(Causal::kBottomRight));
  add("causal, more queries", {1, 2, 2, 90, 50, 16, 16}, causal(Causal::kBottomRight));
  add("causal, more queries, uniform", {1, 2, 2, 90, 50, 16, 16}, causal(Causal::kBottomRight), uniform);
  add("causal top-left, more keys", {1, 2, 2, 50, 90, 16, 16}, causal(Causal::kTopLeft));
  add("causal top-left, more queries", {1, 2, 2, 90, 50, 16, 16}, causal(Causal::kTopLeft));
  add("causal, several chunks", {1, 2, 2, 1100, 1100, 16, 16}, causal(Causal::kBottomRight));
  add("causal at an offset", {1, 2, 2, 10, 90, 16, 16}, causal(Causal::kBottomRight), offsets(60, 0));
  add("key lengths", {4, 2, 2, 70, 150, 16, 16}, keys(LengthKind::kPerBatch));
  add("key lengths per query", {3, 2, 2, 70, 150, 16, 16}, keys(LengthKind::kPerQuery));
  add("key lengths, uniform", {4, 2, 2, 70, 90, 16, 16}, keys(LengthKind::kPerBatch), uniform);
  add("key lengths per query, uniform, dropout", {3, 2, 2, 70, 90, 16, 16}, keys(LengthKind::kPerQuery), uniform, dropout(0.2));
  add("query lengths", {4, 2, 2, 70, 90, 16, 16}, queries);
  add("both lengths, causal", {4, 2, 2, 90, 90, 16, 16}, keys(LengthKind::kPerBatch), queries, causal(Causal::kBottomRight));
  add("relative bias", {2, 3, 3, 70, 90, 16, 16}, bias(200));
  add("relative bias, clipped", {2, 2, 2, 130, 90, 16, 16}, bias(7));
  add("relative bias, distance 0", {1, 2, 2, 33, 40, 16, 16}, bias(0));
  add("relative bias, causal, grouped", {2, 4, 2, 90, 90, 16, 16}, bias(30), causal(Causal::kBottomRight));
  add("relative bias, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, bias(20), keys(LengthKind::kPerQuery), uniform);
  add("relative bias, offsets", {1, 2, 2, 40, 90, 16, 16}, bias(20), offsets(1000000, 999990));
  add("relative bias, several chunks", {1, 1, 1, 80, 1100, 16, 16}, bias(2000));
  add("dropout", {2, 2, 2, 70, 90, 16, 16}, dropout(0.1));
  add("dropout, half", {1, 2, 2, 33, 1100, 16, 16}, dropout(0.5));
  add("dropout, causal, bias", {2, 2, 2, 70, 90, 16, 16}, dropout(0.3), causal(Causal::kBottomRight), bias(12));
  add("dropout, lengths", {3, 2, 2, 40, 90, 16, 16}, dropout(0.9), keys(LengthKind::kPerBatch), queries);
}

void AddPositionsAndBiases(std::vector<Case>& cases) {
  const auto add = [&](const char* name, Shape shape, auto... set) { Add(cases, name, shape, set...); };
  add("window", {2, 2, 2, 150, 150, 16, 16}, window(20, 3));
  add("window, causal", {1, 2, 2, 150, 200, 16, 16}, window(33, -1), causal(Causal::kBottomRight));
  add("window, several chunks", {1, 1, 1, 700, 1100, 16, 16}, window(64, 0), causal(Causal::kBottomRight));
  add("window beyond the keys, uniform", {1, 2, 2, 100, 30, 16, 16}, window(2, 2), uniform);
  add("prefix", {3, 2, 2, 90, 90, 16, 16}, prefix, causal(Causal::kBottomRight));
  add("prefix, lengths", {3, 2, 2, 90, 120, 16, 16}, prefix, causal(Causal::kTopLeft), keys(LengthKind::kPerBatch));
  add("packed", {4, 2, 2, 70, 90, 16, 16}, packed);
  add("packed, causal, dropout", {3, 4, 2, 130, 130, 16, 16}, packed, causal(Causal::kBottomRight), dropout(0.2));
  add("packed, relative bias, window", {3, 2, 2, 100, 100, 16, 16}, packed, bias(15), window(40, 10));
  add("packed, lengths, uniform", {4, 2, 2, 40, 60, 16, 16}, packed, keys(LengthKind::kPerQuery), queries, uniform);
  add("packed, several chunks", {2, 1, 1, 150, 1100, 16, 16}, packed, causal(Causal::kBottomRight), content(4));
  add("ascending positions, causal", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kAscending),
      causal(Causal::kBottomRight));
  add("shuffled positions, causal", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kShuffled),
      causal(Causal::kBottomRight));
  add("shuffled positions, window, uniform", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kShuffled), window(9, 4),
      uniform);
  add("shuffled positions, relative bias", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kShuffled), bias(12));
  add("real positions, slopes, window", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kReal), slopes(true), window(10, 5));
  add("dense mask", {2, 3, 3, 70, 90, 16, 16}, dense_mask(0));
  add("dense mask of keys", {2, 2, 2, 70, 90, 16, 16}, dense_mask(0b0110), uniform);
  add("dense mask of pairs, causal", {2, 2, 2, 70, 90, 16, 16}, dense_mask(0b0011), causal(Causal::kBottomRight), uniform);
  add("dense bias", {2, 4, 2, 70, 90, 16, 16}, dense_bias(0));
  add("dense bias of heads", {3, 2, 2, 70, 90, 16, 16}, dense_bias(0b0001));
  add("dense bias of pairs", {3, 4, 2, 70, 90, 16, 16}, dense_bias(0b0011), hiding, causal(Causal::kBottomRight));
  add("dense bias of keys", {2, 2, 2, 70, 1100, 16, 16}, dense_bias(0b0110));
  add("dense bias of queries", {2, 2, 2, 70, 1100, 16, 16}, dense_bias(0b1001));
  add("dense bias of one number", {2, 2, 2, 70, 90, 16, 16}, dense_bias(0b1111));
  add("hiding bias, uniform", {2, 2, 2, 40, 6, 16, 16}, dense_bias(0b0001), hiding, uniform);
  add("slopes", {2, 3, 3, 70, 90, 16, 16}, slopes(true));
  add("slopes, one direction, causal", {2, 4, 2, 70, 90, 16, 16}, slopes(false), causal(Causal::kBottomRight));
  add("slopes, offsets", {1, 2, 2, 40, 90, 16, 16}, slopes(true), offsets(1000000, 999990));
  add("content", {2, 3, 3, 70, 90, 16, 24}, content(5));
  add("content, wide", {2, 2, 2, 130, 90, 16, 16}, content(200));
  add("content keys, causal", {2, 4, 2, 150, 150, 16, 16}, content(16), keys_only, causal(Causal::kBottomRight));
  add("content values, dropout", {2, 2, 2, 70, 90, 16, 16}, content(3), values_only, dropout(0.3));
  add("content, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, content(6), keys(LengthKind::kPerQuery), uniform);
  add("content, shuffled positions", {2, 2, 2, 70, 90, 16, 16}, content(6), positions(PositionKind::kShuffled));
  add("content queries", {2, 3, 3, 70, 90, 16, 24}, content(5), queries_only);
  add("content queries, wide", {2, 2, 2, 130, 190, 17, 16}, content(400), queries_only);
  add("content queries, distance 0", {1, 2, 2, 33, 70, 16, 16}, content(0), queries_only);
  add("content queries, causal, grouped", {2, 4, 2, 150, 150, 16, 16}, content(30), keys_only, and_queries,
      causal(Causal::kBottomRight));
  add("content queries, several chunks", {1, 2, 1, 80, 1100, 16, 16}, content(70), and_queries, dropout(0.2));
  add("content queries, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, content(6), queries_only, keys(LengthKind::kPerQuery),
      uniform);
  add("content queries, shuffled positions", {2, 2, 2, 70, 90, 16, 16}, content(40), queries_only,
      positions(PositionKind::kShuffled));
  add("content queries, packed, window", {4, 2, 2, 70, 90, 16, 16}, content(9), queries_only, packed, window(30, 12));
  add("content queries, offsets, spread", {2, 2, 2, 40, 90, 20, 16}, content(15), queries_only, offsets(1000000, 999990),
      layout(Layout::kSpread));
  add("soft-cap", {2, 2, 2, 70, 90, 32, 32}, softcap(1.5));
  add("soft-cap, content queries", {2, 2, 2, 70, 90, 16, 16}, softcap(2.0), content(4), and_queries);
  add("soft-cap, content, bias", {2, 2, 2, 70, 90, 16, 16}, softcap(2.0), content(4), bias(9), causal(Causal::kBottomRight));
  add("many biases", {2, 4, 2, 70, 90, 16, 16}, slopes(true), bias(9), content(4), dense_bias(0b0001), dropout(0.1));
  add("decoding", {2, 8, 2, 1, 3000, 32, 32}, causal(Causal::kBottomRight));
  add("decoding, lengths, bias", {3, 8, 2, 2, 2100, 16, 16}, keys(LengthKind::kPerBatch), bias(40));
  add("decoding, slopes, content", {2, 6, 2, 3, 2100, 16, 16}, slopes(true), content(4), softcap(5.0));
  add("decoding, content queries", {2, 6, 2, 3, 2100, 16, 16}, content(40), and_queries, causal(Causal::kBottomRight));
  add("decoding, dense", {2, 4, 2, 2, 1500, 16, 16}, dense_bias(0b0001), dense_mask(0b0010), uniform);
  add("heads inside", {2, 3, 3, 70, 90, 24, 24}, layout(Layout::kHeadsInside), causal(Causal::kBottomRight));
  add("spread elements", {2, 2, 2, 70, 90, 24, 20}, layout(Layout::kSpread), bias(5));
  add("backwards", {2, 2, 2, 70, 90, 24, 24}, layout(Layout::kBackwards), dropout(0.1));
  add("shared keys", {3, 2, 2, 40, 90, 24, 24}, layout(Layout::kShared));
  add("random strides", {3, 4, 2, 40, 90, 24, 20}, layout(Layout::kRandom), bias(5), dense_bias(0b0001), content(3));
}

}  // namespace

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    AddShapesAndLengths(all);
    AddPositionsAndBiases(all);
    return all;
  }();
  return cases;
}

}  // namespace heed::reference
