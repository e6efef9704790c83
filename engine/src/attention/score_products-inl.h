// The products of queries and keys that scores begin with, one class a layout (attention::Layout).
#if defined(HEED_ATTENTION_SCORE_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_SCORE_PRODUCTS_INL_H_
#undef HEED_ATTENTION_SCORE_PRODUCTS_INL_H_
#else
#define HEED_ATTENTION_SCORE_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "attention/few_queries-inl.h"
#include "attention/one_of.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/row_cache-inl.h"
#include "simd/pair_product-inl.h"
#include "simd/tile-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// --- the rows of a panel of bfloat16 as operands of pair products (simd/pair_product.h); in pairs no element is converted ---

// The caller's rows of head x of a panel.
template <class T>
BrainRows BrainRowsOf(const PanelSource<T>& source, const Panel& panel, int64_t x) {
  BrainRows rows = BrainRowsOf(QueriesOf(source.plan, source.operand, panel.b, panel.head + x));
  rows.data = rows.At(panel.begin, 0);
  return rows;
}

// Elements 2p and 2p + 1 of a row; the one behind an odd number is 0.
inline uint32_t ElementPair(const BrainRows& rows, int64_t i, int64_t p, int64_t elements) {
  const uint32_t upper = 2 * p + 1 < elements ? *rows.At(i, 2 * p + 1) : 0U;
  return *rows.At(i, 2 * p) | upper << 16;
}

// columns[p, w] = elements 2p and 2p + 1 of the row of lane w, or in floats columns[c, w] = element c; rows that are left out
// are 0.
template <class T>
void PackPairColumns(const Panel& panel, const attention::Lanes<T>& lanes, PanelSource<T> source, uint32_t* columns) {
  if (!InPairs()) {
    source.factor = 1;
    return PackColumns(panel, lanes, source, reinterpret_cast<T*>(columns));
  }
  const int64_t pairs = attention::DivideUp(source.elements(), 2), whole = source.elements() / 2;
  for (int64_t x = 0; x < panel.heads; ++x) {
    const BrainRows rows = BrainRowsOf(source, panel, x);
    const int64_t first = x * panel.count;
    const uint64_t left = source.Left(lanes) >> first;
    const bool all = (left & attention::LowBits(panel.count)) == 0;
    int64_t packed = 0;
    if (all && rows.element_stride == 1 && rows.row_stride % 2 == 0) {
      TransposeBits(reinterpret_cast<const uint32_t*>(rows.data), rows.row_stride / 2, panel.count, whole, columns + first,
                    panel.width);
      packed = whole;
    }
    for (int64_t w = 0; w < panel.count; ++w)
      for (int64_t p = packed; p < pairs; ++p)
        columns[p * panel.width + first + w] = (left >> w & 1) != 0 ? 0U : ElementPair(rows, w, p, source.elements());
  }
  if (panel.used() == panel.width) return;
  for (int64_t p = 0; p < pairs; ++p) std::fill(columns + p * panel.width + panel.used(), columns + (p + 1) * panel.width, 0U);
}

// packed[w / 2, c] = element c of the rows of lanes w and w + 1, as rows of `padded` pairs, or in floats packed[w, c] = element
// c of the row of lane w; padding and rows that are left out are 0.
template <class T>
void PackPairRows(const Panel& panel, const attention::Lanes<T>& lanes, PanelSource<T> source, int64_t padded,
                  uint32_t* packed) {
  if (!InPairs()) {
    source.factor = 1;
    return PackRows(panel, lanes, source, padded, panel.width, reinterpret_cast<T*>(packed));
  }
  const uint64_t left = source.Left(lanes);
  const int64_t step = BrainRowsOf(source, panel, 0).element_stride;
  // Null where the row is left out.
  const auto row = [&](int64_t w) -> const uint16_t* {
    if ((left >> w & 1) != 0) return nullptr;
    return BrainRowsOf(source, panel, w / panel.count).At(w % panel.count, 0);
  };
  const auto element = [&](const uint16_t* of, int64_t c) { return of ? of[c * step] : uint16_t{0}; };
  for (int64_t w = 0; w < panel.width; w += 2) {
    uint32_t* to = packed + w / 2 * padded;
    std::fill(to + source.elements(), to + padded, 0U);
    const uint16_t *even = row(w), *odd = row(w + 1);
    if (even && odd && step == 1) {
      LaySideBySide(even, odd, source.elements(), to);
      continue;
    }
    for (int64_t c = 0; c < source.elements(); ++c) to[c] = element(even, c) | uint32_t{element(odd, c)} << 16;
  }
}

