// The output of few queries: their scores, weights and outputs stand in rows, one a query, so that the softmax has keys in
// lanes as the products have elements. And the choice between all outputs.
#if defined(HEED_ATTENTION_ROW_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_ROW_OUTPUT_INL_H_
#undef HEED_ATTENTION_ROW_OUTPUT_INL_H_
#else
#define HEED_ATTENTION_ROW_OUTPUT_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "attention/dropout-inl.h"
#include "attention/few_queries-inl.h"
#include "attention/one_of.h"
#include "attention/panel-inl.h"
#include "attention/panel_output-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"
#include "attention/softmax_state-inl.h"
#include "attention/tangent_output-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The sums of few queries over the rows of keys, as rows of `width` elements, `stride` apart. before: room for as many. far:
// whether the keys come from memory.
template <class T>
struct FewSums {
  T *sums, *before;
  int64_t stride, width;
  bool far;

  // sums[w, :] += sum over keys of weights[w, j] * rows[j, :], weights simd::kFewTileKeys apart. seen: what is known of the
  // place; see(): fills lanes.visible, unless everything is seen.
  template <class See>
  void Add(const StoredRows<const std::byte>& rows, const TilePlace& place, const T* weights, Seen seen,
           const attention::Lanes<T>& lanes, const See& see) const {
    if (seen == Seen::kSome) std::copy_n(sums, place.used * stride, before);
    FewValues(rows, far, place.keys, weights, place.used, width, sums, stride);
    // A hidden key was multiplied by its weight of 0, which shows where it is not finite.
    const auto finite = [&] {
      return AllFinite(hn::ScalableTag<T>(), HeadRows<const T>{sums, stride, 1}, place.used, width) || see() == Seen::kAll;
    };
    if (TakesAllPairs(seen, finite)) return;
    std::copy_n(before, place.used * stride, sums);
    const uint64_t* visible = VisibleOf(lanes, place);
    for (int64_t w = 0; w < place.used; ++w)
      for (int64_t j = 0; j < place.keys; ++j) {
        if ((visible[j] >> w & 1) == 0) continue;
        const StoredRows<const std::byte> row{rows.At(j, 0), rows.row_stride, 1, rows.element};
        FewValues(row, false, 1, weights + w * simd::kFewTileKeys + j, 1, width, sums + w * stride, stride);
      }
  }
};

template <class T>
class RowOutput : public PanelOutput<T> {
 public:
  using PanelOutput<T>::PanelOutput;

  Boundary boundary() const override { return Boundary::kPiece; }

  void Begin(const Panel& panel) override {
    PanelOutput<T>::Begin(panel);
    std::fill_n(scratch_.few_output, panel.used() * padded(), T{0});
  }

  // Takes a tile as a whole, however it was cut.
  void Take(const SoftmaxState<T>& state, const TileSight& tile) override {
    const TilePlace &first = tile.strips().front().place, &last = tile.strips().back().place;
    const int64_t keys = attention::RoundUp(last.key + last.keys - last.tile_key, attention::kLaneQuantum);
    const std::array<Seen, kMaxStrips> seen = Fill(tile, keys);
    for (int64_t x = 0; x < first.used; ++x)
      state.UpdateRow(d_, scratch_.few_scores + x * kKeys, keys, x, scratch_.few_output + x * padded(), width(),
                      first.tile_key);
    for (std::size_t x = 0; x < tile.strips().size(); ++x) {
      if (seen[x] == Seen::kNone) continue;
      const TilePlace& place = tile.strips()[x].place;
      if (this->Weighs()) {
        WeighRows(place);
      } else if (problem_.dropout.of_65536 != 0) {
        DropRows(place);
      }
      AddValues(place, seen[x], tile.masked());
    }
  }

  // Rows become columns [Dv, panel] where others add to the output or it is merged.
  void Close() override {
    if (RowsStay()) return;
    std::fill_n(scratch_.output, width() * panel_->width, T{0});
    for (int64_t w = 0; w < panel_->used(); ++w)
      for (int64_t c = 0; c < width(); ++c) scratch_.output[c * panel_->width + w] = scratch_.few_output[w * padded() + c];
  }

  void Normalise(const SoftmaxState<T>& state) override {
    if (!RowsStay()) PanelOutput<T>::Normalise(state);
  }

