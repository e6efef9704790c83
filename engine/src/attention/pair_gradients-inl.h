// The products of the backward pass in pairs of bfloat16: dP is exact but for its sum, and where weights and gradients of
// scores are rounded so are dV, dQ and dK. And the choice between all layouts.
#if defined(HEED_ATTENTION_PAIR_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_PAIR_GRADIENTS_INL_H_
#undef HEED_ATTENTION_PAIR_GRADIENTS_INL_H_
#else
#define HEED_ATTENTION_PAIR_GRADIENTS_INL_H_
#endif

#include <bit>
#include <cstddef>
#include <cstdint>

#include "attention/backward_tangent-inl.h"
#include "attention/gradient_products-inl.h"
#include "attention/one_of.h"
#include "attention/pair_rows-inl.h"
#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/row_gradients-inl.h"
#include "attention/scores-inl.h"
#include "simd/pair_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
