// Positions that count what a query looks for: q[i].table[p[i,j]], p[i,j] the sum of the gates of scores from key j on.
//
// A panel is surveyed first, from its last key back: the sums of gates behind every 16 keys are kept, which is linear memory
// and lets tiles be walked in any order afterwards. Where all queries of a panel have reached the last row of the table the
// survey ends, and the keys before cost one addition a pair. Backward, a gate's gradient is the sum of those of the positions
// of its key and the keys before it: one running sum a query, because tiles are walked from the first key on.
#if defined(HEED_POSITION_CONTEXTUAL_POSITION_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_CONTEXTUAL_POSITION_HOOK_INL_H_
#undef HEED_POSITION_CONTEXTUAL_POSITION_HOOK_INL_H_
#else
#define HEED_POSITION_CONTEXTUAL_POSITION_HOOK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numbers>

#include "attention/position_hook-inl.h"
#include "attention/sight-inl.h"
#include "hwy/highway.h"
#include "position/contextual_position/scheme.h"
#include "simd/exp2-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class ContextualPositionHook final : public PositionHook<T> {
 public:
  using Call = position::ContextualPositionCall<T>;
  static_assert(kStripKeys % Call::kBlock == 0);

  ContextualPositionHook(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place)
      : call_(call),
        inverse_scale_(static_cast<T>(1 / place.plan.scale())),
        width_(place.cut.head_dim),
        rows_(call.table().extent[0]),
        scratch_(scratch) {}

  Term term() const override { return Term::kScore; }
  bool surveys() const override { return true; }

  void Begin(const PanelArrays<T>& panel) override {
    const View<const T, 2>& table = call_.table();
    Product(d_, Scalars<T>{table.data, table.stride[0], table.stride[1]}, {panel.queries, panel.panel},
            {rows_, table.extent[1], panel.panel}, Fresh(scratch_.products, panel.panel));
    Scale(scratch_.products, panel.panel);
    std::fill_n(scratch_.sum, panel.panel, T{0});
    used_ = panel.used;
    blind_ = panel.blind;
    counted_ = std::numeric_limits<int64_t>::max();
    if (!call_.backward()) return;
    d_table_ = call_.Part(0, panel.block, panel.b, panel.head, panel.chunk);
    std::fill_n(scratch_.d_products, rows_ * panel.panel, T{0});
    std::fill_n(scratch_.d_gates, panel.panel, T{0});
  }

  bool Survey(const TilePlace& place, const uint64_t* visible, const T* scores) override {
    counted_ = place.key;
    for (int64_t block = (place.keys - 1) / Call::kBlock; block >= 0; --block) {
      T* after = After(place, block);
      ForEachLanes(place, [&](int64_t w) HWY_ATTR {
        const V before = hn::Load(d_, scratch_.sum + w);
        V own = hn::Zero(d_);
        for (int64_t j = LastOf(place, block); j >= block * Call::kBlock; --j)
          own = hn::Add(own, GateOf(place, visible, scores, j, w).open);
        hn::Store(before, d_, after + w);
        hn::Store(hn::Add(before, own), d_, scratch_.sum + w);
      });
    }
    const T last = static_cast<T>(rows_ - 1);
    return std::any_of(scratch_.sum, scratch_.sum + used_, [last](T sum) { return !(sum >= last); });
  }

  void Transform(const TilePlace& place, const uint64_t* visible, T* scores) override {
    if (place.key < counted_) {
      const T* last = scratch_.products + (rows_ - 1) * place.panel;
      AddTerms(d_, place, false, scores, [&](int64_t, int64_t w) HWY_ATTR { return hn::Load(d_, last + w); });
      return;
    }
    for (int64_t block = 0; block * Call::kBlock < place.keys; ++block) {
      const T* after = After(place, block);
      ForEachLanes(place, [&](int64_t w) HWY_ATTR {
        const V before = hn::Load(d_, after + w);
        V own = hn::Zero(d_);
        for (int64_t j = LastOf(place, block); j >= block * Call::kBlock; --j) {
          const Gate gate = GateOf(place, visible, scores, j, w);
          own = hn::Add(own, gate.open);
          const V position = hn::Min(hn::Add(before, own), hn::Set(d_, static_cast<T>(rows_ - 1)));
          const Between rows = RowsAt(place, position, w);
          T* at = scores + j * place.panel + w;
          hn::Store(hn::Add(hn::Load(d_, at), hn::MulAdd(rows.share, hn::Sub(rows.high, rows.low), rows.low)), d_, at);
          if (call_.backward()) {
            hn::Store(position, d_, scratch_.positions + j * place.panel + w);
            hn::Store(gate.slope, d_, scratch_.slopes + j * place.panel + w);
          }
        }
      });
    }
  }

  void TransformGradient(const TilePlace& place, T* d_scores) override {
    if (place.key < counted_) {
      AddToLast(place, d_scores);
      return;
    }
    const V to_nats = hn::Set(d_, std::numbers::ln2_v<T>);
    ForEachLanes(place, [&](int64_t w) HWY_ATTR {
      V d_gate = hn::Load(d_, scratch_.d_gates + w);
      for (int64_t j = 0; j < place.keys; ++j) {
        T* at = d_scores + j * place.panel + w;
        const V d_score = hn::Load(d_, at), slope = hn::Load(d_, scratch_.slopes + j * place.panel + w);
        const Between rows = RowsAt(place, hn::Load(d_, scratch_.positions + j * place.panel + w), w);
        d_gate = hn::MulAdd(d_score, hn::Mul(to_nats, hn::Sub(rows.high, rows.low)), d_gate);
        // A pair that is hidden has no gate, whatever the sum is.
        const V by_gate = hn::IfThenZeroElse(hn::Eq(slope, hn::Zero(d_)), hn::Mul(slope, d_gate));
        hn::Store(hn::Add(d_score, by_gate), d_, at);
        const V to_high = hn::Mul(d_score, rows.share);
        AddAt(rows.low_index, hn::Sub(d_score, to_high), scratch_.d_products + w);
        AddAt(rows.high_index, to_high, scratch_.d_products + w);
      }
      hn::Store(d_gate, d_, scratch_.d_gates + w);
    });
  }

  void End(const PanelArrays<T>& panel) override {
    if (!call_.backward()) return;
    const View<const T, 2>& table = call_.table();
    Scale(scratch_.d_products, panel.panel);
    if (panel.d_queries)
      Product(d_, Scalars<T>{table.data, table.stride[1], table.stride[0]}, {scratch_.d_products, panel.panel},
              {table.extent[1], rows_, panel.panel}, AddedTo(panel.d_queries, panel.panel));
    if (d_table_)
      Product(d_, Scalars<T>{scratch_.d_products, panel.panel, 1}, {panel.query_rows, width_}, {rows_, panel.used, width_},
              AddedTo(d_table_, width_));
  }

 private:
  static constexpr hn::ScalableTag<T> d_{};
  static constexpr hn::RebindToSigned<hn::ScalableTag<T>> di_{};
  using V = hn::Vec<hn::ScalableTag<T>>;
  using Index = hn::Vec<hn::RebindToSigned<hn::ScalableTag<T>>>;

  struct Gate {
    V open, slope;  // 1 / (1 + 2^-x), and its derivative by the score in nats
  };
  // The products on both sides of a position, where they stand, and how far it is from the lower to the higher one.
  struct Between {
    Index low_index, high_index;
    V low, high, share;
  };

  template <class Visit>
  HWY_INLINE void ForEachLanes(const TilePlace& place, const Visit& visit) {
    for (int64_t w = place.lane_begin; w < place.lane_end; w += static_cast<int64_t>(hn::Lanes(d_))) visit(w);
  }

  // The sums of gates behind a block of a tile's keys.
  T* After(const TilePlace& place, int64_t block) const {
    return scratch_.after + (place.key / Call::kBlock + block) * place.panel;
  }
  static int64_t LastOf(const TilePlace& place, int64_t block) { return std::min((block + 1) * Call::kBlock, place.keys) - 1; }

  // Both tails from the power that cannot overflow.
  HWY_INLINE Gate GateOf(const TilePlace& place, const uint64_t* visible, const T* scores, int64_t j, int64_t w) const {
    const V score = hn::Load(d_, scores + j * place.panel + w), one = hn::Set(d_, T{1});
    const V power = PowerOfTwo(d_, hn::Neg(hn::Abs(score)));
    const V share = hn::Div(one, hn::Add(one, power)), rest = hn::Mul(power, share);
    const Gate gate{hn::IfThenElse(hn::Lt(score, hn::Zero(d_)), rest, share), hn::Mul(rest, share)};
    if (!visible && blind_ == 0) return gate;
    const auto seen = MaskOf(d_, (visible ? visible[j] : ~uint64_t{0}) & ~blind_, w);
    return {hn::IfThenElseZero(seen, gate.open), hn::IfThenElseZero(seen, gate.slope)};
  }

  // What is no number stands at the first row: it reaches the score by the share.
  HWY_INLINE Between RowsAt(const TilePlace& place, V position, int64_t w) const {
    const V zero = hn::Zero(d_), panel = hn::Set(d_, static_cast<T>(place.panel));
    const V low = hn::IfThenElseZero(hn::Ge(position, zero), hn::Floor(position));
    const V high = hn::Min(hn::Add(low, hn::Set(d_, T{1})), hn::Set(d_, static_cast<T>(rows_ - 1)));
    const Index lanes = hn::Iota(di_, hn::TFromD<decltype(di_)>{0});
    const Index low_index = hn::Add(hn::ConvertTo(di_, hn::Mul(low, panel)), lanes);
    const Index high_index = hn::Add(hn::ConvertTo(di_, hn::Mul(high, panel)), lanes);
    const T* products = scratch_.products + w;
    return {.low_index = low_index,
            .high_index = high_index,
            .low = hn::GatherIndex(d_, products, low_index),
            .high = hn::GatherIndex(d_, products, high_index),
            .share = hn::Sub(position, low)};
  }

  // Every lane has a column of its own, so no two of them meet.
  static HWY_INLINE void AddAt(Index index, V term, T* sums) {
    hn::ScatterIndex(hn::Add(hn::GatherIndex(d_, sums, index), term), d_, sums, index);
  }

  // All keys of the tile have the last position, which no gate changes.
  void AddToLast(const TilePlace& place, const T* d_scores) {
    T* last = scratch_.d_products + (rows_ - 1) * place.panel;
    ForEachLanes(place, [&](int64_t w) HWY_ATTR {
      V sum = hn::Load(d_, last + w);
      for (int64_t j = 0; j < place.keys; ++j) sum = hn::Add(sum, hn::Load(d_, d_scores + j * place.panel + w));
      hn::Store(sum, d_, last + w);
    });
  }

  // Queries come times the scale, and give their gradient over it.
  void Scale(T* products, int64_t panel) const {
    const V factor = hn::Set(d_, inverse_scale_);
    for (int64_t at = 0; at < rows_ * panel; at += static_cast<int64_t>(hn::Lanes(d_)))
      hn::Store(hn::Mul(factor, hn::Load(d_, products + at)), d_, products + at);
  }

  const Call& call_;
  T inverse_scale_;
  int64_t width_, rows_;  // D padded; of the table
  const typename Call::Scratch scratch_;
  // Of the panel at hand: its queries, the lanes that count no key, the first key whose gates were counted, where the
  // table's gradient gathers.
  int64_t used_ = 0, counted_ = 0;
  uint64_t blind_ = 0;
  T* d_table_ = nullptr;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
