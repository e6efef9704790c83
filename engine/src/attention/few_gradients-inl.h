// The backward pass of few queries, whose scores, weights and their gradients stand in rows as in attention/few_rows-inl.h.
// Each key and value is read as it lies in memory, each of their gradients written once, and no lane is idle.
#if defined(HEED_ATTENTION_FEW_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_FEW_GRADIENTS_INL_H_
#undef HEED_ATTENTION_FEW_GRADIENTS_INL_H_
#else
#define HEED_ATTENTION_FEW_GRADIENTS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/dropout-inl.h"
#include "attention/few_queries-inl.h"
#include "attention/few_rows-inl.h"
#include "attention/mask-inl.h"
#include "attention/normaliser-inl.h"
#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class FewGradients {
 public:
  FewGradients(const attention::BackwardProblem<T>& problem, attention::BackwardScratch<T>& scratch, Scores<T>& scores,
               const Normaliser<T>& normaliser)
      : problem_(problem),
        shape_(problem.plan.shape()),
        scratch_(scratch),
        scores_(scores),
        normaliser_(normaliser),
        values_(scratch.values, shape_.value_dim) {}

  // Keys begin .. end - 1 of a key head from now on, whose gradients are summed up in rows from the first on.
  void Walk(int64_t b, int64_t kv_head, int64_t begin, int64_t end, const HeadRows<T>& d_keys, const HeadRows<T>& d_values) {
    const attention::Plan& plan = problem_.plan;
    values_.Walk(RowsOf(problem_.v, plan.ArrayRow(b), kv_head, plan.FirstKey(b)), begin, end);
    begin_ = begin;
    d_keys_ = d_keys;
    d_values_ = d_values;
  }
  // Whether these hold nothing yet, not even zeros.
  void SumsAreFresh(bool fresh) { fresh_ = fresh; }

  // Takes the rows of a panel of `used` queries, whose dQ begins with zeros.
  void ClearQueries(int64_t used) { std::fill_n(scratch_.few_d_queries, used * problem_.cut.head_dim, T{0}); }
  void Begin(const Panel& panel) {
    panel_ = &panel;
    const int64_t used = panel.used();
    PackRows(panel, scratch_.lanes, Rows(problem_.q, shape_.head_dim, static_cast<T>(problem_.plan.scale()), Uniform::kSkip),
             problem_.cut.head_dim, used, scratch_.query_rows);
    PackRows(panel, scratch_.lanes, ValueRows(problem_.d_out), problem_.cut.value_dim, used, scratch_.d_out_rows);
    const auto finite = [&](const T* rows, int64_t stride, int64_t width) {
      return AllFinite(d_, HeadRows<const T>{rows, stride, 1}, used, width);
    };
    finite_ = finite(scratch_.query_rows, problem_.cut.head_dim, shape_.head_dim) &&
              finite(scratch_.d_out_rows, problem_.cut.value_dim, shape_.value_dim);
  }

  // sums[w] -= dO . the row of lane w, in the order in which the products of dO and V are summed: where a row looks at one key
  // alone the two are the same number, and the gradient of its score is 0.
  void SubtractProducts(const core::Input& operand, T* sums) {
    const int64_t used = panel_->used(), stride = problem_.cut.value_dim;
    PackRows(*panel_, scratch_.lanes, ValueRows(operand), stride, used, scratch_.few_out);
    const StoredRows<const std::byte> rows{reinterpret_cast<const std::byte*>(scratch_.few_out), stride, 1,
                                           core::ElementOf<T>()};
    FewScores(rows, false, used, scratch_.d_out_rows, stride, used, shape_.value_dim, scratch_.few_d_scores);
    for (int64_t w = 0; w < used; ++w) sums[w] -= scratch_.few_d_scores[w * kKeys + w];
  }

  // A tile or a strip of one.
  void Tile(const TilePlace& place, bool masked) {
    const Seen seen = scores_.FillRows(place, masked, scratch_.few_scores);
    if (seen == Seen::kNone) return;
    const bool wants_scores = problem_.wants_scores;
    const StoredRows<const std::byte> values = values_.Packed(place.tile_key, place.key, place.keys);
    if (wants_scores)
      FewScores(values, scores_.far(), place.keys, scratch_.d_out_rows, problem_.cut.value_dim, place.used, shape_.value_dim,
                scratch_.few_d_scores);
    for (int64_t w = 0; w < place.used; ++w) {
      T *weights = scratch_.few_scores + w * kKeys, *d_scores = scratch_.few_d_scores + w * kKeys;
      if (problem_.dropout.of_65536 != 0) {
        DroppedGradient(place, w, weights, d_scores);
      } else {
        ScoreGradient(place.keys, w, weights, d_scores);
      }
      // Masked pairs and uniform lanes have no gradient of the score, whatever a masked value holds.
      if (wants_scores && seen == Seen::kSome) scores_.HideInRow(place, w, T{0}, d_scores);
      if (wants_scores) scores_.AccumulateRow(place, w, d_scores);
    }
    if (problem_.d_v.present())
      AddToKeys(place, seen, masked, scratch_.few_scores, {scratch_.d_out_rows, problem_.cut.value_dim, shape_.value_dim},
                d_values_);
    if (!wants_scores) return;
    if (problem_.d_k.present())
      AddToKeys(place, seen, masked, scratch_.few_d_scores, {scratch_.query_rows, problem_.cut.head_dim, shape_.head_dim},
                d_keys_);
    if (problem_.d_q.present()) AddToQueries(place, seen, masked);
  }

  // rows[w, :] = factor * dQ of lane w, `stride` elements apart.
  void StoreQueries(int64_t used, T factor, T* rows, int64_t stride) const {
    for (int64_t w = 0; w < used; ++w)
      for (int64_t c = 0; c < shape_.head_dim; ++c)
        rows[w * stride + c] = factor * scratch_.few_d_queries[w * problem_.cut.head_dim + c];
  }

 private:
  static constexpr int64_t kKeys = simd::kFewTileKeys;

  PanelSource<T> Rows(const core::Input& operand, int64_t elements, T factor, Uniform uniform) const {
    return {.operand = operand,
            .plan = problem_.plan,
            .elements = elements,
            .factor = factor,
            .uniform = uniform,
            .scratch = scratch_.rows};
  }
  PanelSource<T> ValueRows(const core::Input& operand) const { return Rows(operand, shape_.value_dim, T{1}, Uniform::kTake); }

  // weights = p; d_scores = p * (dP - delta), where d_scores holds dP: see BackwardChunk::ScoreGradient. Whole vectors, beyond
  // the keys too. What hooks hide has no weight, and no gradient of it either, whatever its value holds.
  void ScoreGradient(int64_t keys, int64_t w, T* weights, T* d_scores) const {
    const typename Normaliser<T>::Lanes of = normaliser_.Of(w);
    const auto minus_delta = hn::Set(d_, scratch_.minus_delta[w]);
    const bool hides = scores_.hides();
    for (int64_t j = 0; j < keys; j += static_cast<int64_t>(hn::Lanes(d_))) {
      const auto p = of.Weight(weights + j);
      hn::Store(p, d_, weights + j);
      if (!problem_.wants_scores) continue;
      const auto gradient = hn::Mul(p, hn::Add(hn::Load(d_, d_scores + j), minus_delta));
      hn::Store(hides ? hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d_)), gradient) : gradient, d_, d_scores + j);
    }
  }

  // The same with dropout, where d_scores holds dO.V: weights = kept p / keep, d_scores = p * (kept dO.V / keep - delta).
  void DroppedGradient(const TilePlace& place, int64_t w, T* weights, T* d_scores) const {
    const DrawnRow drawn(StreamOf(problem_.attention.dropout, problem_.dropout, place.b, place.heads[w]), place, w);
    const T scale = static_cast<T>(problem_.dropout.kept_scale), minus_delta = scratch_.minus_delta[w];
    const bool hides = scores_.hides();
    const typename Normaliser<T>::Lanes of = normaliser_.Of(w);
    for (int64_t j = 0; j < place.keys; j += static_cast<int64_t>(hn::Lanes(d_)))
      hn::Store(of.Weight(weights + j), d_, weights + j);
    for (int64_t j = 0; j < place.keys; ++j) {
      const bool dropped = drawn.Dropped(j);
      const T p = weights[j];
      weights[j] = dropped ? T{0} : p * scale;
      if (!problem_.wants_scores) continue;
      d_scores[j] = hides && p == 0 ? T{0} : p * ((dropped ? T{0} : scale * d_scores[j]) + minus_delta);
    }
  }

  // sums[key + j, :] += sum over queries of tile[w, j] * rows[w, :]
  void AddToKeys(const TilePlace& place, Seen seen, bool masked, const T* tile, const FewInputs<T>& rows,
                 const HeadRows<T>& sums) {
    const HeadRows<T> own{sums.Row(place.key - begin_), sums.row_stride, 1};
    if (seen == Seen::kAll || finite_ || scores_.See(place, masked) == Seen::kAll)
      return FewOuter(tile, place.keys, rows, place.used, own, !fresh_);
    // A query that holds NaN or infinity does not reach keys that it may not look at.
    const uint64_t* visible = VisibleOf(scratch_.lanes, place);
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = 0; w < place.used; ++w)
        if (visible[j] >> w & 1)
          for (int64_t c = 0; c < rows.width; ++c) own.Row(j)[c] += tile[w * kKeys + j] * rows.rows[w * rows.stride + c];
  }

  void AddToQueries(const TilePlace& place, Seen seen, bool masked) {
    const FewSums<T> sums{scratch_.few_d_queries, scratch_.few_before, problem_.cut.head_dim, shape_.head_dim, false};
    sums.Add(scores_.PackedKeys(place), place, scratch_.few_d_scores, seen, scratch_.lanes,
             [&] { return scores_.See(place, masked); });
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::BackwardProblem<T>& problem_;
  const Shape& shape_;
  attention::BackwardScratch<T>& scratch_;
  Scores<T>& scores_;
  const Normaliser<T>& normaliser_;
  WalkedRows<T> values_;
  const Panel* panel_ = nullptr;
  HeadRows<T> d_keys_{}, d_values_{};
  int64_t begin_ = 0;  // the first key of the walk
  bool fresh_ = false;
  bool finite_ = false;  // whether the panel's queries and gradients are free of NaN and infinity
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
