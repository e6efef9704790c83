// The tangent of the backward pass: how fast dQ, dK, dV and the gradients of biases change when all that they are made of
// changes at the speed of its tangent. With the tangents tS of the scores, tO of the output and c of the log-sum-exp, which
// forward mode leaves (attention/tangent_output-inl.h), one walk over the tiles that the backward pass takes gives
//   tP = P (tS - c)    tdP = t_dO V^T + dO tV^T    t_delta = t_dO . O + dO . tO    tdS = tP (dP - delta) + P (tdP - t_delta)
//   t_dV = tP^T dO + P^T t_dO    t_dQ = scale (tdS K + dS tK)    t_dK = scale (tdS^T Q + dS^T tQ)
// Dropout multiplies P and tP where they meet dO and t_dO, and dP and tdP. A soft-cap and programs have a second derivative,
// pair by pair (Scores::AccumulateTangent). The log-sum-exp's gradient and its tangent add to minus delta and minus t_delta.
#if defined(HEED_ATTENTION_BACKWARD_TANGENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_BACKWARD_TANGENT_INL_H_
#undef HEED_ATTENTION_BACKWARD_TANGENT_INL_H_
#else
#define HEED_ATTENTION_BACKWARD_TANGENT_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "attention/dropout-inl.h"
#include "attention/gradient_products-inl.h"
#include "attention/mask-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/row_cache-inl.h"
#include "attention/scores-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// In the places of dQ, dK and dV stand their tangents.
template <class T>
class BackwardTangents final : public GradientProducts<T> {
 public:
  BackwardTangents(const attention::BackwardProblem<T>& problem, attention::BackwardScratch<T>& scratch, Scores<T>& scores,
                   std::span<PositionHook<T>* const> hooks, const Normaliser<T>& normaliser)
      : GradientProducts<T>(problem, scratch, scores, hooks, normaliser),
        of_(problem.tangents),
        in_(*scratch.tangents),
        key_tangents_(scratch.tangents->keys, shape_.head_dim),
        value_tangents_(scratch.tangents->values, shape_.value_dim) {}

  // Every sum has two products.
  bool stores() const override { return false; }

  void Walk(int64_t b, int64_t kv_head, int64_t begin, int64_t end) override {
    GradientProducts<T>::Walk(b, kv_head, begin, end);
    if (of_.k.present()) key_tangents_.Walk(KeysOf(problem_.plan, of_.k, b, kv_head), begin, end);
    if (of_.v.present()) value_tangents_.Walk(KeysOf(problem_.plan, of_.v, b, kv_head), begin, end);
  }

  // Those of out, and then those of its remainder, of t_dO too; dO . tO belongs to the former.
  void SubtractProducts(const core::Input& operand, T* sums) override {
    GradientProducts<T>::SubtractProducts(operand, sums);
    const bool of_out = &operand == &problem_.out;
    // In the order in which a tile's products are summed, as those of dO and the output are.
    this->SubtractSums(in_.minus_delta, [&](int64_t w, auto& sum) HWY_ATTR {
      if (of_.d_out.present()) AddProducts(scratch_.out, in_.d_out, w, sum);
      if (of_out && of_.out.present()) AddProducts(in_.out, scratch_.d_out, w, sum);
    });
  }

  void Take(const TileSight& tile) override {
    for (const StripSight& strip : tile.strips())
      if (strip.seen != Seen::kNone) TakeTangents(strip);
  }

 protected:
  void Pack() override {
    GradientProducts<T>::Pack();
    const attention::Lanes<T>& lanes = scratch_.lanes;
    if (of_.q.present()) {
      PanelSource<T> queries = this->Queries();
      queries.operand = of_.q;
      PackRows(*panel_, lanes, queries, problem_.cut.head_dim, panel_->width, in_.query_rows);
      queries.factor = scores_.Factor();
      PackColumns(*panel_, lanes, queries, in_.queries);
    }
    if (of_.d_out.present()) {
      const PanelSource<T> d_out = this->ValueRows(of_.d_out);
      PackRows(*panel_, lanes, d_out, problem_.cut.value_dim, panel_->width, in_.d_out_rows);
      PackColumns(*panel_, lanes, d_out, in_.d_out);
    }
    if (of_.out.present()) PackColumns(*panel_, lanes, this->ValueRows(of_.out), in_.out);
    ReadRowNumbers(problem_.plan, *panel_, lanes, of_.lse, T{0}, in_.centres);
    ReadRowNumbers(problem_.plan, *panel_, lanes, of_.d_lse, T{0}, in_.minus_delta);
  }

