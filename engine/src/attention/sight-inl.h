// What the lanes of a panel see of its tiles: made once for every tile, from ranges, ranks, lengths, masks and what schemes
// hide, and read by whoever makes scores, weights, statistics or gradients of it.
#if defined(HEED_ATTENTION_SIGHT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_SIGHT_INL_H_
#undef HEED_ATTENTION_SIGHT_INL_H_
#else
#define HEED_ATTENTION_SIGHT_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include "attention/mask-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "hwy/highway.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using attention::Seen;

// Keys of a boundary tile are visited in strips of this many: with tiles of 64 x 64 the diagonal of a causal panel then costs
// 5/8 of a full tile instead of all of it.
constexpr int64_t kStripKeys = 16;
constexpr int64_t kMaxStrips = std::max(simd::kTileKeys, simd::kFewTileKeys) / kStripKeys;
// Strips share calls of the random generator with nobody, and splits begin with a tile.
static_assert(simd::kTileKeys % kStripKeys == 0 && kStripKeys % attention::kDropoutKeys == 0);
static_assert(simd::kFewTileKeys % kStripKeys == 0);
static_assert(simd::kMinSplit % simd::kTileKeys == 0 && simd::kMinSplit % simd::kFewTileKeys == 0);

// Neighbouring keys of a tile, the lanes that see any of them, in whole quanta, and how much these see of them. Where that is
// some, the words of VisibleOf tell which pairs; lanes outside see none.
struct StripSight {
  TilePlace place;
  Seen seen;
};

// A tile, whole or in strips from the first that any lane sees to the last. A strip begins where the one before it ends, so no
// row between the first and the last is left out: those that no lane sees are there too, without lanes.
class TileSight {
 public:
  // masked: whether the tile crosses the edge of what some query sees.
  TileSight(const TilePlace& tile, bool masked) : tile_(tile), next_(tile.key), masked_(masked) {}

  // The next `keys` keys of the tile, for all lanes.
  TilePlace Next(int64_t keys) const {
    TilePlace place = tile_;
    place.key = next_;
    place.keys = keys;
    return place;
  }
  // Tells of those keys what `place` has lanes for.
  void Append(const TilePlace& place, Seen seen) {
    next_ += place.keys;
    if (place.lanes() == 0 && count_ == 0) return;
    StripSight& strip = strips_[told_++];
    strip = {place, seen};
    strip.place.key = next_ - place.keys;
    if (place.lanes() == 0) {
      strip.place.lane_begin = strip.place.lane_end = strips_[0].place.lane_begin;
      return;
    }
    count_ = told_;
    any_ |= seen != Seen::kNone;
  }

  std::span<const StripSight> strips() const { return {strips_.data(), count_}; }
  bool masked() const { return masked_; }
  // Whether any pair is seen.
  bool any() const { return any_; }
  // The lanes of any strip. The first and the last have some.
  int64_t lane_begin() const {
    int64_t begin = strips_[0].place.lane_begin;
    for (const StripSight& strip : strips()) begin = std::min(begin, strip.place.lane_begin);
    return begin;
  }
  int64_t lane_end() const {
    int64_t end = strips_[0].place.lane_end;
    for (const StripSight& strip : strips()) end = std::max(end, strip.place.lane_end);
    return end;
  }

 private:
  TilePlace tile_;
  std::array<StripSight, kMaxStrips> strips_;
  std::size_t count_ = 0, told_ = 0;  // strips, and those behind them that no lane sees
  int64_t next_;
  bool masked_, any_ = false;
};

// How a boundary tile is cut: in strips, or as one, of what any lane reaches.
enum class Boundary { kStrips, kPiece };

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

// The visible words of a strip, from the ranges of its lanes; ranks: those of the batch row's keys, or null.
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

// Who tells what the lanes of a panel see.
template <class T>
class Sight {
 public:
  Sight(const attention::Problem& problem, attention::Lanes<T>& lanes, std::span<PositionHook<T>* const> hooks)
      : problem_(problem), lanes_(lanes), hooks_(hooks) {
    for (const PositionHook<T>* hook : hooks) hides_ |= hook->hides();
  }

