// Products of a few queries with many keys and values, as in decoding. The elements of a key stand in lanes: each row is read
// once, as it lies in memory and in the caller's type, and no lane is idle. What comes between the two products works on the
// usual tile [keys, panel] of weights.
//
// Each score is summed in an order that depends on the width alone, each output element key after key, as in simd/tile-inl.h:
// its bits do not show how a tile was cut or how many queries stand beside it.
#if defined(HEED_ATTENTION_FEW_QUERIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_FEW_QUERIES_INL_H_
#undef HEED_ATTENTION_FEW_QUERIES_INL_H_
#else
#define HEED_ATTENTION_FEW_QUERIES_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "attention/rows-inl.h"
#include "hwy/highway.h"
#include "simd/ahead.h"
#include "simd/capabilities-inl.h"
#include "simd/tile-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows without gaps, `stride` elements apart, read as vectors of the type of computation T.
template <class T, core::Element kElement>
class RowReader {
 public:
  explicit RowReader(const StoredRows<const std::byte>& rows) : data_(rows.data), stride_(rows.row_stride * kBytes) {}

  const std::byte* Row(int64_t j) const { return data_ + j * stride_; }
  // Asks for elements c .. c + count - 1 of a row behind row j, whatever lies there.
  HWY_INLINE void AskBehind(int64_t j, int64_t c, int64_t count) const {
    const std::byte* at = Row(j + simd::kRowsAhead) + c * kBytes;
    for (int64_t byte = 0; byte < count * kBytes; byte += simd::kLineBytes) __builtin_prefetch(at + byte, 0, kInSecondLevel);
  }

  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* row, int64_t c) {
    const std::byte* at = row + c * kBytes;
    if constexpr (kElement == core::ElementOf<T>()) {
      return hn::LoadU(d, reinterpret_cast<const T*>(at));
#if HWY_TARGET != HWY_SCALAR
    } else if constexpr (hn::MaxLanes(D()) > 1) {
      return LoadWide<kElement>(d, at);
#endif
    } else {
      return hn::Set(d, LoadNarrow(at, kElement));
    }
  }

 private:
  static constexpr int64_t kBytes = core::BytesOf(kElement);
  static constexpr int kInSecondLevel = 2;
  const std::byte* data_;
  int64_t stride_;  // in bytes
};

#if HWY_TARGET != HWY_SCALAR
// The sum of a vector's blocks of 16 bytes.
template <class D, class V>
HWY_INLINE auto SumBlocks(D d, V v) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return SumBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}
#endif

// The sums over the lanes of four vectors, each taken in the same order.
template <class D, class V, class T>
HWY_INLINE void SumLanes(D d, V a, V b, V c, V e, T* sums) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    sums[0] = hn::GetLane(a), sums[1] = hn::GetLane(b), sums[2] = hn::GetLane(c), sums[3] = hn::GetLane(e);
#if HWY_TARGET != HWY_SCALAR
  } else {
    const V ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
    const V ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
    const hn::CappedTag<T, 16 / sizeof(T)> block;
    if constexpr (sizeof(T) == sizeof(double)) {
      hn::StoreU(SumBlocks(d, ab), block, sums);
      hn::StoreU(SumBlocks(d, ce), block, sums + 2);
    } else {
      const hn::RepartitionToWide<hn::RebindToUnsigned<D>> pairs;
      const auto lower = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
      const auto upper = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
      hn::StoreU(SumBlocks(d, hn::Add(hn::BitCast(d, lower), hn::BitCast(d, upper))), block, sums);
    }
#endif
  }
}

// tile[j, w] = start + queries[w] . keys[j] for kQueries lanes; a fresh tile is 0 in the lanes behind them. queries: rows of
// query_stride elements, aligned.
template <int kQueries, class T, core::Element kElement>
HWY_NOINLINE void ScoresOfFew(const RowReader<T, kElement>& keys, int64_t count, const T* queries, int64_t query_stride,
                              int64_t width, Target<T> tile) {
  using Reader = RowReader<T, kElement>;
  // Accumulators enough for the latency of an FMA, few enough for the registers, and a multiple of four.
  constexpr int kRows = kQueries == 1 ? 8 : kQueries == 4 && !HEED_SIMD_REGISTERS_32 ? 2 : 4;
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < count; j += kRows) {
    const std::byte* rows[kRows];
    V acc[kRows * kQueries];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) rows[r] = keys.Row(std::min(j + r, count - 1));
#pragma GCC unroll 16
    for (V& sum : acc) sum = hn::Zero(d);
    int64_t c = 0;
    for (; c + lanes <= width; c += lanes) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const V key = Reader::Load(d, rows[r], c);
#pragma GCC unroll 4
        for (int x = 0; x < kQueries; ++x) {
          V& sum = acc[r * kQueries + x];
          sum = hn::MulAdd(hn::Load(d, queries + x * query_stride + c), key, sum);
        }
      }
    }
    alignas(64) T sums[kRows * kQueries];
