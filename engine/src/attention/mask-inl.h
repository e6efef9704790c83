// Which lanes may look at which keys of a tile: one word of bits a key. Tiles where every lane sees every key never come here.
#if defined(HEED_ATTENTION_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_MASK_INL_H_
#undef HEED_ATTENTION_MASK_INL_H_
#else
#define HEED_ATTENTION_MASK_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The ranges of all lanes relative to a tile; those that see none of it end where they begin.
template <class T>
void PlaceRanges(attention::Lanes<T>& lanes, const TilePlace& tile) {
  for (int64_t w = 0; w < tile.panel; ++w) {
    const attention::KeyRange& keys = lanes.rows[w].keys;
    lanes.first[w] = static_cast<T>(std::clamp<int64_t>(keys.begin - tile.key, 0, tile.keys));
    lanes.last[w] = static_cast<T>(std::clamp<int64_t>(keys.end - tile.key, 0, tile.keys));
  }
}

// Narrows a strip of a boundary tile to the lanes that see any of its keys, in whole quanta. Under causality its keys are then
// paired with no more queries than can see them.
template <class D, class T>
void NarrowLanes(D d, const attention::Lanes<T>& lanes, TilePlace& place) {
  const int64_t step = static_cast<int64_t>(hn::Lanes(d)), offset = place.key - place.tile_key;
  const hn::Vec<D> begin = hn::Set(d, static_cast<T>(offset)), end = hn::Set(d, static_cast<T>(offset + place.keys));
  place.lane_begin = place.panel;
  place.lane_end = 0;
  for (int64_t w = 0; w < place.panel; w += step) {
    const hn::Vec<D> first = hn::Load(d, lanes.first + w), last = hn::Load(d, lanes.last + w);
    if (hn::AllFalse(d, hn::And(hn::And(hn::Lt(first, end), hn::Gt(last, begin)), hn::Lt(first, last)))) continue;
    place.lane_begin = std::min(place.lane_begin, w / attention::kLaneQuantum * attention::kLaneQuantum);
    place.lane_end = attention::RoundUp(w + step, attention::kLaneQuantum);
  }
  place.lane_begin = std::min(place.lane_begin, place.lane_end);
}

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

// Bit j of the result is row[j * stride]; up to 64 of them.
inline uint64_t BitsOfRow(const bool* row, int64_t stride, int64_t count) {
  if (stride == 0) return *row ? attention::LowBits(count) : uint64_t{0};
  uint64_t bits = 0;
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<uint8_t, 64> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; stride == 1 && j + lanes <= count; j += lanes) {
    const auto bytes = hn::LoadU(d, reinterpret_cast<const uint8_t*>(row + j));
    uint64_t some = 0;
    hn::StoreMaskBits(d, hn::Ne(bytes, hn::Zero(d)), reinterpret_cast<uint8_t*>(&some));
    bits |= some << j;
  }
#endif
  for (; j < count; ++j) bits |= uint64_t{row[j * stride]} << j;
  return bits;
}

// Clears bit `lane` of the words of the keys, up to 64, that are not among `seen`.
inline void HideFromLane(int64_t lane, uint64_t seen, int64_t keys, uint64_t* visible) {
  const hn::CappedTag<uint64_t, 8> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const uint64_t bit = uint64_t{1} << lane;
  int64_t j = 0;
  for (; j + step <= keys; j += step) {
    const auto words = hn::LoadU(d, visible + j);
    hn::StoreU(hn::IfThenElse(MaskOf(d, seen, j), words, hn::AndNot(hn::Set(d, bit), words)), d, visible + j);
  }
  for (; j < keys; ++j)
    if ((seen >> j & 1) == 0) visible[j] &= ~bit;
}