  // A panel of batch row b, whose lanes are there.
  void Begin(int64_t b) { ranks_ = problem_.plan.order().KeyRanks(b); }

  // Calls visit(tile) for the tiles of a panel that lie in `keys`, aligned to multiples of tile_keys, as far as any pair of
  // them is seen.
  template <class Visit>
  HWY_INLINE void ForEachTile(const Panel& panel, int64_t tile_keys, const attention::KeyRange& keys, const Visit& visit,
                              Boundary boundary = Boundary::kStrips) {
    for (int64_t key = keys.begin / tile_keys * tile_keys; key < keys.end; key += tile_keys) {
      const TileSight tile = Of(panel, key, std::min(key + tile_keys, keys.end), boundary);
      if (tile.any()) visit(tile);
    }
  }
  // The same from the last tile to the first, while visit(tile) says so.
  template <class Visit>
  HWY_INLINE void ForEachTileBackwards(const Panel& panel, int64_t tile_keys, const attention::KeyRange& keys,
                                       const Visit& visit) {
    for (int64_t end = keys.end; end > keys.begin / tile_keys * tile_keys;) {
      const int64_t key = (end - 1) / tile_keys * tile_keys;
      const TileSight tile = Of(panel, key, end, Boundary::kStrips);
      if (tile.any() && !visit(tile)) return;
      end = key;
    }
  }

  // What is seen of a place, pair by pair, where a tile of one strip does not tell yet.
  Seen SeeAgain(const TilePlace& place, bool masked) { return See(place, masked); }

  // row[j] = -inf where lane w may not look, 0 where it looks at all alike, in the strip of a tile of which some is seen, as
  // far as no scheme hides it.
  void HideInRow(const TilePlace& place, int64_t w, T* row) const {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    if (!in_ranges()) return MaskRow(lanes_, place, w, kHidden, row);
    MaskRowOutside(lanes_, place, w, kHidden, row);
  }
  // Whether schemes hide pairs.
  bool hides() const { return hides_; }

 private:
  // The tile of keys key .. end - 1: whole where every lane sees every key, else strips of it with the lanes that see any of
  // theirs, maybe none.
  TileSight Of(const Panel& panel, int64_t key, int64_t end, Boundary boundary) {
    const TilePlace place{.b = panel.b,
                          .head = panel.head,
                          .one_head = panel.heads == 1,
                          .query = panel.begin,
                          .key = key,
                          .keys = end - key,
                          .tile_key = key,
                          .panel = panel.width,
                          .lane_begin = 0,
                          .lane_end = panel.width,
                          .queries = lanes_.query,
                          .heads = lanes_.head,
                          .used = panel.used()};
    const bool masked = panel.range.NeedsMask(key, end);
    if (masked) PlaceRanges(lanes_, place);
    return boundary == Boundary::kPiece ? PieceOf(panel, place, masked) : StripsOf(place, masked);
  }

  TileSight StripsOf(const TilePlace& place, bool masked) {
    TileSight tile(place, masked);
    const int64_t end = place.key + place.keys, strip = masked ? kStripKeys : place.keys;
    for (int64_t at = place.key; at < end; at += strip) {
      TilePlace next = tile.Next(std::min(strip, end - at));
      if (masked) NarrowLanes(d_, lanes_, next);
      tile.Append(next, See(next, masked));
    }
    return tile;
  }

  // What any lane reaches of a tile, as one strip. What schemes hide of it is not told.
  TileSight PieceOf(const Panel& panel, TilePlace place, bool masked) {
    if (masked) {
      const int64_t end = place.key + place.keys;
      place.key = std::max(place.key, panel.range.reach.begin / kStripKeys * kStripKeys);
      place.keys = std::min(end, panel.range.reach.end) - place.key;
    }
    TileSight tile(place, masked);
    if (place.keys <= 0 || (hides_ && Judge(place) == Seen::kNone)) return tile;
    tile.Append(place, masked && in_ranges() ? Seen::kSome : SeePairs(place, masked, false));
    return tile;
  }

  // Whether what a query sees is a range of keys, so that nobody needs to know of each key, as far as schemes hide none.
  bool in_ranges() const { return !ranks_ && !problem_.attention.mask.present(); }

