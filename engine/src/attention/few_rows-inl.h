// The tiles of few queries in the forward pass: their scores, weights and outputs stand in rows, one a query, so that the
// softmax has keys in lanes as the products have elements.
#if defined(HEED_ATTENTION_FEW_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_FEW_ROWS_INL_H_
#undef HEED_ATTENTION_FEW_ROWS_INL_H_
#else
#define HEED_ATTENTION_FEW_ROWS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "attention/dropout-inl.h"
#include "attention/few_queries-inl.h"
#include "attention/mask-inl.h"
#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"
#include "attention/softmax_state-inl.h"
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
    const hn::ScalableTag<T> d;
    if (seen == Seen::kAll || AllFinite(d, HeadRows<const T>{sums, stride, 1}, place.used, width) || see() == Seen::kAll)
      return;
    // A hidden key is skipped, never multiplied by its weight of zero; it was, which shows where it is not finite.
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
class FewRows {
 public:
  FewRows(const attention::ForwardProblem<T>& problem, attention::ForwardScratch<T>& scratch, Scores<T>& scores,
          WalkedRows<T>& values)
      : problem_(problem),
        scratch_(scratch),
        scores_(scores),
        values_(values),
        width_(problem.plan.shape().value_dim),
        padded_(problem.cut.value_dim) {}

  // The outputs of so many queries, before their first tile.
  void Clear(int64_t queries) { std::fill_n(scratch_.few_output, queries * padded_, T{0}); }

  // Takes a tile as a whole, however it was cut, unless it is hidden. weigh(place, weights), if `weighs`: works on the weights
  // of a strip [keys, panel] before their product with values, dropout included.
  template <class Weigh>
  void Take(const SoftmaxState<T>& state, const Strips& strips, bool weighs, const Weigh& weigh) {
    if (scores_.Hidden(strips)) return;
    const int64_t queries = strips.places[0].used;
    const TilePlace& last = strips.places[strips.count - 1];
    const int64_t keys = attention::RoundUp(last.key + last.keys - last.tile_key, attention::kLaneQuantum);
    const std::array<Seen, kMaxStrips> seen = Fill(strips, keys);
    for (int64_t x = 0; x < queries; ++x)
      state.UpdateRow(d_, scratch_.few_scores + x * kKeys, keys, x, scratch_.few_output + x * padded_, width_);
    for (std::size_t x = 0; x < strips.count; ++x) {
      if (seen[x] == Seen::kNone) continue;
      if (weighs) {
        WeighStrip(strips.places[x], weigh);
      } else if (problem_.dropout.of_65536 != 0) {
        DropStrip(strips.places[x]);
      }
      AddValues(strips.places[x], seen[x], strips.masked);
    }
  }

  // The outputs as columns [Dv, width] of a panel.
  void ToColumns(int64_t queries, int64_t width, T* columns) const {
    for (int64_t w = 0; w < queries; ++w)
      for (int64_t c = 0; c < width_; ++c) columns[c * width + w] = scratch_.few_output[w * padded_ + c];
  }

  // Writes the outputs of a panel's queries, each times its factor; where that is 0 they are 0, whatever stands there.
  void Write(const Panel& panel, const T* factors) {
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    const attention::Plan& plan = problem_.plan;
    for (int64_t w = 0; w < panel.used(); ++w) {
      T* row = scratch_.few_output + w * padded_;
      const auto factor = hn::Set(d_, factors[w]);
      for (int64_t c = 0; c < padded_; c += step)
        hn::Store(factors[w] == 0 ? hn::Zero(d_) : hn::Mul(hn::Load(d_, row + c), factor), d_, row + c);
      StoreRow(row, width_, RowsOf(problem_.out, plan.ArrayRow(panel.b), scratch_.lanes.head[w], plan.FirstQuery(panel.b)),
               scratch_.lanes.query[w]);
    }
  }

 private:
  static constexpr int64_t kKeys = simd::kFewTileKeys;

  // The scores of a tile, -inf where a query may not look and behind its keys; returns how much of each strip is seen.
  std::array<Seen, kMaxStrips> Fill(const Strips& strips, int64_t keys) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    T* rows = scratch_.few_scores;
    const TilePlace& first = strips.places[0];
    std::array<Seen, kMaxStrips> seen{};
    if (!scores_.in_rows())
      seen = scores_.FillTile(d_, strips, scratch_.scores, [&](const TilePlace&) -> simd::Ahead& { return scratch_.ahead; });
    if (strips.masked)
      for (int64_t w = 0; w < first.used; ++w) std::fill_n(rows + w * kKeys, keys, kHidden);
    for (std::size_t x = 0; x < strips.count; ++x) {
      const TilePlace& place = strips.places[x];
      if (scores_.in_rows()) {
        seen[x] = scores_.FillRows(place, strips.masked, OfStrip(place));
      } else if (seen[x] != Seen::kNone) {
        CopyRowsFromTile(RowsOfStrip(scratch_.scores, place), place.panel, place.keys, place.used, OfStrip(place));
      }
      // What is not seen is hidden, and so is what stands behind the keys and a product may have overwritten.
      const int64_t begin = seen[x] == Seen::kNone ? 0 : place.keys,
                    end = attention::RoundUp(place.keys, attention::kLaneQuantum);
      for (int64_t w = 0; w < place.used; ++w)
        std::fill(OfStrip(place) + w * kKeys + begin, OfStrip(place) + w * kKeys + end, kHidden);
    }
    return seen;
  }

  // The scores or weights of the keys of a strip.
  T* OfStrip(const TilePlace& place) const { return scratch_.few_scores + (place.key - place.tile_key); }

  template <class Weigh>
  void WeighStrip(const TilePlace& place, const Weigh& weigh) {
    T *weights = OfStrip(place), *tile = RowsOfStrip(scratch_.scores, place);
    AddRowsToTile(weights, place.keys, place.used, Target<T>{tile, place.panel, false});
    weigh(place, tile);
    CopyRowsFromTile(tile, place.panel, place.keys, place.used, weights);
  }

  void DropStrip(const TilePlace& place) {
    for (int64_t w = 0; w < place.used; ++w) {
      const DropoutStream stream = StreamOf(problem_.attention.dropout, problem_.dropout, place.b, place.heads[w]);
      DrawnRow(stream, place, w).Drop(place.keys, OfStrip(place) + w * kKeys);
    }
  }

  void AddValues(const TilePlace& place, Seen seen, bool masked) {
    const FewSums<T> sums{scratch_.few_output, scratch_.few_before, padded_, width_, scores_.far()};
    sums.Add(values_.Packed(place.tile_key, place.key, place.keys), place, OfStrip(place), seen, scratch_.lanes,
             [&] { return scores_.See(place, masked); });
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::ForwardProblem<T>& problem_;
  attention::ForwardScratch<T>& scratch_;
  Scores<T>& scores_;
  WalkedRows<T>& values_;
  int64_t width_, padded_;  // of an output
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
