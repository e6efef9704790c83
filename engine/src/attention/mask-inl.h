// Words of bits that tell which lanes may look at which keys of a strip, one a key, and what is done by them: scores hidden,
// pairs left out of products. attention/sight-inl.h makes them.
#if defined(HEED_ATTENTION_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_MASK_INL_H_
#undef HEED_ATTENTION_MASK_INL_H_
#else
#define HEED_ATTENTION_MASK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "simd/tile-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Reads back no more bytes than were written: a wider load would wait for the store.
template <class D>
HWY_INLINE uint64_t BitsOf(D d, hn::Mask<D> mask, int64_t lane) {
  constexpr std::size_t kBytes = (hn::MaxLanes(D()) + 7) / 8;
  uint8_t bytes[8];
  hn::StoreMaskBits(d, mask, bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, kBytes);
  return bits << lane;
}

template <class D>
HWY_INLINE hn::Mask<D> MaskOf(D d, uint64_t bits, int64_t lane) {
  bits >>= lane;
  uint8_t bytes[8];
  std::memcpy(bytes, &bits, sizeof(bits));
  return hn::LoadMaskBits(d, bytes);
}

// The row of a dense array for lane w, from the tile's first key on; extents of 1 serve all.
template <class V>
auto* DenseRow(const View<V, 4>& view, const TilePlace& place, int64_t w, int64_t& key_stride) {
  const auto fit = [&](int r, int64_t index) { return view.extent[r] == 1 ? 0 : index * view.stride[r]; };
  key_stride = view.extent[3] == 1 ? 0 : view.stride[3];
  return view.data + fit(0, place.b) + fit(1, place.heads[w]) + fit(2, place.queries[w]) + place.key * key_stride;
}

// The words of lanes.visible that belong to a strip.
template <class T>
uint64_t* VisibleOf(const attention::Lanes<T>& lanes, const TilePlace& place) {
  return lanes.visible + (place.key - place.tile_key);
}

// The bits of the lanes that a tile is about.
inline uint64_t LaneBits(const TilePlace& place) {
  return attention::LowBits(place.lane_end) & ~attention::LowBits(place.lane_begin);
}

// tile[j, w] = `hidden` where lane w may not look at key j, and 0 in uniform lanes.
template <class D, class T>
void MaskTile(D d, const attention::Lanes<T>& lanes, const TilePlace& place, T hidden, T* tile) {
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const uint64_t* visible = VisibleOf(lanes, place);
  for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
    const hn::Mask<D> uniform = MaskOf(d, lanes.uniform, w);
    for (int64_t j = 0; j < place.keys; ++j) {
      T* at = tile + j * place.panel + w;
      const hn::Vec<D> seen = hn::IfThenElse(MaskOf(d, visible[j], w), hn::Load(d, at), hn::Set(d, hidden));
      hn::Store(hn::IfThenZeroElse(uniform, seen), d, at);
    }
  }
}

// row[j] = `hidden` where lane w may not look at key j, 0 where it looks at all alike.
template <class T>
void MaskRow(const attention::Lanes<T>& lanes, const TilePlace& place, int64_t w, T hidden, T* row) {
  if (lanes.uniform >> w & 1) {
    std::fill_n(row, place.keys, T{0});
    return;
  }
  const uint64_t* visible = VisibleOf(lanes, place);
  for (int64_t j = 0; j < place.keys; ++j) row[j] = visible[j] >> w & 1 ? row[j] : hidden;
}

// Whether a product may take all pairs of a strip: a hidden one has a factor of 0, which makes 0 of numbers alone. finite():
// whether the other factors are free of NaN and infinity. If not, hidden pairs are left out, never multiplied.
template <class Finite>
HWY_INLINE bool TakesAllPairs(attention::Seen seen, const Finite& finite) {
  return seen == attention::Seen::kAll || finite();
}

// c[r, w] += sum_j rows[j, r] * tile[j, w] over the visible pairs only, in the order of Product or PairProduct.
template <class D, class T>
void VisibleProduct(D d, const attention::Lanes<T>& lanes, const TilePlace& place, const HeadRows<const T>& rows, int64_t count,
                    const T* tile, T* c, Steps steps = Steps::kSingle) {
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const uint64_t* words = VisibleOf(lanes, place);
  for (int64_t x = 0; x < place.keys; ++x) {
    const int64_t j = StepAt(steps, x, place.keys);
    for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
      const hn::Mask<D> visible = MaskOf(d, words[j], w);
      const hn::Vec<D> factor = hn::Load(d, tile + j * place.panel + w);
      for (int64_t r = 0; r < count; ++r) {
        T* at = c + r * place.panel + w;
        const hn::Vec<D> old = hn::Load(d, at);
        hn::Store(hn::IfThenElse(visible, hn::MulAdd(hn::Set(d, rows.Row(j)[r]), factor, old), old), d, at);
      }
    }
  }
}

// The rows of a tile [tile, panel] that belong to a strip.
template <class T>
T* RowsOfStrip(T* tile, const TilePlace& place) {
  return tile + (place.key - place.tile_key) * place.panel;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