  // Rows times their factor; where that is 0 they are 0, whatever stands there.
  void Write(const SoftmaxState<T>& state) override {
    if (!RowsStay()) return PanelOutput<T>::Write(state);
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t w = 0; w < panel_->used(); ++w) {
      T* row = scratch_.few_output + w * padded();
      const T factor = state.sum[w];
      for (int64_t c = 0; c < padded(); c += step)
        hn::Store(factor == 0 ? hn::Zero(d_) : hn::Mul(hn::Load(d_, row + c), hn::Set(d_, factor)), d_, row + c);
      StoreRow(row, width(), QueriesOf(problem_.plan, problem_.out, panel_->b, scratch_.lanes.head[w]),
               scratch_.lanes.query[w]);
    }
  }

 protected:
  using PanelOutput<T>::problem_, PanelOutput<T>::scratch_, PanelOutput<T>::scores_, PanelOutput<T>::panel_, PanelOutput<T>::d_;
  static constexpr int64_t kKeys = simd::kFewTileKeys;
  static constexpr T kHidden = -std::numeric_limits<T>::infinity();

  // The scores of a tile, -inf where a query may not look and behind its keys; returns how much of each strip is seen.
  std::array<Seen, kMaxStrips> Fill(const TileSight& tile, int64_t keys) {
    std::array<Seen, kMaxStrips> seen{};
    FillStrips(tile, keys, seen);
    for (std::size_t x = 0; x < tile.strips().size(); ++x) {
      // What is not seen is hidden, and so is what stands behind the keys and a product may have overwritten.
      const TilePlace& place = tile.strips()[x].place;
      const int64_t begin = seen[x] == Seen::kNone ? 0 : place.keys,
                    end = attention::RoundUp(place.keys, attention::kLaneQuantum);
      for (int64_t w = 0; w < place.used; ++w)
        std::fill(OfStrip(place) + w * kKeys + begin, OfStrip(place) + w * kKeys + end, kHidden);
    }
    return seen;
  }

  // The scores of what is seen of each strip, and how much that is; -inf around the strips, up to `keys`.
  virtual void FillStrips(const TileSight& tile, int64_t keys, std::array<Seen, kMaxStrips>& seen) {
    HideAround(tile, keys);
    const StripSight& strip = tile.strips()[0];
    seen[0] = scores_.FillRows(strip, OfStrip(strip.place));
  }

  void HideAround(const TileSight& tile, int64_t keys) const {
    for (int64_t w = 0; tile.masked() && w < tile.strips()[0].place.used; ++w)
      std::fill_n(scratch_.few_scores + w * kKeys, keys, kHidden);
  }

  // The scores or weights of the keys of a strip.
  T* OfStrip(const TilePlace& place) const { return scratch_.few_scores + (place.key - place.tile_key); }

  // Lets those who work on weights do so, on a tile.
  void WeighRows(const TilePlace& place) {
    T *weights = OfStrip(place), *tile = RowsOfStrip(scratch_.scores, place);
    AddRowsToTile(weights, place.keys, place.used, Target<T>{tile, place.panel, false});
    this->WeighStrip(place, tile);
    CopyRowsFromTile(tile, place.panel, place.keys, place.used, weights);
  }

  void DropRows(const TilePlace& place) {
    for (int64_t w = 0; w < place.used; ++w) {
      const DropoutStream stream = StreamOf(problem_.attention.dropout, problem_.dropout, place.b, place.heads[w]);
      DrawnRow(stream, place, w).Drop(place.keys, OfStrip(place) + w * kKeys);
    }
  }

  void AddValues(const TilePlace& place, Seen seen, bool masked) {
    const FewSums<T> sums{scratch_.few_output, scratch_.few_before, padded(), width(), problem_.ComesFromMemory()};
    sums.Add(this->values_.Packed(place.tile_key, place.key, place.keys), place, OfStrip(place), seen, scratch_.lanes,
             [&] { return scores_.sight().SeeAgain(place, masked); });
  }

  // Whether the outputs are rows to the end: nobody adds to them, they are not merged, and no key follows.
  bool RowsStay() const {
    return !scores_.weighs() && this->rows() == width() && problem_.cut.splits == 1 && !problem_.remainder.data &&
           !problem_.valueless_key.present();
  }
  // Of an output, and with its padding.
  int64_t width() const { return this->shape_.value_dim; }
  int64_t padded() const { return problem_.cut.value_dim; }
};

// Where hooks know tiles alone, scores come as a tile and become rows.
template <class T>
class RowOutputOfTiles final : public RowOutput<T> {
 public:
  using RowOutput<T>::RowOutput;

  Boundary boundary() const override { return Boundary::kStrips; }

 private:
  void FillStrips(const TileSight& tile, int64_t keys, std::array<Seen, kMaxStrips>& seen) override {
    T* scores = this->scratch_.scores;
    this->scores_.FillTile(tile, scores, Asks::kQueue);
    this->HideAround(tile, keys);
    for (std::size_t x = 0; x < tile.strips().size(); ++x) {
      const TilePlace& place = tile.strips()[x].place;
      seen[x] = tile.strips()[x].seen;
      if (seen[x] != Seen::kNone)
        CopyRowsFromTile(RowsOfStrip(scores, place), place.panel, place.keys, place.used, this->OfStrip(place));
    }
  }
};

// The output of a call.
template <class T>
using ChosenOutput =
    attention::OneOf<PanelOutput<T>, LaneOutput<T>, RowOutput<T>, RowOutputOfTiles<T>, RoundedOutput, TangentOutput<T>>;
template <class T>
void Choose(const attention::ForwardProblem<T>& problem, attention::ForwardScratch<T>& scratch, Scores<T>& scores,
            std::span<PositionHook<T>* const> hooks, ChosenOutput<T>& chosen) {
  using attention::Layout;
  if (problem.tangents.wanted) return chosen.template Hold<TangentOutput<T>>(problem, scratch, scores, hooks);
  if (problem.layout == Layout::kRows) {
    if (scores.MadeInRows()) return chosen.template Hold<RowOutput<T>>(problem, scratch, scores, hooks);
    return chosen.template Hold<RowOutputOfTiles<T>>(problem, scratch, scores, hooks);
  }
  if constexpr (sizeof(T) == sizeof(float))
    if (problem.layout == Layout::kRoundedPairs) return chosen.template Hold<RoundedOutput>(problem, scratch, scores, hooks);
  chosen.template Hold<LaneOutput<T>>(problem, scratch, scores, hooks);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
