// The products of queries and keys that scores begin with, one class a layout (attention::Layout).
#if defined(HEED_ATTENTION_SCORE_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_SCORE_PRODUCTS_INL_H_
#undef HEED_ATTENTION_SCORE_PRODUCTS_INL_H_
#else
#define HEED_ATTENTION_SCORE_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "attention/few_queries-inl.h"
#include "attention/one_of.h"
#include "attention/pair_rows-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/row_cache-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