// The rows of PackPairRows from a lane on, which is even.
inline simd::PairVectors RowsFrom(const uint32_t* packed, int64_t lane, int64_t padded) {
  return {packed + (InPairs() ? lane / 2 : lane) * padded, padded};
}

// What RoundTile made of the tile of a place, with steps along its keys, and along its lanes.
inline simd::PairVectors AlongTileKeys(const TilePlace& place, const float* tile, const uint32_t* pairs) {
  if (InPairs()) return {pairs + place.lane_begin, place.panel};
  return {tile + place.lane_begin, place.panel};
}
inline simd::PairScalars AlongTileLanes(const TilePlace& place, const float* tile, const uint16_t* rows) {
  if (InPairs()) return {rows + place.lane_begin, place.panel, 2};
  return {tile + place.lane_begin, place.panel, 1};
}

// Whether the rows of a panel are free of NaN and infinity, but for those that are left out.
template <class T>
bool AllFinitePairs(const Panel& panel, const attention::Lanes<T>& lanes, const PanelSource<T>& source) {
  const uint64_t left = source.Left(lanes);
  bool finite = true;
  for (int64_t w = 0; w < panel.used(); ++w) {
    const BrainRows rows = BrainRowsOf(source, panel, w / panel.count);
    for (int64_t c = 0; c < source.elements() && (left >> w & 1) == 0; ++c)
      finite &= AllFiniteBrain(rows.At(w % panel.count, c), 1);
  }
  return finite;
}

// --- products ---

// What is asked of memory while the products of a tile are made: the rows in the worker's queue, or those behind the tile.
enum class Asks { kQueue, kBehind };

// One head's queries in a panel and keys in tiles.
template <class T>
class ScoreProducts {
 public:
  ScoreProducts(const attention::Problem& problem, attention::ScoreScratch<T>& scratch, RowCache<T>& keys)
      : problem_(problem), shape_(problem.plan.shape()), scratch_(scratch), keys_(keys) {}
  virtual ~ScoreProducts() = default;

  // Takes the queries of a panel, which are scaled; columns: whether hooks read them too, as [D, panel] in scratch.queries.
  virtual void Begin(const Panel& panel, const PanelSource<T>& queries, bool columns) = 0;
  // target[j, w] = start + q.k for the keys of a place and, from the place's first lane on, `lanes` lanes.
  virtual void Multiply(const TilePlace& place, int64_t lanes, const Target<T>& target, Asks asks) = 0;

 protected:
  const attention::Problem& problem_;
  const Shape& shape_;
  attention::ScoreScratch<T>& scratch_;
  RowCache<T>& keys_;
};

template <class T>
class LaneScores final : public ScoreProducts<T> {
 public:
  using ScoreProducts<T>::ScoreProducts;

  void Begin(const Panel& panel, const PanelSource<T>& queries, bool /*columns*/) override {
    PackColumns(panel, scratch_.lanes, queries, scratch_.queries);
  }

  void Multiply(const TilePlace& place, int64_t lanes, const Target<T>& target, Asks asks) override {
    if (asks == Asks::kQueue) return Multiply(place, lanes, target, scratch_.ahead);
    simd::Stream behind = StreamFrom(keys_.stored(), place.key + place.keys, this->shape_.head_dim);
    Multiply(place, lanes, target, behind);
  }

 private:
  using ScoreProducts<T>::scratch_, ScoreProducts<T>::keys_;

  template <class Ahead>
  void Multiply(const TilePlace& place, int64_t lanes, const Target<T>& target, Ahead& ahead) {
    const HeadRows<const T> rows = keys_.At(place.tile_key, place.key, place.keys);
    Product(hn::ScalableTag<T>(), Scalars<T>{rows.data, rows.row_stride, 1}, {scratch_.queries + place.lane_begin, place.panel},
            {place.keys, this->shape_.head_dim, lanes}, {target.data + place.lane_begin, target.stride, target.accumulates},
            ahead);
  }
};