#pragma GCC unroll 4
    for (int x = 0; x < kRows * kQueries; x += 4) SumLanes(d, acc[x], acc[x + 1], acc[x + 2], acc[x + 3], sums + x);
    for (; c < width; ++c)
      for (int r = 0; r < kRows; ++r)
        for (int x = 0; x < kQueries; ++x) {
          T& sum = sums[r * kQueries + x];
          sum = hn::GetLane(
              hn::MulAdd(hn::Set(one, queries[x * query_stride + c]), Reader::Load(one, rows[r], c), hn::Set(one, sum)));
        }
    for (int r = 0; r < kRows && j + r < count; ++r) {
      T* row = tile.data + (j + r) * tile.stride;
      if (!tile.accumulates)
        for (int64_t w = 0; w < attention::kLaneQuantum; w += lanes) hn::Store(hn::Zero(d), d, row + w);
      for (int x = 0; x < kQueries; ++x) row[x] += sums[r * kQueries + x];
    }
  }
}

// Columns c .. c + kVectors * lanes - 1 of: output[c, w] += sum_j weights[j, w] * values[j, c] for kQueries lanes.
template <int kQueries, int kVectors, class D, class T, core::Element kElement>
HWY_INLINE void ColumnsOfFew(D d, const RowReader<T, kElement>& values, int64_t count, const T* weights, int64_t panel,
                             int64_t c, T* output) {
  using V = hn::Vec<D>;
  constexpr int64_t kMost = kVectors * static_cast<int64_t>(hn::MaxLanes(D()));
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  alignas(64) T columns[kQueries][kMost];
  V acc[kQueries][kVectors];
#pragma GCC unroll 4
  for (int x = 0; x < kQueries; ++x) {
    for (int64_t i = 0; i < kVectors * lanes; ++i) columns[x][i] = output[(c + i) * panel + x];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[x][v] = hn::Load(d, columns[x] + v * lanes);
  }
  for (int64_t j = 0; j < count; ++j) {
    const std::byte* row = values.Row(j);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const V value = RowReader<T, kElement>::Load(d, row, c + v * lanes);
#pragma GCC unroll 4
      for (int x = 0; x < kQueries; ++x) acc[x][v] = hn::MulAdd(hn::Set(d, weights[j * panel + x]), value, acc[x][v]);
    }
  }
#pragma GCC unroll 4
  for (int x = 0; x < kQueries; ++x) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::Store(acc[x][v], d, columns[x] + v * lanes);
    for (int64_t i = 0; i < kVectors * lanes; ++i) output[(c + i) * panel + x] = columns[x][i];
  }
}

// output[c, w] += sum_j weights[j, w] * values[j, c] for kQueries lanes; weights [count, panel], output [width, panel].
template <int kQueries, class T, core::Element kElement>
HWY_NOINLINE void ValuesOfFew(const RowReader<T, kElement>& values, int64_t count, const T* weights, int64_t panel,
                              int64_t width, T* output) {
  constexpr int kVectors = kQueries > 2 && !HEED_SIMD_REGISTERS_32 ? 2 : 4;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + kVectors * lanes <= width; c += kVectors * lanes)
    ColumnsOfFew<kQueries, kVectors>(d, values, count, weights, panel, c, output);
  for (; c + lanes <= width; c += lanes) ColumnsOfFew<kQueries, 1>(d, values, count, weights, panel, c, output);
  for (; c < width; ++c) ColumnsOfFew<kQueries, 1>(hn::CappedTag<T, 1>(), values, count, weights, panel, c, output);
}

// Calls visit(reader) with the rows as what they hold.
template <class T, class Visit>
HWY_INLINE void ReadRows(const StoredRows<const std::byte>& rows, const Visit& visit) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (rows.element == core::Element::kBFloat16) return visit(RowReader<T, core::Element::kBFloat16>(rows));
    if (rows.element == core::Element::kFloat16) return visit(RowReader<T, core::Element::kFloat16>(rows));
  }
  visit(RowReader<T, core::ElementOf<T>()>(rows));
}

// The two products for as many queries as there are, at most simd::kFewQueries. rows: without gaps between elements.
template <class T>
void FewScores(const StoredRows<const std::byte>& rows, int64_t count, const T* queries, int64_t query_stride, int64_t used,
               int64_t width, Target<T> tile) {
  static_assert(simd::kFewQueries == 4);
  ReadRows<T>(rows, [&](const auto& keys) {
    if (used == 1) return ScoresOfFew<1>(keys, count, queries, query_stride, width, tile);
    if (used == 2) return ScoresOfFew<2>(keys, count, queries, query_stride, width, tile);
    if (used == 3) return ScoresOfFew<3>(keys, count, queries, query_stride, width, tile);
    ScoresOfFew<4>(keys, count, queries, query_stride, width, tile);
  });
}
template <class T>
void FewValues(const StoredRows<const std::byte>& rows, int64_t count, const T* weights, int64_t panel, int64_t used,
               int64_t width, T* output) {
  ReadRows<T>(rows, [&](const auto& values) {
    if (used == 1) return ValuesOfFew<1>(values, count, weights, panel, width, output);
    if (used == 2) return ValuesOfFew<2>(values, count, weights, panel, width, output);
    if (used == 3) return ValuesOfFew<3>(values, count, weights, panel, width, output);
    ValuesOfFew<4>(values, count, weights, panel, width, output);
  });
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
