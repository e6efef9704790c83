// A bias that depends on key position - query position alone: one table per head, read along diagonals. T5 and learned
// relative biases are such tables.
#if defined(HEED_POSITION_OFFSET_BIAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_OFFSET_BIAS_INL_H_
#undef HEED_POSITION_OFFSET_BIAS_INL_H_
#else
#define HEED_POSITION_OFFSET_BIAS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <variant>

#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "hwy/highway.h"
#include "position/offset-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile touches keys + panel - 1 diagonals. They are laid out by ascending query - key, so that the lanes of one key are one
// unaligned vector: diagonal x of the tile has query - key = x - (keys - 1) counted from the tile's corner. Listed positions
// have no diagonals; there each pair looks its entry up.
template <class T>
class OffsetBias final : public PositionHook<T> {
 public:
  // d_table: gradient of batch row 0, head 0, [2M+1], with strides to the others; null where not wanted.
  struct Gradient {
    T* d_table = nullptr;
    int64_t batch_stride = 0, head_stride = 0;
  };

  OffsetBias(const Table<2>& table, const attention::Plan& plan, const attention::Cut& cut,
             const attention::HookScratch<T>& scratch, const Gradient& gradient)
      : table_(table),
        offsets_(plan, std::visit([](const auto& t) { return (t.extent[1] - 1) / 2; }, table)),
        diagonals_(scratch.diagonals),
        copies_(scratch.d_diagonals),
        copy_stride_(cut.tile + cut.panel + attention::kLaneQuantum),
        gradient_(gradient) {}

  void Begin(const PanelArrays<T>& panel) override { offsets_.Begin(panel.b); }

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    std::visit([&](const auto& table) { Add(table, place, empty, scores); }, table_);
  }

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (!gradient_.d_table) return;
    T* d_table = gradient_.d_table + place.b * gradient_.batch_stride + place.head * gradient_.head_stride;
    if (offsets_.Diagonal(place)) {
      AccumulateDiagonals(place, d_scores, d_table);
      return;
    }
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w)
        d_table[offsets_.Row(place, j, w)] += d_scores[j * place.panel + w];
  }

 private:
  template <class V>
  void Add(const V& table, const TilePlace& place, bool empty, T* scores) {
    const auto entry = [&](int64_t head, int64_t row) { return NatsToBits<T>(static_cast<double>(table(head, row))); };
    if (!offsets_.Diagonal(place)) {
      AddScalarTerms(place, empty, scores,
                     [&](int64_t j, int64_t w) { return entry(place.heads[w], offsets_.Row(place, j, w)); });
      return;
    }
    const int64_t diagonals = place.keys + place.panel - 1;
    for (int64_t x = 0; x < diagonals; ++x) diagonals_[x] = entry(place.head, Column(place, x));
    AddTerms(d_, place, empty, scores,
             [&](int64_t j, int64_t w) HWY_ATTR { return hn::LoadU(d_, diagonals_ + (place.keys - 1 - j) + w); });
  }

  // The table's column for diagonal x of a tile.
  int64_t Column(const TilePlace& place, int64_t x) const {
    return offsets_.ClippedRow(offsets_.Corner(place) + place.keys - 1 - x);
  }

  // Neighbouring keys update overlapping stretches of the diagonals. Each of `lanes` copies is shifted so that its updates are
  // aligned and no load waits for an unaligned store.
  void AccumulateDiagonals(const TilePlace& place, const T* d_scores, T* d_table) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d_));
    const int64_t used = hwy::RoundUpTo(static_cast<size_t>(place.keys + place.panel), static_cast<size_t>(lanes));
    for (int64_t copy = 0; copy < lanes; ++copy) std::fill_n(copies_ + copy * copy_stride_, used, T{0});
    for (int64_t j = 0; j < place.keys; ++j) {
      const int64_t start = place.keys - 1 - j, copy = start % lanes;
      T* sums = copies_ + copy * copy_stride_ + (start - copy);
      for (int64_t w = place.lane_begin; w < place.lane_end; w += lanes)
        hn::Store(hn::Add(hn::Load(d_, sums + w), hn::Load(d_, d_scores + j * place.panel + w)), d_, sums + w);
    }
    const int64_t diagonals = place.keys + place.panel - 1;
    for (int64_t x = 0; x < diagonals; ++x) {
      T sum = 0;
      for (int64_t copy = 0; copy < std::min(lanes, x + 1); ++copy) sum += copies_[copy * copy_stride_ + x - copy];
      d_table[Column(place, x)] += sum;
    }
  }

  static constexpr hn::ScalableTag<T> d_{};
  const Table<2>& table_;
  Offsets offsets_;
  T *diagonals_, *copies_;
  int64_t copy_stride_;
  Gradient gradient_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
