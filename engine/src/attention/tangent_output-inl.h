// The output of a panel and its tangent in one walk over its keys. With tangents of queries, keys, values and biases, and tS
// those of the scores that follow from them:
//   c = sum_j P tS    tO = sum_j P tS V + sum_j P tV - c O    the tangent of the log-sum-exp is c
// Both sums are accumulators of the running softmax behind the output, rescaled and merged with it. Dropout multiplies P where
// it meets V and tV, not in c.
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
        keys_(scratch.tangents.keys, shape_.head_dim),
        value_tangents_(scratch.tangents.values, shape_.value_dim) {}

  void Walk(const PanelWalk& walk) override {
    LaneOutput<T>::Walk(walk);
    const attention::Plan& plan = problem_.plan;
    if (tangents_.q.present()) {
      const PanelSource<T> queries{.operand = tangents_.q,
                                   .plan = plan,
                                   .elements = shape_.head_dim,
                                   .factor = scores_.Factor(),
                                   .uniform = Uniform::kSkip,
                                   .scratch = scratch_.rows};
      PackColumns(*panel_, scratch_.lanes, queries, scratch_.tangents.queries);
    }
    const auto [begin, end] = walk.walked;
    if (tangents_.k.present()) keys_.Walk(KeysOf(plan, tangents_.k, panel_->b, walk.kv_head), begin, end);
    if (tangents_.v.present()) value_tangents_.Walk(KeysOf(plan, tangents_.v, panel_->b, walk.kv_head), begin, end);
  }

  void Take(const SoftmaxState<T>& state, const TileSight& tile) override {
    if (tile.masked()) this->ClearBlank();
    scores_.FillTile(tile, scratch_.scores, Asks::kQueue, [&](const StripSight& strip) HWY_ATTR { FillTangents(strip); });
    TakeTile(d_, state, tile, scratch_.scores);
    for (const StripSight& strip : tile.strips()) {
      if (strip.seen == Seen::kNone) continue;
      T* weights = RowsOfStrip(scratch_.scores, strip.place);
      T* weighted = RowsOfStrip(scratch_.tangents.scores, strip.place);
      WeighTangents(strip.place, weights, weighted);
      this->WeighStrip(strip.place, weights);
      if (problem_.dropout.of_65536 != 0) Drop(strip.place, weights, weighted);
      this->AddValues(strip, weights, Asks::kQueue);
      AddRows(strip, values_, weighted);
      if (tangents_.v.present()) AddRows(strip, value_tangents_, weights);
    }
  }

  // The sums become the tangent, and c that of the log-sum-exp.
  void Normalise(const SoftmaxState<T>& state) override {
    LaneOutput<T>::Normalise(state);
    const auto unscale = hn::Set(d_, static_cast<T>(1 / problem_.dropout.kept_scale));
    const int64_t width = panel_->width;
    for (int64_t w = 0; w < width; w += kLanes) {
      T* at = Sums() + w;
      const auto c = hn::Mul(hn::Load(d_, Centres() + w), unscale);
      hn::Store(c, d_, Centres() + w);
      for (int64_t r = 0; r < shape_.value_dim; ++r, at += width)
        hn::Store(hn::NegMulAdd(c, hn::Load(d_, scratch_.output + r * width + w), hn::Load(d_, at)), d_, at);
    }
  }

  void Write(const SoftmaxState<T>& state) override {
    LaneOutput<T>::Write(state);
    this->WriteRows(tangents_.out, Sums(), {});
    for (int64_t w = 0; tangents_.lse.present() && w < panel_->used(); ++w)
      RowNumber(problem_.plan, *panel_, scratch_.lanes, tangents_.lse, w) = Centres()[w];
  }

 private:
  using LaneOutput<T>::problem_, LaneOutput<T>::shape_, LaneOutput<T>::scratch_, LaneOutput<T>::scores_;
  using LaneOutput<T>::values_, LaneOutput<T>::panel_, LaneOutput<T>::d_;
  static constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));

  // The rows behind the output: [Dv, panel] and [panel].
  T* Sums() const { return scratch_.output + shape_.value_dim * panel_->width; }
  T* Centres() const { return Sums() + shape_.value_dim * panel_->width; }

  // The tangents of the scores of a strip, 0 where they are hidden and in uniform lanes.
  void FillTangents(const StripSight& strip) {
    const TilePlace& place = strip.place;
    T* tile = RowsOfStrip(scratch_.tangents.scores, place);
    Target<T> target{tile + place.lane_begin, place.panel, false};
    const auto add = [&](const HeadRows<const T>& rows, const T* queries) HWY_ATTR {
      const int64_t lanes = ProductWidth(d_, place.used_end() - place.lane_begin);
      Product(d_, Scalars<T>{rows.data, rows.row_stride, 1}, {queries + place.lane_begin, place.panel},
              {place.keys, shape_.head_dim, lanes}, target, scratch_.ahead);
      target.accumulates = true;
    };
    if (tangents_.q.present()) add(scores_.Keys(place), scratch_.tangents.queries);
    if (tangents_.k.present()) add(keys_.At(place.tile_key, place.key, place.keys), scratch_.queries);
    for (int64_t j = 0; !target.accumulates && j < place.keys; ++j)
      std::fill_n(tile + j * place.panel + place.lane_begin, place.lanes(), T{0});
    scores_.PassTangent(place, tile);
    if (strip.seen == Seen::kSome) scores_.Mask(place, T{0}, tile);
  }

  // weighted *= weights, and adds it to c. A weight of 0 has a tangent of 0, whatever its score has.
  void WeighTangents(const TilePlace& place, const T* weights, T* weighted) const {
    for (int64_t w = place.lane_begin; w < place.lane_end; w += kLanes) {
      auto c = hn::Load(d_, Centres() + w);
      for (int64_t j = 0; j < place.keys; ++j) {
        T* at = weighted + j * place.panel + w;
        const auto weight = hn::Load(d_, weights + j * place.panel + w);
        const auto product = hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d_)), hn::Mul(weight, hn::Load(d_, at)));
        hn::Store(product, d_, at);
        c = hn::Add(c, product);
      }
      hn::Store(c, d_, Centres() + w);
    }
  }

  // What dropout has made 0 of the weights is so in their products too.
  void Drop(const TilePlace& place, const T* weights, T* weighted) const {
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = place.lane_begin; w < place.lane_end; w += kLanes) {
        T* at = weighted + j * place.panel + w;
        const auto dropped = hn::Eq(hn::Load(d_, weights + j * place.panel + w), hn::Zero(d_));
        hn::Store(hn::IfThenZeroElse(dropped, hn::Load(d_, at)), d_, at);
      }
  }

  // sums[c, w] += sum over the keys of a strip of rows[j, c] * tile[j, w].
  void AddRows(const StripSight& strip, RowCache<T>& cache, const T* tile) {
    const TilePlace& place = strip.place;
    const HeadRows<const T> rows = cache.At(place.tile_key, place.key, place.keys);
    if (!TakesAllPairs(strip.seen, [&]() HWY_ATTR { return AllFinite(d_, rows, place.keys, shape_.value_dim); }))
      return VisibleProduct(d_, scratch_.lanes, place, rows, shape_.value_dim, tile, Sums());
    Product(d_, Scalars<T>{rows.data, 1, rows.row_stride}, {tile + place.lane_begin, panel_->width},
            {shape_.value_dim, place.keys, ProductWidth(d_, place.used_end() - place.lane_begin)},
            AddedTo(Sums() + place.lane_begin, panel_->width), scratch_.ahead);
  }

  const attention::TangentArrays<T>& tangents_;
  RowCache<T> keys_, value_tangents_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
