// Rows of bfloat16 as pairs of neighbours (simd/pair_product.h): elements of a row as they lie in memory, rows one below the
// other laid side by side. No element is converted.
#if defined(HEED_ATTENTION_PAIR_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_PAIR_ROWS_INL_H_
#undef HEED_ATTENTION_PAIR_ROWS_INL_H_
#else
#define HEED_ATTENTION_PAIR_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/rows-inl.h"
#include "hwy/highway.h"
#include "simd/pair_product-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The bits of bfloat16.
using BrainRows = HeadRows<const uint16_t>;
inline BrainRows BrainRowsOf(const StoredRows<const std::byte>& rows) {
  return {reinterpret_cast<const uint16_t*>(rows.data), rows.row_stride, rows.element_stride};
}

// to[x] = even[x], and odd[x] above it; nothing above it where odd is null.
inline void LaySideBySide(const uint16_t* even, const uint16_t* odd, int64_t count, uint32_t* to) {
  int64_t x = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; x + lanes <= count; x += lanes) {
    const auto lower = hn::PromoteTo(d, hn::LoadU(half, even + x));
    const auto upper = odd ? hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, odd + x))) : hn::Zero(d);
    hn::StoreU(hn::Or(lower, upper), d, to + x);
  }
#endif
  for (; x < count; ++x) to[x] = even[x] | (odd ? uint32_t{odd[x]} << 16 : 0U);
}

// Whether all of `count` neighbours are free of NaN and infinity.
inline bool AllFiniteBrain(const uint16_t* row, int64_t count) {
  constexpr uint16_t kExponent = 0x7F80;
  bool finite = true;
  for (int64_t c = 0; c < count; ++c) finite &= (row[c] & kExponent) != kExponent;
  return finite;
}

// The keys or values that a worker walks: as the caller has them, and laid side by side for products along the keys, which stay
// as long as the walk goes over the same keys.
class WalkedPairs {
 public:
  WalkedPairs(const attention::HeldPairs& held, int64_t elements) : held_(held), elements_(elements) {}

  // Keys begin .. end - 1 of `rows` from now on; begin is the first of a tile.
  void Walk(const StoredRows<const std::byte>& rows, int64_t begin, int64_t end) {
    if (rows.data == rows_.data && begin == begin_ && end == end_) return;
    rows_ = rows;
    begin_ = begin;
    end_ = end;
    whole_ = end - begin <= held_.room;
    tile_ = gathered_ = -1;
    if (whole_) std::fill_n(held_.filled, attention::DivideUp(std::max<int64_t>(0, end - begin), held_.tile), false);
  }

  // Row j is key + j, with steps along its elements.
  simd::PairScalars AlongElements(int64_t tile_key, int64_t key) {
    const BrainRows rows = Rows(tile_key);
    return {rows.At(key - tile_key, 0), rows.row_stride, 2};
  }

  // Row c is element c, with steps along the keys from `key` on, which lies an even number of keys behind the tile's first.
  simd::PairScalars AlongKeys(int64_t tile_key, int64_t key) {
    const uint32_t* pairs = SideBySide(tile_key) + (key - tile_key) / 2 * held_.width;
    return {reinterpret_cast<const uint16_t*>(pairs), 2, 2 * held_.width};
  }

  // Asks for the rows of a tile behind `count` keys from `key` on, whatever lies there.
  void AskBehind(int64_t key, int64_t count) const {
    const BrainRows rows = BrainRowsOf(rows_);
    for (int64_t j = key + held_.tile; j < key + held_.tile + count; ++j)
      for (int64_t c = 0; c < elements_; c += simd::kLineBytes / 2) simd::AskSecondLevel(rows.At(j, c));
  }

  bool AllFinite(int64_t tile_key, int64_t key, int64_t count) {
    const BrainRows rows = Rows(tile_key);
    bool finite = true;
    for (int64_t j = key - tile_key; j < key - tile_key + count; ++j) finite &= AllFiniteBrain(rows.At(j, 0), elements_);
    return finite;
  }

 private:
  int64_t KeysOf(int64_t tile_key) const { return std::min(held_.tile, end_ - tile_key); }

  // The rows of a tile without gaps between elements.
  BrainRows Rows(int64_t tile_key) {
    BrainRows own = BrainRowsOf(rows_);
    own.data = own.At(tile_key, 0);
    if (own.element_stride == 1 || elements_ == 1) return own;
    if (gathered_ != tile_key) {
      for (int64_t j = 0; j < KeysOf(tile_key); ++j)
        for (int64_t c = 0; c < elements_; ++c) held_.gathered[j * held_.width + c] = *own.At(j, c);
      gathered_ = tile_key;
    }
    own.data = held_.gathered;
    own.row_stride = held_.width;
    own.element_stride = 1;
    return own;
  }

  const uint32_t* SideBySide(int64_t tile_key) {
    uint32_t* tile = held_.pairs + (whole_ ? (tile_key - begin_) / 2 * held_.width : 0);
    bool* filled = held_.filled + (whole_ ? (tile_key - begin_) / held_.tile : 0);
    if (whole_ ? *filled : tile_ == tile_key) return tile;
    const BrainRows rows = Rows(tile_key);
    const int64_t keys = KeysOf(tile_key);
    for (int64_t j = 0; j < keys; j += 2)
      LaySideBySide(rows.At(j, 0), j + 1 < keys ? rows.At(j + 1, 0) : nullptr, elements_, tile + j / 2 * held_.width);
    *filled = true;
    tile_ = tile_key;
    return tile;
  }

