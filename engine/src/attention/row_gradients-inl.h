// The gradients of few queries, whose scores, weights and gradients of scores stand in rows, one a query: no lane is idle, and
// each key and value is read as it lies in memory.
#if defined(HEED_ATTENTION_ROW_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_ROW_GRADIENTS_INL_H_
#undef HEED_ATTENTION_ROW_GRADIENTS_INL_H_
#else
#define HEED_ATTENTION_ROW_GRADIENTS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/dropout-inl.h"
#include "attention/few_queries-inl.h"
#include "attention/gradient_products-inl.h"
#include "attention/row_output-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class RowGradients final : public GradientProducts<T> {
 public:
  using GradientProducts<T>::GradientProducts;

  Boundary boundary() const override { return Boundary::kPiece; }
  bool asks_ahead() const override { return false; }
  bool SumsInPlace(const HeadRows<T>& own, int64_t /*width*/) const override { return own.element_stride == 1; }

  void SubtractProducts(const core::Input& operand, T* sums) override {
    const int64_t used = panel_->used(), stride = problem_.cut.value_dim;
    PackRows(*panel_, scratch_.lanes, this->ValueRows(operand), stride, used, scratch_.out);
    const StoredRows<const std::byte> rows{reinterpret_cast<const std::byte*>(scratch_.out), stride, 1, core::ElementOf<T>()};
    MultiplyOut(rows, false, used);
    for (int64_t w = 0; w < used; ++w) sums[w] -= scratch_.few_d_scores[w * kKeys + w];
  }

  void Take(const TileSight& tile) override {
    const TilePlace& place = tile.strips()[0].place;
    const bool scores = problem_.wants_scores;
    StripSight strip{place, scores_.FillRows(tile.strips()[0], scratch_.few_scores)};
    if (scores) MultiplyOut(values_.Packed(place.tile_key, place.key, place.keys), problem_.ComesFromMemory(), place.keys);
    for (int64_t w = 0; w < place.used; ++w) Weigh(strip, w);
    if (scores && !scores_.alone()) {
      AddRowsToTile(scratch_.few_d_scores, place.keys, place.used, Target<T>{scratch_.d_scores, place.panel, false});
      scores_.Accumulate(place, scratch_.d_scores);
    }
    if (scores && problem_.d_q.present()) AddToQueries(strip, tile.masked());
    if (!TakesAllPairs(strip.seen, [&] { return this->Finite(); })) strip.seen = scores_.sight().SeeAgain(place, tile.masked());
    if (problem_.d_v.present())
      AddToKeys(strip, scratch_.few_scores, this->d_out_rows_, this->shape_.value_dim, this->d_values_);
    if (scores && problem_.d_k.present())
      AddToKeys(strip, scratch_.few_d_scores, this->QueryRows(), this->shape_.head_dim, this->d_keys_);
  }

  void Close() override {
    for (int64_t c = 0; !this->blank_ && c < this->shape_.head_dim; ++c)
      for (int64_t w = 0; w < panel_->used(); ++w)
        scratch_.d_queries[c * panel_->width + w] = scratch_.few_d_queries[w * problem_.cut.head_dim + c];
    GradientProducts<T>::Close();
  }

 private:
  using GradientProducts<T>::problem_, GradientProducts<T>::scratch_, GradientProducts<T>::scores_, GradientProducts<T>::d_;
  using GradientProducts<T>::panel_, GradientProducts<T>::values_;
  static constexpr int64_t kKeys = simd::kFewTileKeys;

  void Pack() override { this->PackFloats(panel_->used()); }

  // few_d_scores[w, j] = dO of lane w . row j.
  void MultiplyOut(const StoredRows<const std::byte>& rows, bool far, int64_t count) {
    const HeadRows<const T>& d_out = this->d_out_rows_;
    FewScores(rows, far, count, d_out.data, d_out.row_stride, panel_->used(), this->shape_.value_dim, scratch_.few_d_scores);
  }

  // The row of lane w, as GradientProducts::Weigh has it; whole vectors, beyond the keys too. What is hidden has a weight of 0,
  // and no gradient, whatever its value holds.
  void Weigh(const StripSight& strip, int64_t w) {
    const TilePlace& place = strip.place;
    T *weights = scratch_.few_scores + w * kKeys, *d_scores = scratch_.few_d_scores + w * kKeys, *kept = nullptr;
    if (this->Dropping()) {
      kept = scratch_.few_kept;
      const DropoutStream stream = StreamOf(problem_.attention.dropout, problem_.dropout, place.b, place.heads[w]);
      DrawnRow(stream, place, w).KeptFactors(place.keys, static_cast<T>(problem_.dropout.kept_scale), kept);
    }
    const typename Normaliser<T>::Lanes of = this->normaliser_.Of(w);
    const auto minus_delta = hn::Set(d_, scratch_.minus_delta[w]);
    const StatisticTerms<T>& terms = this->terms_;
    const bool has_terms = terms.present() && problem_.wants_scores;
    const T* filled = has_terms ? terms.FillRow(place, w) : nullptr;
    const auto entropy = has_terms ? terms.EntropyFactorOf(w) : minus_delta;
    for (int64_t j = 0; j < place.keys; j += this->kLanes) {
      const auto p = of.Weight(weights + j);
      auto gradient = hn::Load(d_, d_scores + j);
      hn::Store(p, d_, weights + j);
      if (kept) {
        const auto factor = hn::Load(d_, kept + j);
        hn::Store(hn::Mul(p, factor), d_, weights + j);
        gradient = hn::IfThenZeroElse(hn::Eq(factor, hn::Zero(d_)), hn::Mul(factor, gradient));
      }
      if (has_terms) gradient = hn::Add(gradient, terms.Of(filled + j, p, entropy));
      gradient = hn::Mul(p, hn::Add(gradient, minus_delta));
      if (strip.seen == Seen::kSome) gradient = hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d_)), gradient);
      hn::Store(gradient, d_, d_scores + j);
    }
    if (scratch_.lanes.uniform >> w & 1) std::fill_n(d_scores, place.keys, T{0});
  }

  // sums[key + j, :] += sum over queries of tile[w, j] * rows[w, :]
  void AddToKeys(const StripSight& strip, const T* tile, const HeadRows<const T>& rows, int64_t width,
                 const HeadRows<T>& sums) {
    const TilePlace& place = strip.place;
    if (!TakesAllPairs(strip.seen, [&] { return this->Finite(); }))
      return this->AddVisibleRows(place, {tile, 1, kKeys}, rows, width, sums);
    const HeadRows<T> own{sums.Row(place.key - this->begin_), sums.row_stride, 1};
    ForFew(place.used, [&]<int kQueries>() { OuterOfFew<kQueries>(tile, place.keys, rows, width, own, !this->fresh_); });
  }

  void AddToQueries(const StripSight& strip, bool masked) {
    const int64_t stride = problem_.cut.head_dim;
    if (this->blank_) std::fill_n(scratch_.few_d_queries, panel_->used() * stride, T{0});
    this->blank_ = false;
    const TilePlace& place = strip.place;
    const FewSums<T> sums{scratch_.few_d_queries, scratch_.few_before, stride, this->shape_.head_dim, false};
    sums.Add(scores_.keys().Packed(place.tile_key, place.key, place.keys), place, scratch_.few_d_scores, strip.seen,
             scratch_.lanes, [&] { return scores_.sight().SeeAgain(place, masked); });
  }
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
