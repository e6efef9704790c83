// The products of the backward pass in other layouts than lanes, and the choice between all. In pairs of bfloat16: dP is exact
// but for its sum, and where weights and gradients of scores are rounded so are dV, dQ and dK.
#if defined(HEED_ATTENTION_LAYOUT_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_LAYOUT_GRADIENTS_INL_H_
#undef HEED_ATTENTION_LAYOUT_GRADIENTS_INL_H_
#else
#define HEED_ATTENTION_LAYOUT_GRADIENTS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "attention/backward_tangent-inl.h"
#include "attention/dropout-inl.h"
#include "attention/few_queries-inl.h"
#include "attention/gradient_products-inl.h"
#include "attention/one_of.h"
#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/row_output-inl.h"
#include "attention/scores-inl.h"
#include "simd/pair_product-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The gradients of few queries, whose scores, weights and gradients of scores stand in rows, one a query: no lane is idle, and
// each key and value is read as it lies in memory.
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

// dP in pairs, the other three in float.
class PairGradients : public GradientProducts<float> {
 public:
  using GradientProducts::GradientProducts;

  void SubtractProducts(const core::Input& operand, float* sums) override {
    PackPairColumns(*panel_, scratch_.lanes, ValueRows(operand), scratch_.out_pairs);
    const hn::RebindToUnsigned<hn::ScalableTag<float>> du;
    const DenormalsAsZero zero;
    const bool in_pairs = InPairs();
    const int64_t steps = shape_.value_dim;
    SubtractSums(sums, [&](int64_t w, auto& sum) HWY_ATTR {
      for (int64_t s = 0; s < (in_pairs ? attention::DivideUp(steps, 2) : steps); ++s)
        for (std::size_t x = 0; x < kVectors; ++x) {
          const int64_t row = in_pairs ? s : StepAt(Steps::kPairs, s, steps);
          const int64_t at = row * panel_->width + w + static_cast<int64_t>(x) * kLanes;
          const auto out = hn::Load(du, scratch_.out_pairs + at), d_out = hn::Load(du, scratch_.d_out_pairs + at);
          sum[x] =
              in_pairs ? AddPairs(d_, out, d_out, sum[x]) : hn::MulAdd(hn::BitCast(d_, out), hn::BitCast(d_, d_out), sum[x]);
        }
    });
  }

 protected:
  void WeightGradient(const TilePlace& place) override {
    PairProduct(values_.AlongElements(place.tile_key, place.key, place.keys),
                {scratch_.d_out_pairs + place.lane_begin, panel_->width}, {place.keys, shape_.value_dim, place.lanes()},
                {scratch_.d_scores + place.lane_begin, panel_->width, false}, scratch_.ahead);
  }

  void Pack() override {
    PackPairs();
    PackFloats(panel_->width);
  }
  // The rows of dO as dP takes them and, where hooks read them, as columns.
  void PackPairs() {
    const PanelSource<float> d_out = ValueRows(problem_.d_out);
    PackPairColumns(*panel_, scratch_.lanes, d_out, scratch_.d_out_pairs);
    if (scores_.rows_read()) PackColumns(*panel_, scratch_.lanes, d_out, scratch_.d_out);
  }
};

// All four products in pairs.
class RoundedGradients final : public PairGradients {
 public:
  using PairGradients::PairGradients;

  bool stores() const override { return false; }

 private:
  void AddToValues(const StripSight& strip) override {
    const TilePlace& place = strip.place;
    const int64_t width = problem_.cut.value_dim, begin = place.lane_begin;
    if (!TakesAllPairs(strip.seen, [&]() HWY_ATTR { return Finite(); })) {
      RoundInPlace(scratch_.weights + begin, panel_->width, place.keys, place.lanes());
      AddVisiblePairRows(place, scratch_.weights, scratch_.d_out_row_pairs, width, scratch_.d_values, 1);
      return;
    }
    RoundTile(scratch_.weights + begin, panel_->width, place.keys, place.lanes(),
              {.pairs = nullptr, .rows = scratch_.rounded + begin});
    AddPairRows(place, scratch_.weights, scratch_.d_out_row_pairs, width, scratch_.d_values, 1);
  }

  void AddToQueriesAndKeys(const StripSight& strip) override {
    const TilePlace& place = strip.place;
    const bool queries = problem_.d_q.present(), keys = problem_.d_k.present();
    const bool takes_keys = TakesAllPairs(
        strip.seen, [&]() HWY_ATTR { return !queries || scores_.keys().AllFinite(place.tile_key, place.key, place.keys); });
    const bool takes_rows = TakesAllPairs(strip.seen, [&]() HWY_ATTR { return !keys || Finite(); });
    const int64_t begin = place.lane_begin;
    simd::RoundedTile rounded{};
    if (queries) rounded.pairs = scratch_.d_score_pairs + begin;
    if (keys) rounded.rows = scratch_.rounded + begin;
    RoundTile(scratch_.d_scores + begin, panel_->width, place.keys, place.lanes(), rounded);
    if (!takes_keys || !takes_rows) RoundInPlace(scratch_.d_scores + begin, panel_->width, place.keys, place.lanes());
    if (queries) AddColumns(place, takes_keys);
    const int64_t width = problem_.cut.head_dim;
    const auto scale = static_cast<float>(problem_.plan.scale());
    if (keys && takes_rows) AddPairRows(place, scratch_.d_scores, scratch_.query_row_pairs, width, scratch_.d_keys, scale);
    if (keys && !takes_rows)
      AddVisiblePairRows(place, scratch_.d_scores, scratch_.query_row_pairs, width, scratch_.d_keys, scale);
  }