// Rows become columns of a square of bits (Warren, "Hacker's Delight", section 7-3).
inline void TransposeBits(uint64_t (&bits)[64]) {
  uint64_t low = 0x00000000FFFFFFFF;
  for (int half = 32; half != 0; half /= 2, low ^= low << half)
    for (int block = 0; block < 64; block += 2 * half)
      for (int x = block; x < block + half; ++x) {
        const uint64_t change = (bits[x] >> half ^ bits[x + half]) & low;
        bits[x] ^= change << half;
        bits[x + half] ^= change;
      }
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

// The visible words of a narrowed strip, from the ranges of its lanes; ranks: those of the batch row's keys, or null.
template <class D, class T>
void SeeRanges(D d, attention::Lanes<T>& lanes, const TilePlace& place, const int32_t* ranks) {
  const hn::RebindToSigned<D> di;
  using Rank = hn::TFromD<decltype(di)>;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < place.keys; ++j) {
    const hn::Vec<D> key = hn::Set(d, static_cast<T>(place.key - place.tile_key + j));
    uint64_t visible = 0;
    for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
      hn::Mask<D> seen = hn::And(hn::Ge(key, hn::Load(d, lanes.first + w)), hn::Lt(key, hn::Load(d, lanes.last + w)));
      if (ranks) {
        const auto rank = hn::Set(di, Rank{ranks[place.key + j]});
        const auto from = hn::Load(di, lanes.rank_first + w), to = hn::Load(di, lanes.rank_last + w);
        seen = hn::And(seen, hn::RebindMask(d, hn::AndNot(hn::Gt(from, rank), hn::Gt(to, rank))));
      }
      visible |= BitsOf(d, seen, w);
    }
    VisibleOf(lanes, place)[j] = visible | lanes.uniform;
  }
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
// The same where lane w looks at a range of keys, and at all of it.
template <class T>
void MaskRowOutside(const attention::Lanes<T>& lanes, const TilePlace& place, int64_t w, T hidden, T* row) {
  if (lanes.uniform >> w & 1) {
    std::fill_n(row, place.keys, T{0});
    return;
  }
  const attention::KeyRange keys = lanes.hidden >> w & 1 ? attention::KeyRange{} : lanes.rows[w].keys;
  const int64_t begin = std::clamp<int64_t>(keys.begin - place.key, 0, place.keys);
  const int64_t end = std::clamp<int64_t>(keys.end - place.key, begin, place.keys);
  std::fill(row, row + begin, hidden);
  std::fill(row + end, row + place.keys, hidden);
}

// The order in which a product takes its steps: one after the other, or pair by pair, the odd one first.
enum class Steps { kSingle, kPairs };
inline int64_t StepAt(Steps steps, int64_t x, int64_t count) { return steps == Steps::kPairs && (x | 1) < count ? x ^ 1 : x; }

// c[r, w] += sum_j rows[j, r] * tile[j, w] over the visible pairs only, in the order of Product or PairProduct. For tiles whose
// rows hold NaN or infinity: a masked key is skipped, never multiplied by zero.
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

// Keys of a boundary tile are visited in strips of this many: with tiles of 64 x 64 the diagonal of a causal panel then costs
// 5/8 of a full tile instead of all of it.
constexpr int64_t kStripKeys = 16;
constexpr int64_t kMaxStrips = std::max(simd::kTileKeys, simd::kFewTileKeys) / kStripKeys;
// Strips share calls of the random generator with nobody, and splits begin with a tile.
static_assert(simd::kTileKeys % kStripKeys == 0 && kStripKeys % attention::kDropoutKeys == 0);
static_assert(simd::kFewTileKeys % kStripKeys == 0);
static_assert(simd::kMinSplit % simd::kTileKeys == 0 && simd::kMinSplit % simd::kFewTileKeys == 0);

// A tile as one strip, or a boundary tile as its strips from the first that any lane sees to the last. Those between them that
// no lane sees are there as well, without lanes: the softmax takes all rows from the first to the last.
struct Strips {
  std::array<TilePlace, kMaxStrips> places;
  std::size_t count = 0;
  bool masked;  // the tile crosses the edge of some query's range

