// Masks of boundary tiles. Interior tiles never come here.
#if defined(HEED_ATTENTION_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_MASK_INL_H_
#undef HEED_ATTENTION_MASK_INL_H_
#else
#define HEED_ATTENTION_MASK_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "attention/panel-inl.h"
#include "attention/score_hook-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Narrows a boundary tile to the lanes that see any of its keys, in whole quanta, and places their ranges relative to it.
// Under causality the keys of a strip are then paired with no more queries than can see them.
template <class T>
void NarrowLanes(attention::LaneScratch<T>& lanes, TilePlace& place) {
  int64_t first = place.panel, last = 0;
  for (int64_t w = 0; w < place.panel; ++w) {
    const attention::KeyRange& keys = lanes.keys[w].keys;
    if (keys.begin >= place.key + place.keys || keys.end <= place.key || keys.empty()) continue;
    first = std::min(first, w);
    last = w + 1;
  }
  place.lane_begin = std::min(first, last) / attention::kLaneQuantum * attention::kLaneQuantum;
  place.lane_end = attention::RoundUp(last, attention::kLaneQuantum);
  for (int64_t w = place.lane_begin; w < place.lane_end; ++w) {
    const attention::QueryRow& row = lanes.keys[w];
    lanes.first[w] = static_cast<T>(std::clamp<int64_t>(row.keys.begin - place.key, 0, place.keys));
    lanes.last[w] = static_cast<T>(std::clamp<int64_t>(row.keys.end - place.key, 0, place.keys));
    lanes.uniform[w] = static_cast<T>(row.uniform ? 1 : 0);
  }
}

// The lanes from `w` that may look at key j of the placed tile.
template <class D, class T>
HWY_INLINE hn::Mask<D> Visible(D d, const attention::LaneScratch<T>& lanes, int64_t w, int64_t j) {
  const hn::Vec<D> key = hn::Set(d, static_cast<T>(j));
  return hn::And(hn::Ge(key, hn::Load(d, lanes.first + w)), hn::Lt(key, hn::Load(d, lanes.last + w)));
}

// tile[j, w] = `hidden` where lane w may not look at key j, and columns[w] in uniform lanes (null: 0).
template <class D, class T>
void MaskTile(D d, const attention::LaneScratch<T>& lanes, const TilePlace& place, T hidden, const T* columns, T* tile) {
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
    const hn::Mask<D> uniform = hn::Ne(hn::Load(d, lanes.uniform + w), hn::Zero(d));
    const hn::Vec<D> column = columns ? hn::Load(d, columns + w) : hn::Zero(d);
    for (int64_t j = 0; j < place.keys; ++j) {
      T* at = tile + j * place.panel + w;
      const hn::Vec<D> seen = hn::IfThenElse(Visible(d, lanes, w, j), hn::Load(d, at), hn::Set(d, hidden));
      hn::Store(hn::IfThenElse(uniform, column, seen), d, at);
    }
  }
}

// c[r, w] += sum_j rows[j, r] * tile[j, w] over the visible pairs only, in the order of Product. For tiles whose rows hold NaN
// or infinity: a masked key is skipped, never multiplied by zero.
template <class D, class T>
void VisibleProduct(D d, const attention::LaneScratch<T>& lanes, const TilePlace& place, const HeadRows<const T>& rows,
                    int64_t count, const T* tile, T* c) {
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < place.keys; ++j)
    for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
      const hn::Mask<D> visible = Visible(d, lanes, w, j);
      const hn::Vec<D> factor = hn::Load(d, tile + j * place.panel + w);
      for (int64_t r = 0; r < count; ++r) {
        T* at = c + r * place.panel + w;
        const hn::Vec<D> old = hn::Load(d, at);
        hn::Store(hn::IfThenElse(visible, hn::MulAdd(hn::Set(d, rows.Row(j)[r]), factor, old), old), d, at);
      }
    }
}

// Keys of a boundary tile are visited in strips of this many: with tiles of 64 x 64 the diagonal of a causal panel then costs
// 5/8 of a full tile instead of all of it.
constexpr int64_t kStripKeys = 16;

// Calls visit(place, masked) for the tiles of a panel that lie in `keys`, aligned to multiples of `tile`: whole tiles where
// every lane sees every key, strips of boundary tiles with the lanes that see any of theirs.
template <class T, class Visit>
HWY_INLINE void ForEachTile(const Panel& panel, int64_t tile, const attention::KeyRange& keys, attention::LaneScratch<T>& lanes,
                            const Visit& visit) {
  for (int64_t key = keys.begin / tile * tile; key < keys.end; key += tile) {
    const int64_t end = std::min(key + tile, keys.end);
    TilePlace place{panel.b, panel.h, panel.begin, key, end - key, panel.width, 0, panel.width};
    if (!panel.range.NeedsMask(key, end)) {
      visit(place, false);
      continue;
    }
    for (; place.key < end; place.key += kStripKeys) {
      place.keys = std::min(kStripKeys, end - place.key);
      NarrowLanes(lanes, place);
      if (place.lanes() > 0) visit(place, true);
    }
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