  // Fills lanes.visible unless everything is seen. masked: the tile crosses the edge of some query's range.
  Seen See(const TilePlace& place, bool masked) {
    if (place.lanes() == 0) return Seen::kNone;
    const Seen judged = hides_ ? Judge(place) : Seen::kAll;
    return judged == Seen::kNone ? judged : SeePairs(place, masked, judged == Seen::kSome);
  }

  // Fills lanes.visible unless everything is seen. hides: hooks are asked for what they hide.
  Seen SeePairs(const TilePlace& place, bool masked, bool hides) {
    const Attention& attention = problem_.attention;
    const bool dense = attention.mask.present() || hides;
    // Lanes without a query meet what all others meet where these see everything.
    const uint64_t all = LaneBits(place), hidden = lanes_.hidden & all, spare = hidden & ~attention::LowBits(place.used);
    if (!masked && !dense && hidden == spare) return Seen::kAll;
    uint64_t* visible = VisibleOf(lanes_, place);
    if (masked) {
      SeeRanges(d_, lanes_, place, ranks_);
    } else {
      std::fill_n(visible, place.keys, all);
    }
    if (attention.mask.present()) HideByMask(place);
    for (PositionHook<T>* hook : hooks_)
      if (hides && hook->hides()) hook->Hide(place, visible);
    uint64_t any = 0, every = all;
    for (int64_t j = 0; j < place.keys; ++j) {
      if (dense) visible[j] |= lanes_.uniform & all;
      visible[j] &= ~hidden;
      any |= visible[j];
      every &= visible[j] | spare;
    }
    if (any == 0) return Seen::kNone;
    return every == all && lanes_.uniform == 0 ? Seen::kAll : Seen::kSome;
  }

  Seen Judge(const TilePlace& place) const {
    const int64_t last = place.used_end() - 1;
    // Queries that look at all keys alike are not asked for what they may see.
    const bool uniform = (lanes_.uniform & LaneBits(place)) != 0;
    if (!problem_.plan.judges() || uniform || last < place.lane_begin) return Seen::kSome;
    if (place.one_head) {
      return problem_.plan.Judge({.b = place.b,
                                  .heads = {place.head, place.head + 1},
                                  .queries = {place.queries[place.lane_begin], place.queries[last] + 1},
                                  .keys = {place.key, place.key + place.keys}});
    }
    // Heads side by side: each has all queries of the panel.
    return problem_.plan.Judge({.b = place.b,
                                .heads = {place.head, place.heads[place.used - 1] + 1},
                                .queries = {place.query, place.queries[place.used - 1] + 1},
                                .keys = {place.key, place.key + place.keys}});
  }

  void HideByMask(const TilePlace& place) {
    constexpr int64_t kBlock = 64;
    const bool by_lane = place.used_end() - place.lane_begin <= simd::kFewMaskedLanes;
    for (int64_t first = 0; first < place.keys; first += kBlock) {
      const int64_t count = std::min(kBlock, place.keys - first);
      uint64_t* visible = VisibleOf(lanes_, place) + first;
      // Of each lane the keys that it sees, then of each key the lanes.
      uint64_t seen[kBlock];
      if (!by_lane) std::fill(std::begin(seen), std::end(seen), ~uint64_t{0});
      uint64_t every = ~uint64_t{0};
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
        int64_t stride = 0;
        const bool* row = DenseRow(problem_.attention.mask.values, place, w, stride);
        seen[w] = BitsOfRow(row + first * stride, stride, count) | ~attention::LowBits(count);
        if (by_lane && seen[w] != ~uint64_t{0}) HideFromLane(w, seen[w], count, visible);
        every &= seen[w];
      }
      if (by_lane || every == ~uint64_t{0}) continue;
      TransposeBits(seen);
      for (int64_t j = 0; j < count; ++j) visible[j] &= seen[j];
    }
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::Problem& problem_;
  attention::Lanes<T>& lanes_;
  std::span<PositionHook<T>* const> hooks_;
  bool hides_ = false;
  const int32_t* ranks_ = nullptr;  // of the batch row's keys, where they have some
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