  bool FindFinite() override {
    const HeadRows<const T> queries = QueryTangents(), d_out = OutputTangents();
    return GradientProducts<T>::FindFinite() && (!of_.q.present() || AllFinite(d_, queries, panel_->used(), shape_.head_dim)) &&
           (!of_.d_out.present() || AllFinite(d_, d_out, panel_->used(), shape_.value_dim));
  }

 private:
  using GradientProducts<T>::problem_, GradientProducts<T>::shape_, GradientProducts<T>::scratch_;
  using GradientProducts<T>::scores_, GradientProducts<T>::panel_, GradientProducts<T>::d_, GradientProducts<T>::kLanes;

  HeadRows<const T> QueryTangents() const { return {in_.query_rows, problem_.cut.head_dim, 1}; }
  HeadRows<const T> OutputTangents() const { return {in_.d_out_rows, problem_.cut.value_dim, 1}; }

  // sum += a . b of the quantum of lanes from w on.
  template <class Sum>
  HWY_INLINE void AddProducts(const T* a, const T* b, int64_t w, Sum& sum) const {
    for (int64_t c = 0; c < shape_.value_dim; ++c)
      for (std::size_t x = 0; x < GradientProducts<T>::kVectors; ++x) {
        const int64_t at = c * panel_->width + w + static_cast<int64_t>(x) * kLanes;
        sum[x] = hn::MulAdd(hn::Load(d_, a + at), hn::Load(d_, b + at), sum[x]);
      }
  }

  // A tile [keys, panel] that products are added to.
  class Sum {
   public:
    Sum(BackwardTangents& tangents, const TilePlace& place, T* tile)
        : tangents_(tangents), place_(place), target_{tile + place.lane_begin, place.panel, false} {}

    // rows [keys, width], columns [width, panel]
    void Add(const HeadRows<const T>& rows, const T* columns, int64_t width) {
      Product(d_, Scalars<T>{rows.data, rows.row_stride, 1}, {columns + place_.lane_begin, place_.panel},
              {place_.keys, width, tangents_.scores_.BackwardLanes(place_)}, target_, tangents_.scratch_.ahead);
      target_.accumulates = true;
    }
    // Zeros where nothing was added.
    void Close() {
      for (int64_t j = 0; !target_.accumulates && j < place_.keys; ++j)
        std::fill_n(target_.data + j * target_.stride, place_.lanes(), T{0});
    }

   private:
    BackwardTangents& tangents_;
    const TilePlace& place_;
    Target<T> target_;
  };

  void TakeTangents(const StripSight& strip) {
    const TilePlace& place = strip.place;
    const bool scores = problem_.wants_scores, some = strip.seen == Seen::kSome;
    scores_.Fill(strip, scratch_.weights);
    FillScoreTangents(place);
    if (some) {
      scores_.Mask(place, -std::numeric_limits<T>::infinity(), scratch_.weights);
      scores_.Mask(place, T{0}, in_.weights);
    }
    if (scores) {
      this->WeightGradient(place);
      Sum sum(*this, place, in_.d_scores);
      if (of_.d_out.present()) sum.Add(values_.At(place.tile_key, place.key, place.keys), in_.d_out, shape_.value_dim);
      if (of_.v.present()) sum.Add(value_tangents_.At(place.tile_key, place.key, place.keys), scratch_.d_out, shape_.value_dim);
      sum.Close();
    }
    if (this->Dropping()) {
      scores ? Weigh<true, true>(place) : Weigh<true, false>(place);
    } else {
      scores ? Weigh<false, true>(place) : Weigh<false, false>(place);
    }
    if (problem_.d_v.present()) AddToValueTangents(strip);
    if (!scores) return;
    if (some) {
      scores_.Mask(place, T{0}, scratch_.d_scores);
      scores_.Mask(place, T{0}, in_.d_scores);
    }
    scores_.AccumulateTangent(place, {in_.products, in_.before, scratch_.d_scores, in_.d_scores});
    AddToQueryAndKeyTangents(strip);
  }

