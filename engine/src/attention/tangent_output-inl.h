// The output of a panel and its tangent in one walk over its keys. With tangents of queries, keys, values and biases, and tS
// those of the scores that follow from them:
//   c = sum_j P tS    tO = sum_j P tS V + sum_j P tV - c O    the tangent of the log-sum-exp is c
// Both sums are accumulators of the running softmax behind the output, rescaled and merged with it. Dropout multiplies P where
// it meets V and tV, not in c.
//
// Keys, values or their tangents with a large common part would let sum_j P tS V and c O cancel. A number taken from all tS of
// a row changes tO by nothing, so a lane counts its tS from an origin r: the mean of those that it has seen, which each tile
// moves. With A = sum_j P (tS - r) V and a = sum_j P (tS - r), not normalised, a move of r by x takes x O from A and x sum_j P
// from a.
#if defined(HEED_ATTENTION_TANGENT_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_TANGENT_OUTPUT_INL_H_
#undef HEED_ATTENTION_TANGENT_OUTPUT_INL_H_
#else
#define HEED_ATTENTION_TANGENT_OUTPUT_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <span>

#include "attention/mask-inl.h"
#include "attention/panel-inl.h"
#include "attention/panel_output-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/row_cache-inl.h"
#include "attention/scores-inl.h"
#include "attention/softmax_state-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class TangentOutput final : public LaneOutput<T> {
 public:
  TangentOutput(const attention::ForwardProblem<T>& problem, attention::ForwardScratch<T>& scratch, Scores<T>& scores,
                std::span<PositionHook<T>* const> hooks)
      : LaneOutput<T>(problem, scratch, scores, hooks),
        tangents_(problem.tangents),
        keys_(scratch.tangents->keys, shape_.head_dim),
        value_tangents_(scratch.tangents->values, shape_.value_dim) {}

  void Begin(const Panel& panel) override {
    LaneOutput<T>::Begin(panel);
    std::fill_n(Origins(scratch_.output), panel.width, T{0});
  }

  void Walk(const PanelWalk& walk) override {
    LaneOutput<T>::Walk(walk);
    const attention::Plan& plan = problem_.plan;
    if (tangents_.q.present()) {
      const PanelSource<T> queries{tangents_.q, plan, scores_.Factor(), Uniform::kSkip, scratch_.rows};
      PackColumns(*panel_, scratch_.lanes, queries, scratch_.tangents->queries);
    }
    const auto [begin, end] = walk.walked;
    if (tangents_.k.present()) keys_.Walk(KeysOf(plan, tangents_.k, panel_->b, walk.kv_head), begin, end);
    if (tangents_.v.present()) value_tangents_.Walk(KeysOf(plan, tangents_.v, panel_->b, walk.kv_head), begin, end);
  }

  void Take(const SoftmaxState<T>& state, const TileSight& tile) override {
    if (tile.masked()) this->ClearBlank();
    scores_.FillTile(tile, scratch_.scores, Asks::kQueue, [&](const StripSight& strip) HWY_ATTR { FillTangents(strip); });
    std::copy_n(state.sum, panel_->width, scratch_.tangents->seen);
    TakeTile(d_, state, tile, scratch_.scores);
    MoveOrigins(state, tile);
    for (const StripSight& strip : tile.strips()) {
      if (strip.seen == Seen::kNone) continue;
      T* weights = RowsOfStrip(scratch_.scores, strip.place);
      T* weighted = RowsOfStrip(scratch_.tangents->scores, strip.place);
      WeighTangents(strip.place, weights, weighted);
      this->WeighStrip(strip.place, weights);
      if (problem_.dropout.of_65536 != 0) Drop(strip.place, weights, weighted);
      this->AddValues(strip, weights, Asks::kQueue);
      AddRows(strip, values_, weighted);
      if (tangents_.v.present()) AddRows(strip, value_tangents_, weights);
    }
  }

  // The other's sums are counted from the same origins first.
  void Merge(const SoftmaxState<T>& state, const SoftmaxState<T>& other) override {
    for (int64_t w = 0; w < panel_->width; w += kLanes) {
      const auto own = hn::Load(d_, Origins(state.output) + w), theirs = hn::Load(d_, Origins(other.output) + w);
      const auto seen = hn::Load(d_, other.sum + w);
      const auto common = hn::IfThenElse(hn::Eq(hn::Load(d_, state.sum + w), hn::Zero(d_)), theirs, own);
      hn::Store(common, d_, Origins(state.output) + w);
      Count(other.output, w, hn::Sub(common, theirs), hn::Ne(seen, hn::Zero(d_)), seen);
    }
    LaneOutput<T>::Merge(state, other);
  }

  void TakeValueless(const T* weights) override {
    const int64_t row = problem_.plan.ArrayRow(panel_->b), first = problem_.plan.FirstQuery(panel_->b);
    const attention::Lanes<T>& lanes = scratch_.lanes;
    for (int64_t w = 0; w < panel_->used(); ++w) {
      if (weights[w] == 0) continue;
      const T tangent = static_cast<T>(problem_.valueless_key.tangent(row, lanes.head[w], first + lanes.query[w]));
      Centres(scratch_.output)[w] += weights[w] * (tangent - Origins(scratch_.output)[w]);
    }
  }

  // The sums become the tangent, and the centre that of the log-sum-exp.
  void Normalise(const SoftmaxState<T>& state) override {
    LaneOutput<T>::Normalise(state);
    const auto unscale = hn::Set(d_, static_cast<T>(1 / problem_.dropout.kept_scale));
    const int64_t width = panel_->width;
    for (int64_t w = 0; w < width; w += kLanes) {
      T *at = Sums(scratch_.output) + w, *centre = Centres(scratch_.output) + w;
      const auto c = hn::Mul(hn::Load(d_, centre), unscale), origin = hn::Load(d_, Origins(scratch_.output) + w);
      const auto empty = hn::Eq(hn::Load(d_, state.sum + w), hn::Zero(d_));
      hn::Store(hn::IfThenZeroElse(empty, hn::Add(c, origin)), d_, centre);
      for (int64_t r = 0; r < shape_.value_dim; ++r, at += width)
        hn::Store(hn::NegMulAdd(c, hn::Load(d_, scratch_.output + r * width + w), hn::Load(d_, at)), d_, at);
    }
  }

  void Write(const SoftmaxState<T>& state) override {
    LaneOutput<T>::Write(state);
    this->WriteRows(tangents_.out, Sums(scratch_.output), {});
    for (int64_t w = 0; tangents_.lse.present() && w < panel_->used(); ++w)
      RowNumber(problem_.plan, *panel_, scratch_.lanes, tangents_.lse, w) = Centres(scratch_.output)[w];
  }

 private:
  using LaneOutput<T>::problem_, LaneOutput<T>::shape_, LaneOutput<T>::scratch_, LaneOutput<T>::scores_;
  using LaneOutput<T>::values_, LaneOutput<T>::panel_, LaneOutput<T>::d_;
  using D = hn::ScalableTag<T>;
  static constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

  // The rows behind the output of a state: A [Dv, panel] and a [panel], and, where other calls have their mean distance and no
  // softmax rescales it, r [panel].
  T* Sums(T* output) const { return output + shape_.value_dim * panel_->width; }
  T* Centres(T* output) const { return Sums(output) + shape_.value_dim * panel_->width; }
  T* Origins(T* output) const { return output + this->rows() * panel_->width; }

  // The tangents of the scores of a strip, 0 where they are hidden and in uniform lanes.
  void FillTangents(const StripSight& strip) {
    const TilePlace& place = strip.place;
    T* tile = RowsOfStrip(scratch_.tangents->scores, place);
    Target<T> target{tile + place.lane_begin, place.panel, false};
    const auto add = [&](const HeadRows<const T>& rows, const T* queries) HWY_ATTR {
      const int64_t lanes = ProductWidth(d_, place.used_end() - place.lane_begin);
      Product(d_, Scalars<T>{rows.data, rows.row_stride, 1}, {queries + place.lane_begin, place.panel},
              {place.keys, shape_.head_dim, lanes}, target, scratch_.ahead);
      target.accumulates = true;
    };
    // Keys have a common part more often than their tangents: what it adds comes last.
    if (tangents_.k.present()) add(keys_.At(place.tile_key, place.key, place.keys), scratch_.queries);
    if (tangents_.q.present()) add(scores_.Keys(place), scratch_.tangents->queries);
    for (int64_t j = 0; !target.accumulates && j < place.keys; ++j)
      std::fill_n(tile + j * place.panel + place.lane_begin, place.lanes(), T{0});
    scores_.PassTangent(place, tile);
    if (strip.seen == Seen::kSome) scores_.Mask(place, T{0}, tile);
  }

  // A weight of 0 has a product of 0, whatever the tangent of its score is.
  static hn::Vec<D> Weighted(hn::Vec<D> weight, hn::Vec<D> tangent) {
    return hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d_)), hn::Mul(weight, tangent));
  }

  // Moves the origins of the lanes that see any of a tile to the mean of all that they have seen, the tile among it.
  void MoveOrigins(const SoftmaxState<T>& state, const TileSight& tile) {
    T *masses = scratch_.tangents->masses, *moments = scratch_.tangents->moments;
    const int64_t begin = tile.lane_begin(), end = tile.lane_end();
    std::fill(masses + begin, masses + end, T{0});
    std::fill(moments + begin, moments + end, T{0});
    for (const StripSight& strip : tile.strips())
      if (strip.seen != Seen::kNone) AddMoments(strip.place);
    for (int64_t w = begin; w < end; w += kLanes) {
      const auto mass = hn::Load(d_, masses + w), seen = hn::Load(d_, state.sum + w);
      const auto all = hn::Add(hn::Load(d_, Centres(scratch_.output) + w), hn::Load(d_, moments + w));
      const auto origin = hn::Load(d_, Origins(scratch_.output) + w);
      const auto moves = hn::Gt(mass, hn::Zero(d_));
      const auto moved = hn::IfThenElse(moves, hn::Add(origin, hn::Div(all, seen)), origin);
      hn::Store(moved, d_, Origins(scratch_.output) + w);
      // Before its first tile nothing of a lane was counted, and its output is none yet.
      const auto counted = hn::AndNot(hn::Eq(hn::Load(d_, scratch_.tangents->seen + w), hn::Zero(d_)), moves);
      Count(scratch_.output, w, hn::Sub(moved, origin), counted, hn::Sub(seen, mass));
    }
  }

  void AddMoments(const TilePlace& place) const {
    const T *weights = RowsOfStrip(scratch_.scores, place), *tangents = RowsOfStrip(scratch_.tangents->scores, place);
    for (int64_t w = place.lane_begin; w < place.lane_end; w += kLanes) {
      const auto origin = hn::Load(d_, Origins(scratch_.output) + w);
      auto mass = hn::Load(d_, scratch_.tangents->masses + w), moment = hn::Load(d_, scratch_.tangents->moments + w);
      for (int64_t j = 0; j < place.keys; ++j) {
        const auto weight = hn::Load(d_, weights + j * place.panel + w);
        mass = hn::Add(mass, weight);
        moment = hn::Add(moment, Weighted(weight, hn::Sub(hn::Load(d_, tangents + j * place.panel + w), origin)));
      }
      hn::Store(mass, d_, scratch_.tangents->masses + w);
      hn::Store(moment, d_, scratch_.tangents->moments + w);
    }
  }

  // Counts what stands in the rows of an output, and of lanes that move, from origins farther by `by`. seen: their sums of
  // weights.
  void Count(T* output, int64_t w, hn::Vec<D> by, hn::Mask<D> moves, hn::Vec<D> seen) const {
    if (hn::AllFalse(d_, moves)) return;
    const int64_t width = panel_->width;
    const auto take = [&](T* at, hn::Vec<D> from) HWY_ATTR {
      const auto old = hn::Load(d_, at);
      hn::Store(hn::IfThenElse(moves, hn::NegMulAdd(by, from, old), old), d_, at);
    };
    for (int64_t r = 0; r < shape_.value_dim; ++r) take(Sums(output) + r * width + w, hn::Load(d_, output + r * width + w));
    take(Centres(output) + w, seen);
  }

  // weighted, tangents of scores, becomes their distance from the origin times weights, and is added to the centre.
  void WeighTangents(const TilePlace& place, const T* weights, T* weighted) const {
    for (int64_t w = place.lane_begin; w < place.lane_end; w += kLanes) {
      const auto origin = hn::Load(d_, Origins(scratch_.output) + w);
      auto centre = hn::Load(d_, Centres(scratch_.output) + w);
      for (int64_t j = 0; j < place.keys; ++j) {
        T* at = weighted + j * place.panel + w;
        const auto product = Weighted(hn::Load(d_, weights + j * place.panel + w), hn::Sub(hn::Load(d_, at), origin));
        hn::Store(product, d_, at);
        centre = hn::Add(centre, product);
      }
      hn::Store(centre, d_, Centres(scratch_.output) + w);
    }
  }

  // What dropout has made 0 of the weights is so in their products too.
  void Drop(const TilePlace& place, const T* weights, T* weighted) const {
    ForEachVector(d_, place, [&](int64_t at, int64_t, int64_t) HWY_ATTR {
      const auto dropped = hn::Eq(hn::Load(d_, weights + at), hn::Zero(d_));
      hn::Store(hn::IfThenZeroElse(dropped, hn::Load(d_, weighted + at)), d_, weighted + at);
    });
  }

  // sums[c, w] += sum over the keys of a strip of rows[j, c] * tile[j, w].
  void AddRows(const StripSight& strip, RowCache<T>& cache, const T* tile) {
    const TilePlace& place = strip.place;
    const HeadRows<const T> rows = cache.At(place.tile_key, place.key, place.keys);
    if (!TakesAllPairs(strip.seen, [&]() HWY_ATTR { return AllFinite(d_, rows, place.keys, shape_.value_dim); }))
      return VisibleProduct(d_, scratch_.lanes, place, rows, shape_.value_dim, tile, Sums(scratch_.output));
    Product(d_, Scalars<T>{rows.data, 1, rows.row_stride}, {tile + place.lane_begin, panel_->width},
            {shape_.value_dim, place.keys, ProductWidth(d_, place.used_end() - place.lane_begin)},
            AddedTo(Sums(scratch_.output) + place.lane_begin, panel_->width), scratch_.ahead);
  }

  const attention::TangentArrays<T>& tangents_;
  RowCache<T> keys_, value_tangents_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