 private:
  void Pack() override {
    PackPairs();
    PackPairRows(*panel_, scratch_.lanes, Queries(), problem_.cut.head_dim, scratch_.query_row_pairs);
    PackPairRows(*panel_, scratch_.lanes, ValueRows(problem_.d_out), problem_.cut.value_dim, scratch_.d_out_row_pairs);
    if (scores_.rows_read()) PackFloats(panel_->width);
  }

  bool FindFinite() override {
    return AllFinitePairs(*panel_, scratch_.lanes, Queries()) &&
           AllFinitePairs(*panel_, scratch_.lanes, ValueRows(problem_.d_out));
  }

  // dV += P^T dO, or dK += dS^T Q in scaled sums, from a tile that is rounded already.
  void AddPairRows(const TilePlace& place, const float* tile, const uint32_t* rows, int64_t width, float* sums, float factor) {
    const DenormalsAsZero zero;
    PairProduct(AlongTileLanes(place, tile, scratch_.rounded), RowsFrom(rows, place.lane_begin, width),
                {place.keys, place.used_end() - place.lane_begin, width},
                {sums + (place.key - begin_) * width, width, true, factor}, scratch_.ahead);
  }

  // The same over visible pairs only, see AddVisibleRows. tile: rounded.
  void AddVisiblePairRows(const TilePlace& place, const float* tile, const uint32_t* rows, int64_t width, float* sums,
                          float factor) {
    const uint64_t* visible = VisibleOf(scratch_.lanes, place);
    const int64_t count = place.used_end() - place.lane_begin;
    const hn::CappedTag<float, 1> one;
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t c = 0; c < width; ++c) {
        float& total = sums[(place.key - begin_ + j) * width + c];
        auto sum = hn::Set(one, factor == 1 ? total : 0.0F);
        for (int64_t x = 0; x < count; ++x) {
          const int64_t w = place.lane_begin + StepAt(Steps::kPairs, x, count);
          if ((visible[j] >> w & 1) == 0) continue;
          sum = hn::MulAdd(hn::Set(one, tile[j * place.panel + w]), hn::Set(one, RowElement(rows, w, c, width)), sum);
        }
        total = hn::GetLane(factor == 1 ? sum : hn::MulAdd(sum, hn::Set(one, factor), hn::Set(one, total)));
      }
  }

  // Element c of the row of lane w, of what PackPairRows packed.
  static float RowElement(const uint32_t* rows, int64_t w, int64_t c, int64_t width) {
    if (!InPairs()) return std::bit_cast<float>(rows[w * width + c]);
    return ToFloat(BFloat16{static_cast<uint16_t>(rows[w / 2 * width + c] >> (w % 2 * 16))});
  }

  void AddColumns(const TilePlace& place, bool takes_all) {
    if (!takes_all || place.lanes() < panel_->width) ClearBlank(*panel_);
    if (!takes_all) {
      VisibleProduct(d_, scratch_.lanes, place, scores_.Keys(place), shape_.head_dim, scratch_.d_scores, scratch_.d_queries,
                     Steps::kPairs);
      return;
    }
    const int64_t begin = place.lane_begin;
    PairProduct(scores_.keys().AlongKeys(place.tile_key, place.key, place.keys),
                AlongTileKeys(place, scratch_.d_scores, scratch_.d_score_pairs), {shape_.head_dim, place.keys, place.lanes()},
                {scratch_.d_queries + begin, panel_->width, !blank_}, scratch_.ahead);
    blank_ = false;
  }
};

// The products of a call.
template <class T>
using ChosenGradients = attention::OneOf<GradientProducts<T>, GradientProducts<T>, RowGradients<T>, PairGradients,
                                         RoundedGradients, BackwardTangents<T>>;
template <class T>
void Choose(const attention::BackwardProblem<T>& problem, attention::BackwardScratch<T>& scratch, Scores<T>& scores,
            std::span<PositionHook<T>* const> hooks, const Normaliser<T>& normaliser, ChosenGradients<T>& chosen) {
  using attention::Layout;
  const auto hold = [&]<class Class>() { chosen.template Hold<Class>(problem, scratch, scores, hooks, normaliser); };
  if (problem.tangents.wanted) return hold.template operator()<BackwardTangents<T>>();
  if (problem.layout == Layout::kRows && scores.MadeInRows()) return hold.template operator()<RowGradients<T>>();
  if constexpr (sizeof(T) == sizeof(float)) {
    if (problem.layout == Layout::kPairs) return hold.template operator()<PairGradients>();
    if (problem.layout == Layout::kRoundedPairs) return hold.template operator()<RoundedGradients>();
  }
  hold.template operator()<GradientProducts<T>>();
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
