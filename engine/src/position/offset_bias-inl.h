// A bias that depends on key position - query position alone: one table per head, read along diagonals. ALiBi, T5 and learned
// relative biases are such tables.
#if defined(HEED_POSITION_OFFSET_BIAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_OFFSET_BIAS_INL_H_
#undef HEED_POSITION_OFFSET_BIAS_INL_H_
#else
#define HEED_POSITION_OFFSET_BIAS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <variant>

#include "attention/plan.h"
#include "attention/score_hook-inl.h"
#include "core/validation.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile touches keys + panel - 1 diagonals. They are laid out by ascending query - key, so that the lanes of one key are one
// unaligned vector: diagonal x of the tile has query - key = x - (keys - 1) counted from the tile's corner.
template <class T>
class OffsetBias final : public ScoreHook<T> {
 public:
  // diagonals: scratch [tile + panel + kLaneQuantum]
  OffsetBias(const RelativeBias& bias, int64_t first_offset, T* diagonals)
      : bias_(bias), first_offset_(first_offset), limit_(core::MaxDistance(bias)), diagonals_(diagonals) {}

  // Asks for gradients: those of batch row b and head h are added to d_table[b * batch_stride + h * head_stride], [2M+1].
  // copies: scratch [kLaneQuantum, copy_stride] with copy_stride at least tile + panel, a multiple of kLaneQuantum.
  void WantGradient(T* d_table, int64_t batch_stride, int64_t head_stride, T* copies, int64_t copy_stride) {
    d_table_ = d_table;
    batch_stride_ = batch_stride;
    head_stride_ = head_stride;
    copies_ = copies;
    copy_stride_ = copy_stride;
  }

  void Fill(const TilePlace& place, const T* columns, T* scores) override {
    std::visit([&](const auto& table) { Spread(table, place); }, bias_.table);
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = place.lane_begin; w < place.lane_end; w += lanes) {
        const auto bias = hn::LoadU(d_, diagonals_ + (place.keys - 1 - j) + w);
        hn::Store(hn::Add(bias, hn::Load(d_, columns + w)), d_, scores + j * place.panel + w);
      }
  }

  // Neighbouring keys update overlapping stretches of the diagonals. Each of `lanes` copies is shifted so that its updates are
  // aligned and no load waits for an unaligned store.
  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (!d_table_) return;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d_));
    const int64_t used = hwy::RoundUpTo(static_cast<size_t>(place.keys + place.panel), static_cast<size_t>(lanes));
    for (int64_t copy = 0; copy < lanes; ++copy) std::fill_n(copies_ + copy * copy_stride_, used, T{0});
    for (int64_t j = 0; j < place.keys; ++j) {
      const int64_t start = place.keys - 1 - j, copy = start % lanes;
      T* sums = copies_ + copy * copy_stride_ + (start - copy);
      for (int64_t w = place.lane_begin; w < place.lane_end; w += lanes)
        hn::Store(hn::Add(hn::Load(d_, sums + w), hn::Load(d_, d_scores + j * place.panel + w)), d_, sums + w);
    }
    T* d_table = d_table_ + place.b * batch_stride_ + place.h * head_stride_;
    const int64_t diagonals = place.keys + place.panel - 1;
    for (int64_t x = 0; x < diagonals; ++x) {
      T sum = 0;
      for (int64_t copy = 0; copy < std::min(lanes, x + 1); ++copy) sum += copies_[copy * copy_stride_ + x - copy];
      d_table[Column(place, x)] += sum;
    }
  }

 private:
  // The table's column for diagonal x of a tile.
  int64_t Column(const TilePlace& place, int64_t x) const {
    const int64_t query_minus_key = x - (place.keys - 1) + place.query - place.key;
    return std::clamp(first_offset_ - query_minus_key, -limit_, limit_) + limit_;
  }

  template <class Table>
  void Spread(const Table& table, const TilePlace& place) {
    const int64_t diagonals = place.keys + place.panel - 1;
    for (int64_t x = 0; x < diagonals; ++x)
      diagonals_[x] = static_cast<T>(static_cast<double>(table(place.h, Column(place, x))) * std::numbers::log2e);
  }

  static constexpr hn::ScalableTag<T> d_{};
  const RelativeBias& bias_;
  int64_t first_offset_, limit_;
  T* diagonals_;
  T *d_table_ = nullptr, *copies_ = nullptr;
  int64_t batch_stride_ = 0, head_stride_ = 0, copy_stride_ = 0;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
