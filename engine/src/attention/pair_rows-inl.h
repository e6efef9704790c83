// The rows of a panel of bfloat16 as operands of pair products (simd/pair_product.h). In pairs no element is converted.
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
#include "attention/row_cache-inl.h"
#include "hwy/highway.h"
#include "simd/pair_product-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The caller's rows of head x of a panel.
template <class T>
BrainRows BrainRowsOf(const PanelSource<T>& source, const Panel& panel, int64_t x) {
  BrainRows rows = BrainRowsOf(QueriesOf(source.plan, source.operand, panel.b, panel.head + x));
  rows.data = rows.At(panel.begin, 0);
  return rows;
}

// Elements 2p and 2p + 1 of a row; the one behind an odd number is 0.
inline uint32_t ElementPair(const BrainRows& rows, int64_t i, int64_t p, int64_t elements) {
  const uint32_t upper = 2 * p + 1 < elements ? *rows.At(i, 2 * p + 1) : 0U;
  return *rows.At(i, 2 * p) | upper << 16;
}

// columns[p, w] = elements 2p and 2p + 1 of the row of lane w, or in floats columns[c, w] = element c; rows that are left out
// are 0.
template <class T>
void PackPairColumns(const Panel& panel, const attention::Lanes<T>& lanes, PanelSource<T> source, uint32_t* columns) {
  if (!InPairs()) {
    source.factor = 1;
    return PackColumns(panel, lanes, source, reinterpret_cast<T*>(columns));
  }
  const int64_t pairs = attention::DivideUp(source.elements, 2), whole = source.elements / 2;
  for (int64_t x = 0; x < panel.heads; ++x) {
    const BrainRows rows = BrainRowsOf(source, panel, x);
    const int64_t first = x * panel.count;
    const uint64_t left = source.Left(lanes) >> first;
    const bool all = (left & attention::LowBits(panel.count)) == 0;
    int64_t packed = 0;
    if (all && rows.element_stride == 1 && rows.row_stride % 2 == 0) {
      Transpose(reinterpret_cast<const uint32_t*>(rows.data), rows.row_stride / 2, panel.count, whole, 1U, columns + first,
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

// packed[w / 2, c] = element c of the rows of lanes w and w + 1, as rows of `padded` pairs, or in floats packed[w, c] = element
// c of the row of lane w; padding and rows that are left out are 0.
template <class T>
void PackPairRows(const Panel& panel, const attention::Lanes<T>& lanes, PanelSource<T> source, int64_t padded,
                  uint32_t* packed) {
  if (!InPairs()) {
    source.factor = 1;
    return PackRows(panel, lanes, source, padded, panel.width, reinterpret_cast<T*>(packed));
  }
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

// The rows of PackPairRows from a lane on, which is even.
inline simd::PairVectors RowsFrom(const uint32_t* packed, int64_t lane, int64_t padded) {
  return {packed + (InPairs() ? lane / 2 : lane) * padded, padded};
}

// What RoundTile made of the tile of a place, with steps along its keys, and along its lanes.
inline simd::PairVectors AlongTileKeys(const TilePlace& place, const float* tile, const uint32_t* pairs) {
  if (InPairs()) return {pairs + place.lane_begin, place.panel};
  return {tile + place.lane_begin, place.panel};
}
inline simd::PairScalars AlongTileLanes(const TilePlace& place, const float* tile, const uint16_t* rows) {
  if (InPairs()) return {rows + place.lane_begin, place.panel, 2};
  return {tile + place.lane_begin, place.panel, 1};
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