  const attention::HeldPairs& held_;
  int64_t elements_;  // of a row
  StoredRows<const std::byte> rows_{};
  int64_t begin_ = 0, end_ = -1;
  bool whole_ = false;
  int64_t tile_ = -1, gathered_ = -1;  // the tile whose pairs, whose rows stand in place
};

// The caller's rows of head x of a panel.
template <class T>
BrainRows BrainRowsOf(const PanelSource<T>& source, const Panel& panel, int64_t x) {
  const attention::Plan& plan = source.plan;
  BrainRows rows = BrainRowsOf(RowsOf(source.operand, plan.ArrayRow(panel.b), panel.head + x, plan.FirstQuery(panel.b)));
  rows.data = rows.At(panel.begin, 0);
  return rows;
}

// Elements 2p and 2p + 1 of a row; the one behind an odd number is 0.
inline uint32_t ElementPair(const BrainRows& rows, int64_t i, int64_t p, int64_t elements) {
  const uint32_t upper = 2 * p + 1 < elements ? *rows.At(i, 2 * p + 1) : 0U;
  return *rows.At(i, 2 * p) | upper << 16;
}

// columns[p, w] = elements 2p and 2p + 1 of the row of lane w; rows that are left out are 0.
template <class T>
void PackPairColumns(const Panel& panel, const attention::Lanes<T>& lanes, const PanelSource<T>& source, uint32_t* columns) {
  const int64_t pairs = attention::DivideUp(source.elements, 2), whole = source.elements / 2;
  for (int64_t x = 0; x < panel.heads; ++x) {
    const BrainRows rows = BrainRowsOf(source, panel, x);
    const int64_t first = x * panel.count;
    const uint64_t left = source.Left(lanes) >> first;
    const bool all = (left & attention::LowBits(panel.count)) == 0;
    int64_t packed = 0;
    if (all && rows.element_stride == 1 && rows.row_stride % 2 == 0) {
      TransposeBits(reinterpret_cast<const uint32_t*>(rows.data), rows.row_stride / 2, panel.count, whole, columns + first,
                    panel.width);
      packed = whole;
    }
    for (int64_t w = 0; w < panel.count; ++w)
      for (int64_t p = packed; p < pairs; ++p)
        columns[p * panel.width + first + w] = (left >> w & 1) != 0 ? 0U : ElementPair(rows, w, p, source.elements);
  }
  if (panel.used() == panel.width) return;
  for (int64_t p = 0; p < pairs; ++p) std::fill(columns + p * panel.width + panel.used(), columns + (p + 1) * panel.width, 0U);
}

// packed[w / 2, c] = element c of the rows of lanes w and w + 1, as rows of `padded` pairs; padding and rows that are left out
// are 0.
template <class T>
void PackPairRows(const Panel& panel, const attention::Lanes<T>& lanes, const PanelSource<T>& source, int64_t padded,
                  uint32_t* packed) {
  const uint64_t left = source.Left(lanes);
  const int64_t step = BrainRowsOf(source, panel, 0).element_stride;
  // Null where the row is left out.
  const auto row = [&](int64_t w) -> const uint16_t* {
    if ((left >> w & 1) != 0) return nullptr;
    return BrainRowsOf(source, panel, w / panel.count).At(w % panel.count, 0);
  };
  const auto element = [&](const uint16_t* of, int64_t c) { return of ? of[c * step] : uint16_t{0}; };
  for (int64_t w = 0; w < panel.width; w += 2) {
    uint32_t* to = packed + w / 2 * padded;
    std::fill(to + source.elements, to + padded, 0U);
    const uint16_t *even = row(w), *odd = row(w + 1);
    if (even && odd && step == 1) {
      LaySideBySide(even, odd, source.elements, to);
      continue;
    }
    for (int64_t c = 0; c < source.elements; ++c) to[c] = element(even, c) | uint32_t{element(odd, c)} << 16;
  }
}

// The numbers of a tile become what RoundTile makes of them.
inline void RoundInPlace(const TilePlace& place, float* tile) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < place.keys; ++j)
    for (int64_t w = place.lane_begin; w < place.lane_end; w += lanes) {
      float* at = tile + j * place.panel + w;
      hn::Store(hn::BitCast(d, hn::ShiftLeft<16>(RoundedBits(d, hn::Load(d, at)))), d, at);
    }
}

// Whether the rows of a panel are free of NaN and infinity, but for those that are left out.
template <class T>
bool AllFinitePairs(const Panel& panel, const attention::Lanes<T>& lanes, const PanelSource<T>& source) {
  const uint64_t left = source.Left(lanes);
  bool finite = true;
  for (int64_t w = 0; w < panel.used(); ++w) {
    const BrainRows rows = BrainRowsOf(source, panel, w / panel.count);
    for (int64_t c = 0; c < source.elements && (left >> w & 1) == 0; ++c)
      finite &= AllFiniteBrain(rows.At(w % panel.count, c), 1);
  }
  return finite;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