  std::span<const TilePlace> all() const { return {places.data(), count}; }
  // The lanes of any of them. The first and the last have some.
  int64_t lane_begin() const {
    int64_t begin = places[0].lane_begin;
    for (const TilePlace& place : all()) begin = std::min(begin, place.lane_begin);
    return begin;
  }
  int64_t lane_end() const {
    int64_t end = places[0].lane_end;
    for (const TilePlace& place : all()) end = std::max(end, place.lane_end);
    return end;
  }
};

// The rows of a tile [tile, panel] that belong to a strip.
template <class T>
T* RowsOfStrip(T* tile, const TilePlace& place) {
  return tile + (place.key - place.tile_key) * place.panel;
}

// How a boundary tile is cut: in strips, or as the piece of it that any lane reaches.
enum class Boundary { kStrips, kPiece };

// The tile of keys key .. end - 1: whole where every lane sees every key, strips of a boundary tile with the lanes that see any
// of theirs, maybe none.
template <class T>
HWY_INLINE void CutTile(const Panel& panel, int64_t key, int64_t end, Boundary boundary, attention::Lanes<T>& lanes,
                        Strips& strips) {
  TilePlace place{.b = panel.b,
                  .head = panel.head,
                  .one_head = panel.heads == 1,
                  .query = panel.begin,
                  .key = key,
                  .keys = end - key,
                  .tile_key = key,
                  .panel = panel.width,
                  .lane_begin = 0,
                  .lane_end = panel.width,
                  .queries = lanes.query,
                  .heads = lanes.head,
                  .used = panel.used()};
  strips.count = 0;
  strips.masked = panel.range.NeedsMask(key, end);
  if (!strips.masked) {
    strips.places[strips.count++] = place;
    return;
  }
  PlaceRanges(lanes, place);
  if (boundary == Boundary::kPiece) {
    place.key = std::max(key, panel.range.reach.begin / kStripKeys * kStripKeys);
    place.keys = std::min(end, panel.range.reach.end) - place.key;
    if (place.keys > 0) strips.places[strips.count++] = place;
    return;
  }
  std::size_t cut = 0;
  for (; place.key < end; place.key += kStripKeys) {
    place.keys = std::min(kStripKeys, end - place.key);
    NarrowLanes(hn::ScalableTag<T>(), lanes, place);
    if (place.lanes() == 0) {
      if (cut == 0) continue;
      place.lane_begin = place.lane_end = strips.places[0].lane_begin;
    }
    strips.places[cut++] = place;
    if (place.lanes() > 0) strips.count = cut;
  }
}

// Calls visit(strips) for the tiles of a panel that lie in `keys`, aligned to multiples of `tile`.
template <class T, class Visit>
HWY_INLINE void ForEachTile(const Panel& panel, int64_t tile, const attention::KeyRange& keys, attention::Lanes<T>& lanes,
                            const Visit& visit, Boundary boundary = Boundary::kStrips) {
  Strips strips;
  for (int64_t key = keys.begin / tile * tile; key < keys.end; key += tile) {
    CutTile(panel, key, std::min(key + tile, keys.end), boundary, lanes, strips);
    if (strips.count > 0) visit(strips);
  }
}

// The same from the last tile to the first, while visit(strips) says so.
template <class T, class Visit>
HWY_INLINE void ForEachTileBackwards(const Panel& panel, int64_t tile, const attention::KeyRange& keys,
                                     attention::Lanes<T>& lanes, const Visit& visit) {
  Strips strips;
  for (int64_t end = keys.end; end > keys.begin / tile * tile;) {
    const int64_t key = (end - 1) / tile * tile;
    CutTile(panel, key, end, Boundary::kStrips, lanes, strips);
    if (strips.count > 0 && !visit(strips)) return;
    end = key;
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