// rows[x, j] = the products of few queries with the keys of a place.
template <class T>
void MultiplyRows(const attention::Problem& problem, RowCache<T>& keys, const TilePlace& place,
                  const attention::ScoreScratch<T>& scratch, T* rows) {
  FewScores(keys.Packed(place.tile_key, place.key, place.keys), problem.ComesFromMemory(), place.keys, scratch.few_queries,
            problem.cut.head_dim, place.used, problem.plan.shape().head_dim, rows);
}

// Few queries, which meet the elements of keys in lanes. Their scores then become a tile, for whoever works on tiles.
template <class T>
class RowScores final : public ScoreProducts<T> {
 public:
  using ScoreProducts<T>::ScoreProducts;

  void Begin(const Panel& panel, const PanelSource<T>& queries, bool columns) override {
    if (columns) PackColumns(panel, scratch_.lanes, queries, scratch_.queries);
    PackRows(panel, scratch_.lanes, queries, this->problem_.cut.head_dim, panel.used(), scratch_.few_queries);
  }

  void Multiply(const TilePlace& place, int64_t /*lanes*/, const Target<T>& target, Asks /*asks*/) override {
    MultiplyRows(this->problem_, this->keys_, place, scratch_, scratch_.few_scores);
    AddRowsToTile(scratch_.few_scores, place.keys, place.used, target);
  }

 private:
  using ScoreProducts<T>::scratch_;
};

// bfloat16, two neighbouring elements a step.
class PairScores final : public ScoreProducts<float> {
 public:
  PairScores(const attention::Problem& problem, attention::ScoreScratch<float>& scratch, RowCache<float>& keys, float factor)
      : ScoreProducts(problem, scratch, keys), factor_(factor) {}

  void Begin(const Panel& panel, const PanelSource<float>& queries, bool columns) override {
    if (columns) PackColumns(panel, scratch_.lanes, queries, scratch_.queries);
    PackPairColumns(panel, scratch_.lanes, queries, scratch_.query_pairs);
  }

  void Multiply(const TilePlace& place, int64_t lanes, const Target<float>& target, Asks /*asks*/) override {
    const simd::PairScalars keys = keys_.AlongElements(place.tile_key, place.key, place.keys);
    const simd::PairVectors queries{scratch_.query_pairs + place.lane_begin, place.panel};
    const int64_t width = attention::RoundUp(lanes, attention::kLaneQuantum);
    // Where a key is met by few queries its product waits for memory: keys of the next tile are asked for meanwhile.
    const bool waits = place.used <= kWaitingQueries;
    const int64_t step = waits ? kKeysAtOnce : place.keys;
    const DenormalsAsZero zero;  // once for all of them
    for (int64_t j = 0; j < place.keys; j += step) {
      const int64_t count = std::min(step, place.keys - j);
      if (waits) keys_.AskBehind(place.key + j, count);
      PairProduct(RowsBehind(keys, j), queries, {count, shape_.head_dim, width},
                  {target.data + j * target.stride + place.lane_begin, target.stride, target.accumulates, factor_},
                  scratch_.ahead);
    }
  }

 private:
  // Queries that a vector holds twice over, and the rows of one register tile of one vector of queries.
  static constexpr int64_t kWaitingQueries = 8, kKeysAtOnce = 12;

  float factor_;  // q.k becomes a score in powers of two
};

// The products of a call. by_hook: whether a hook makes them in the place of all of these; it reads queries in columns.
template <class T>
using ChosenScores = attention::OneOf<ScoreProducts<T>, LaneScores<T>, RowScores<T>, PairScores>;
template <class T>
void Choose(const attention::Problem& problem, attention::ScoreScratch<T>& scratch, RowCache<T>& keys, T factor, bool by_hook,
            ChosenScores<T>& chosen) {
  using attention::Layout;
  if (by_hook) return chosen.template Hold<LaneScores<T>>(problem, scratch, keys);
  if (problem.layout == Layout::kRows) return chosen.template Hold<RowScores<T>>(problem, scratch, keys);
  if constexpr (sizeof(T) == sizeof(float))
    if (problem.layout != Layout::kLanes) return chosen.template Hold<PairScores>(problem, scratch, keys, factor);
  chosen.template Hold<LaneScores<T>>(problem, scratch, keys);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