  // in_.weights = tS, right after the scores of the same place were made.
  void FillScoreTangents(const TilePlace& place) {
    Sum sum(*this, place, in_.weights);
    if (of_.q.present()) sum.Add(scores_.Keys(place), in_.queries, shape_.head_dim);
    if (of_.k.present()) sum.Add(key_tangents_.At(place.tile_key, place.key, place.keys), scratch_.queries, shape_.head_dim);
    sum.Close();
    scores_.PassTangent(place, in_.weights, in_.products, in_.before);
  }

  // weights = P and in_.weights = tP, after dropout; d_scores = dS and in_.d_scores = tdS, which held dP and tdP. A weight of 0
  // has a tangent of 0, whatever its score has.
  template <bool kDropout, bool kScores>
  void Weigh(const TilePlace& place) {
    const auto scale = hn::Set(d_, static_cast<T>(problem_.dropout.kept_scale));
    const auto lanes_from = [&](int64_t w) HWY_ATTR {
      const auto minus_delta = hn::Load(d_, scratch_.minus_delta + w), t_minus_delta = hn::Load(d_, in_.minus_delta + w);
      return [&, w, of = this->normaliser_.At(w), minus_delta, t_minus_delta, centre = hn::Load(d_, in_.centres + w)](
                 int64_t j, hn::Mask<hn::ScalableTag<T>> dropped) HWY_ATTR {
        const int64_t at = j * place.panel + w;
        const auto shared = [&](auto x) HWY_ATTR { return kDropout ? hn::IfThenZeroElse(dropped, hn::Mul(scale, x)) : x; };
        const auto p = of.Weight(scratch_.weights + at);
        const auto t_score = hn::Sub(hn::Load(d_, in_.weights + at), centre);
        const auto t_p = hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d_)), hn::Mul(p, t_score));
        hn::Store(shared(p), d_, scratch_.weights + at);
        hn::Store(shared(t_p), d_, in_.weights + at);
        if (!kScores) return;
        const auto gradient = hn::Add(shared(hn::Load(d_, scratch_.d_scores + at)), minus_delta);
        const auto t_gradient = hn::Add(shared(hn::Load(d_, in_.d_scores + at)), t_minus_delta);
        hn::Store(hn::Mul(p, gradient), d_, scratch_.d_scores + at);
        hn::Store(hn::MulAdd(t_p, gradient, hn::Mul(p, t_gradient)), d_, in_.d_scores + at);
      };
    };
    if (kDropout) return ForEachDropped(d_, this->stream_, place, lanes_from);
    for (int64_t w = place.lane_begin; w < place.lane_end; w += kLanes) {
      const auto visit = lanes_from(w);
      for (int64_t j = 0; j < place.keys; ++j) visit(j, hn::FirstN(d_, 0));
    }
  }

  void AddToValueTangents(const StripSight& strip) {
    const int64_t width = problem_.cut.value_dim;
    this->AddRows(strip, in_.weights, this->d_out_rows_, width, this->d_values_);
    if (of_.d_out.present()) this->AddRows(strip, scratch_.weights, OutputTangents(), width, this->d_values_);
  }

  void AddToQueryAndKeyTangents(const StripSight& strip) {
    const TilePlace& place = strip.place;
    if (problem_.d_q.present()) {
      this->AddColumns(strip, scores_.Keys(place), in_.d_scores);
      if (of_.k.present()) this->AddColumns(strip, key_tangents_.At(place.tile_key, place.key, place.keys), scratch_.d_scores);
    }
    if (!problem_.d_k.present()) return;
    const int64_t width = problem_.cut.head_dim;
    this->AddRows(strip, in_.d_scores, this->QueryRows(), width, this->d_keys_);
    if (of_.q.present()) this->AddRows(strip, scratch_.d_scores, QueryTangents(), width, this->d_keys_);
  }

  using GradientProducts<T>::values_;
  const attention::BackwardTangentArrays<T>& of_;
  const attention::BackwardTangentScratch<T>& in_;
  RowCache<T> key_tangents_, value_tangents_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
