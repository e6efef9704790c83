// The keys or values that a worker walks, tile by tile: as the caller has them, in the type of computation, or bfloat16 as
// pairs of neighbours (simd/pair_product.h). Copies stay as long as the walk goes over the same keys.
#if defined(HEED_ATTENTION_ROW_CACHE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_ROW_CACHE_INL_H_
#undef HEED_ATTENTION_ROW_CACHE_INL_H_
#else
#define HEED_ATTENTION_ROW_CACHE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/problem.h"
#include "attention/rows-inl.h"
#include "hwy/highway.h"
#include "simd/ahead.h"
#include "simd/pair_product-inl.h"
#include "simd/tuning.h"

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

// Tiles are named by their first key.
template <class T>
class RowCache {
 public:
  // elements: of a row
  RowCache(const attention::HeldRows<T>& held, int64_t elements) : held_(held), elements_(elements) {}

  // Keys begin .. end - 1 of `rows` from now on; begin is the first of a tile.
  void Walk(const StoredRows<const std::byte>& rows, int64_t begin, int64_t end) {
    if (rows.data == rows_.data && begin == begin_ && end == end_) return;
    rows_ = rows;
    begin_ = begin;
    end_ = end;
    native_ = rows.template Holds<T>() && packed();
    // What does not fit as a whole takes the same place tile after tile.
    whole_ = end - begin <= held_.rows.room;
    tile_ = pair_tile_ = gathered_ = -1;
    const int64_t tiles = whole_ && !native_ ? attention::DivideUp(std::max<int64_t>(0, end - begin), held_.tile) : 0;
    std::fill_n(held_.rows.filled, tiles, false);
    if (held_.pairs.filled) std::fill_n(held_.pairs.filled, tiles, false);
  }
  attention::KeyRange walked() const { return {begin_, end_}; }

  // The caller's rows from key 0 on; and from a key on, copies where gaps lie between their elements.
  const StoredRows<const std::byte>& stored() const { return rows_; }
  StoredRows<const std::byte> Packed(int64_t tile_key, int64_t key, int64_t count) {
    if (packed()) return {rows_.At(key, 0), rows_.row_stride, 1, rows_.element};
    const HeadRows<const T> copies = At(tile_key, key, count);
    return {reinterpret_cast<const std::byte*>(copies.data), copies.row_stride, 1, core::ElementOf<T>()};
  }

  // The rows of keys key .. key + count - 1 of a tile in the type of computation.
  HeadRows<const T> At(int64_t tile_key, int64_t key, int64_t count) {
    if (native_) return Native<T>(rows_, key, count, elements_, true, nullptr);
    const T* tile = TileOf(held_.rows, tile_, tile_key, [&](T* copy) {
      for (int64_t j = 0; j < CountOf(tile_key); ++j)
        Native<T>(rows_, tile_key + j, 1, elements_, true, copy + j * held_.width);
    });
    return {tile + (key - tile_key) * held_.width, held_.width, 1};
  }

  // Of bfloat16. Row j is key + j, with steps along its elements.
  simd::PairScalars AlongElements(int64_t tile_key, int64_t key, int64_t count) {
    if (!InPairs()) {
      const HeadRows<const T> rows = At(tile_key, key, count);
      return {rows.data, rows.row_stride, 1};
    }
    const BrainRows rows = Bits(tile_key);
    return {rows.At(key - tile_key, 0), rows.row_stride, 2};
  }
  // Row c is element c, with steps along the keys from `key` on, which lies an even number of keys behind the tile's first.
  simd::PairScalars AlongKeys(int64_t tile_key, int64_t key, int64_t count) {
    if (!InPairs()) {
      const HeadRows<const T> rows = At(tile_key, key, count);
      return {rows.data, 1, rows.row_stride};
    }
    const uint32_t* tile = TileOf(held_.pairs, pair_tile_, tile_key, [&](uint32_t* copy) {
      const BrainRows rows = Bits(tile_key);
      for (int64_t j = 0; j < CountOf(tile_key); j += 2)
        LaySideBySide(rows.At(j, 0), j + 1 < CountOf(tile_key) ? rows.At(j + 1, 0) : nullptr, elements_,
                      copy + j / 2 * held_.width);
    });
    return {reinterpret_cast<const uint16_t*>(tile + (key - tile_key) / 2 * held_.width), 2, 2 * held_.width};
  }
  bool AllFinite(int64_t tile_key, int64_t key, int64_t count) {
    const BrainRows rows = Bits(tile_key);
    bool finite = true;
    for (int64_t j = key - tile_key; j < key - tile_key + count; ++j) finite &= AllFiniteBrain(rows.At(j, 0), elements_);
    return finite;
  }
  // Asks for the rows of a tile behind `count` keys from `key` on, whatever lies there.
  void AskBehind(int64_t key, int64_t count) const {
    const BrainRows rows = BrainRowsOf(rows_);
    for (int64_t j = key + held_.tile; j < key + held_.tile + count; ++j)
      for (int64_t c = 0; c < elements_; c += simd::kLineBytes / 2) simd::AskSecondLevel(rows.At(j, c));
  }

 private:
  bool packed() const { return rows_.element_stride == 1 || elements_ == 1; }
  int64_t CountOf(int64_t tile_key) const { return std::min(held_.tile, end_ - tile_key); }

  // A tile's copy, made by fill(copy) unless it is there. in_place: the tile that stands where all of them take the same place.
  template <class E, class Fill>
  E* TileOf(const attention::HeldTiles<E>& held, int64_t& in_place, int64_t tile_key, const Fill& fill) {
    const int64_t index = whole_ ? (tile_key - begin_) / held_.tile : 0;
    E* copy = held.copies + index * held.elements;
    if (whole_ ? held.filled[index] : in_place == tile_key) return copy;
    fill(copy);
    held.filled[index] = true;
    in_place = tile_key;
    return copy;
  }

  // The rows of a tile of bfloat16 without gaps between elements.
  BrainRows Bits(int64_t tile_key) {
    BrainRows own = BrainRowsOf(rows_);
    own.data = own.At(tile_key, 0);
    if (packed()) return own;
    if (gathered_ != tile_key) {
      for (int64_t j = 0; j < CountOf(tile_key); ++j)
        for (int64_t c = 0; c < elements_; ++c) held_.gathered[j * held_.width + c] = *own.At(j, c);
      gathered_ = tile_key;
    }
    return {held_.gathered, held_.width, 1};
  }

  const attention::HeldRows<T>& held_;
  int64_t elements_;
  StoredRows<const std::byte> rows_{};
  int64_t begin_ = 0, end_ = -1;
  bool native_ = false, whole_ = false;
  int64_t tile_ = -1, pair_tile_ = -1, gathered_ = -1;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
