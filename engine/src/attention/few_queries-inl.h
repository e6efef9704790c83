// Products of a few queries with many keys and values, as in decoding. The elements of a key stand in lanes: each row is read
// once, as it lies in memory and in the caller's type, and no lane is idle. Scores and weights are rows, one a query, with the
// keys of a tile in lanes; who works on the usual tile [keys, panel] gets a copy in that layout.
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
#include "heed/machine.h"
#include "hwy/highway.h"
#include "simd/ahead.h"
#include "simd/capabilities-inl.h"
#include "simd/lane_sums-inl.h"
#include "simd/tile-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows without gaps, `stride` elements apart, read as vectors of the type of computation T.
template <class T, core::Element kElement>
class RowReader {
 public:
  // width: of a row; far: whether the rows come from memory.
  RowReader(const StoredRows<const std::byte>& rows, int64_t width, bool far)
      : data_(rows.data),
        stride_(rows.row_stride * kBytes),
        ahead_(far ? attention::DivideUp(MachineInUse().few_ahead, std::max<int64_t>(1, width * kBytes)) * stride_ : 0) {}

  const std::byte* Row(int64_t j) const { return data_ + j * stride_; }
  int64_t stride() const { return stride_; }

  // Asks for what stands behind `count` elements from c on, if rows come from memory.
  HWY_INLINE void AskBehind(const std::byte* row, int64_t c, int64_t count) const {
    if (ahead_ == 0) return;
    const std::byte* at = row + ahead_ + c * kBytes;
    for (int64_t line = 0; line < count * kBytes; line += simd::kLineBytes) simd::AskSecondLevel(at + line);
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
  const std::byte* data_;
  int64_t stride_, ahead_;  // in bytes; ahead: of what is asked for, 0 if nothing is
};

// The elements of a row behind its last whole vector, as one more vector whose other lanes are 0. Nothing outside the row is
// read: where loads take no mask of 16-bit elements, the row's last whole vector is turned to where they begin.
template <class D>
class RowTail {
 public:
  RowTail(D d, int64_t width) : left_(width % Lanes(d)), at_(width - left_), last_(width - Lanes(d)) {
    turns_ = !HEED_SIMD_AVX512 && last_ > 0;
    own_ = hn::FirstN(d, static_cast<std::size_t>(left_));
    for (int64_t lane = 0; turns_ && lane < Lanes(d); ++lane)
      turned_[lane] = static_cast<Index>(std::min(lane + Lanes(d) - left_, Lanes(d) - 1));
  }

  bool empty() const { return left_ == 0; }
  int64_t at() const { return at_; }  // the element in the first lane

  template <class T, core::Element kElement>
  HWY_INLINE hn::Vec<D> Load(D d, const RowReader<T, kElement>& /*reader*/, const std::byte* row) const {
    using Reader = RowReader<T, kElement>;
    if (turns_)
      return hn::IfThenElseZero(own_, hn::TableLookupLanes(Reader::Load(d, row, last_), hn::SetTableIndices(d, turned_)));
    const std::byte* from = row + at_ * core::BytesOf(kElement);
#if HEED_SIMD_AVX512
    if constexpr (kElement == core::ElementOf<T>()) {
      return hn::MaskedLoad(own_, d, reinterpret_cast<const T*>(from));
    } else {
      const hn::Rebind<uint16_t, D> d16;
      return Widen<kElement>(
          d, hn::MaskedLoad(hn::FirstN(d16, static_cast<std::size_t>(left_)), d16, reinterpret_cast<const uint16_t*>(from)));
    }
#else
    HWY_ALIGN std::array<std::byte, hn::MaxLanes(D()) * sizeof(T)> copy{};
    std::copy_n(from, left_ * core::BytesOf(kElement), copy.data());
    return Reader::Load(d, copy.data(), 0);
#endif
  }

 private:
  static int64_t Lanes(D d) { return static_cast<int64_t>(hn::Lanes(d)); }
  using Index = hn::TFromD<hn::RebindToSigned<D>>;

  int64_t left_, at_, last_;
  bool turns_;
  hn::Mask<D> own_;
  HWY_ALIGN Index turned_[hn::MaxLanes(D())] = {};
};

// The sums over the lanes of four vectors of 64 bytes, one part of each after the other: within blocks of 16 bytes first, then
// blocks as LaneSums adds them.
template <class D>
class FourSums {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;

 public:
  // One that is not written would be compiled for the baseline.
  HWY_INLINE FourSums() {}

  HWY_INLINE void Add(D d, int part, V a, V b, V c, V e) {
#if HWY_TARGET == HWY_SCALAR
    static_assert(kVectors == 4);
    blocks_[0][part] = a, blocks_[1][part] = b, blocks_[2][part] = c, blocks_[3][part] = e;
    static_cast<void>(d);
#else
    const V ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
    const V ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
    if constexpr (kVectors == 2) {
      blocks_[0][part] = ab, blocks_[1][part] = ce;
    } else {
      const hn::RepartitionToWide<hn::RebindToUnsigned<D>> pairs;
      const auto lower = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
      const auto upper = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
      blocks_[0][part] = hn::Add(hn::BitCast(d, lower), hn::BitCast(d, upper));
    }
#endif
  }

  HWY_INLINE void Store(D d, T* sums) {
#pragma GCC unroll 4
    for (int x = 0; x < kVectors; ++x) {
      const V sum = SumParts(d, blocks_[x]);
#if HWY_TARGET == HWY_SCALAR
      sums[x] = hn::GetLane(sum);
#else
      hn::StoreU(SumBlocks(d, sum), hn::CappedTag<T, 4 / kVectors>(), sums + x * (4 / kVectors));
#endif
    }
  }

 private:
  // As many vectors hold four sums in each block.
  static constexpr int kVectors = hn::MaxLanes(D()) == 1 ? 4 : static_cast<int>(sizeof(T) / 4);
  V blocks_[kVectors][kSumParts<D>];
};

// rows[x, j] = queries[x] . keys[j] for kQueries queries; some numbers behind the count, up to a tile, are overwritten.
// queries: rows of query_stride elements, aligned. rows: simd::kFewTileKeys apart.
template <int kQueries, class T, core::Element kElement>
HWY_NOINLINE void ScoresOfFew(const RowReader<T, kElement>& keys, int64_t count, const T* queries, int64_t query_stride,
                              int64_t width, T* rows) {
  using Reader = RowReader<T, kElement>;
  // Accumulators enough for the latency of an FMA, few enough for the registers, and a multiple of four.
  constexpr int kRows = kQueries == 4 && !HEED_SIMD_REGISTERS_32 ? 2 : 4;
  static_assert(simd::kFewTileKeys % kRows == 0);
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kWide = kSumLanes<decltype(d)>;
  const RowTail tail(d, width);
  for (int64_t j = 0; j < count; j += kRows) {
    const std::byte* key_rows[kRows];
    FourSums<decltype(d)> sums_of[kQueries * kRows / 4];
    key_rows[0] = keys.Row(j);
#pragma GCC unroll 8
    for (int r = 1; r < kRows; ++r) key_rows[r] = key_rows[r - 1] + (j + r < count ? keys.stride() : 0);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) keys.AskBehind(key_rows[r], 0, width);
      // A part of 64 bytes after the other: all at once would be more accumulators than there are registers.
#pragma GCC unroll 4
    for (int part = 0; part < kSumParts<decltype(d)>; ++part) {
      V acc[kQueries * kRows];
#pragma GCC unroll 16
      for (V& sum : acc) sum = hn::Zero(d);
      const auto add = [&]<int kVectors>(int64_t c) HWY_ATTR {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            const int64_t at = c + v * kWide;
            const V key = Reader::Load(d, key_rows[r], at);
#pragma GCC unroll 4
            for (int x = 0; x < kQueries; ++x) {
              V& sum = acc[x * kRows + r];
              sum = hn::MulAdd(hn::Load(d, queries + x * query_stride + at), key, sum);
            }
          }
      };
      // Rows are read so many vectors at a time.
      constexpr int kPiece = 4;
      int64_t c = part * lanes;
      for (; c + (kPiece - 1) * kWide + lanes <= width; c += kPiece * kWide) add.template operator()<kPiece>(c);
      for (; c + lanes <= width; c += kWide) add.template operator()<1>(c);
      if (!tail.empty() && tail.at() == c) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const V key = tail.Load(d, keys, key_rows[r]);
#pragma GCC unroll 4
          for (int x = 0; x < kQueries; ++x) {
            V& sum = acc[x * kRows + r];
            sum = hn::MulAdd(hn::LoadU(d, queries + x * query_stride + tail.at()), key, sum);
          }
        }
      }
#pragma GCC unroll 4
      for (int x = 0; x < kQueries * kRows; x += 4) sums_of[x / 4].Add(d, part, acc[x], acc[x + 1], acc[x + 2], acc[x + 3]);
    }
    alignas(64) T sums[kQueries * kRows];
#pragma GCC unroll 4
    for (int x = 0; x < kQueries * kRows; x += 4) sums_of[x / 4].Store(d, sums + x);
#pragma GCC unroll 4
    for (int x = 0; x < kQueries; ++x) std::copy_n(sums + x * kRows, kRows, rows + x * simd::kFewTileKeys + j);
  }
}

// Columns c .. c + kVectors * lanes - 1 of: output[x, c] += sum_j weights[x, j] * values[j, c] for kQueries queries.
// load(row, v): vector v of these columns of a row.
template <int kQueries, int kVectors, class D, class T, core::Element kElement, class Load>
HWY_INLINE void ColumnsOfFew(D d, const RowReader<T, kElement>& values, int64_t count, const T* weights, int64_t c, T* output,
                             int64_t output_stride, const Load& load) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V acc[kQueries][kVectors];
#pragma GCC unroll 4
  for (int x = 0; x < kQueries; ++x)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[x][v] = hn::LoadU(d, output + x * output_stride + c + v * lanes);
  for (int64_t j = 0; j < count; ++j) {
    const std::byte* row = values.Row(j);
    values.AskBehind(row, c, kVectors * lanes);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const V value = load(row, v);
#pragma GCC unroll 4
      for (int x = 0; x < kQueries; ++x)
        acc[x][v] = hn::MulAdd(hn::Set(d, weights[x * simd::kFewTileKeys + j]), value, acc[x][v]);
    }
  }
#pragma GCC unroll 4
  for (int x = 0; x < kQueries; ++x)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[x][v], d, output + x * output_stride + c + v * lanes);
}

// output[x, c] += sum_j weights[x, j] * values[j, c] for kQueries queries. weights: rows simd::kFewTileKeys apart. output: rows
// padded to whole vectors.
template <int kQueries, class T, core::Element kElement>
HWY_NOINLINE void ValuesOfFew(const RowReader<T, kElement>& values, int64_t count, const T* weights, int64_t width, T* output,
                              int64_t output_stride) {
  constexpr int kVectors = kQueries > 2 && !HEED_SIMD_REGISTERS_32 ? 2 : 4;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  const auto columns = [&]<int kCount>(int64_t first) HWY_ATTR {
    ColumnsOfFew<kQueries, kCount>(d, values, count, weights, first, output, output_stride,
                                   [&](const std::byte* row, int v)
                                       HWY_ATTR { return RowReader<T, kElement>::Load(d, row, first + v * lanes); });
  };
  for (; c + kVectors * lanes <= width; c += kVectors * lanes) columns.template operator()<kVectors>(c);
  // Rows are walked once more for each group of vectors, so what is left is one group.
  const int64_t left = (width - c) / lanes;
  if (left == 3) columns.template operator()<3>(c);
  if (left == 2) columns.template operator()<2>(c);
  if (left == 1) columns.template operator()<1>(c);
  const RowTail tail(d, width);
  if (tail.empty()) return;
  ColumnsOfFew<kQueries, 1>(d, values, count, weights, tail.at(), output, output_stride,
                            [&](const std::byte* row, int) HWY_ATTR { return tail.Load(d, values, row); });
}

// sums[j, c] = or += sum_x weights[x, j] * inputs[x, c] for kQueries queries and `width` elements. weights: rows
// simd::kFewTileKeys apart. Neither side has gaps between elements; inputs have zeros up to a whole vector.
template <int kQueries, class T>
HWY_NOINLINE void OuterOfFew(const T* weights, int64_t count, const HeadRows<const T>& inputs, int64_t width,
                             const HeadRows<T>& sums, bool accumulates) {
  constexpr int kVectors = kQueries > 2 && !HEED_SIMD_REGISTERS_32 ? 2 : 4;
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto columns = [&]<int kCount>(int64_t c, const auto& load, const auto& store) HWY_ATTR {
    V row[kQueries][kCount];
#pragma GCC unroll 4
    for (int x = 0; x < kQueries; ++x)
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) row[x][v] = hn::LoadU(d, inputs.Row(x) + c + v * lanes);
    for (int64_t j = 0; j < count; ++j) {
      T* to = sums.Row(j) + c;
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) {
        V sum = accumulates ? load(to + v * lanes) : hn::Zero(d);
#pragma GCC unroll 4
        for (int x = 0; x < kQueries; ++x) sum = hn::MulAdd(hn::Set(d, weights[x * simd::kFewTileKeys + j]), row[x][v], sum);
        store(sum, to + v * lanes);
      }
    }
  };
  const auto load = [&](const T* from) HWY_ATTR { return hn::LoadU(d, from); };
  const auto store = [&](V sum, T* to) HWY_ATTR { hn::StoreU(sum, d, to); };
  int64_t c = 0;
  for (; c + kVectors * lanes <= width; c += kVectors * lanes) columns.template operator()<kVectors>(c, load, store);
  for (; c + lanes <= width; c += lanes) columns.template operator()<1>(c, load, store);
#if HEED_SIMD_AVX512
  if (c == width) return;
  const auto own = hn::FirstN(d, static_cast<std::size_t>(width - c));
  columns.template operator()<1>(
      c, [&](const T* from) HWY_ATTR { return hn::MaskedLoad(own, d, from); },
      [&](V sum, T* to) HWY_ATTR { hn::BlendedStore(sum, own, d, to); });
#else
  // Nothing outside a row is touched.
  for (int64_t j = 0; j < count; ++j)
    for (int64_t rest = c; rest < width; ++rest) {
      T sum = accumulates ? sums.Row(j)[rest] : T{0};
      for (int x = 0; x < kQueries; ++x) sum = MulAddOne(weights[x * simd::kFewTileKeys + j], inputs.Row(x)[rest], sum);
      sums.Row(j)[rest] = sum;
    }
#endif
}

// Calls visit(reader) with the rows as what they hold.
template <class T, class Visit>
HWY_INLINE void ReadRows(const StoredRows<const std::byte>& rows, int64_t width, bool far, const Visit& visit) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (rows.element == core::Element::kBFloat16) return visit(RowReader<T, core::Element::kBFloat16>(rows, width, far));
    if (rows.element == core::Element::kFloat16) return visit(RowReader<T, core::Element::kFloat16>(rows, width, far));
  }
  visit(RowReader<T, core::ElementOf<T>()>(rows, width, far));
}
// Calls visit.template operator()<queries>() for as many queries as there are.
template <class Visit>
HWY_INLINE void ForFew(int64_t queries, const Visit& visit) {
  static_assert(simd::kFewQueries == 4);
  if (queries == 1) return visit.template operator()<1>();
  if (queries == 2) return visit.template operator()<2>();
  if (queries == 3) return visit.template operator()<3>();
  visit.template operator()<4>();
}

// The products for as many queries as there are. keys, values: without gaps between elements; far: whether they come from
// memory.
template <class T>
void FewScores(const StoredRows<const std::byte>& keys, bool far, int64_t count, const T* queries, int64_t query_stride,
               int64_t used, int64_t width, T* rows) {
  ReadRows<T>(keys, width, far, [&](const auto& reader) {
    ForFew(used, [&]<int kQueries>() { ScoresOfFew<kQueries>(reader, count, queries, query_stride, width, rows); });
  });
}
template <class T>
void FewValues(const StoredRows<const std::byte>& values, bool far, int64_t count, const T* weights, int64_t used,
               int64_t width, T* output, int64_t output_stride) {
  ReadRows<T>(values, width, far, [&](const auto& reader) {
    ForFew(used, [&]<int kQueries>() { ValuesOfFew<kQueries>(reader, count, weights, width, output, output_stride); });
  });
}

// tile[j, x] = rows[x, j], or what stands there and that; a fresh tile is 0 in the lanes behind the `used` ones.
template <class T>
void AddRowsToTile(const T* rows, int64_t keys, int64_t used, Target<T> tile) {
  for (int64_t j = 0; j < keys; ++j) {
    T* lanes = tile.data + j * tile.stride;
    if (!tile.accumulates) std::fill_n(lanes, attention::kLaneQuantum, T{0});
    for (int64_t x = 0; x < used; ++x) lanes[x] += rows[x * simd::kFewTileKeys + j];
  }
}
template <class T>
void CopyRowsFromTile(const T* tile, int64_t stride, int64_t keys, int64_t used, T* rows) {
  for (int64_t x = 0; x < used; ++x)
    for (int64_t j = 0; j < keys; ++j) rows[x * simd::kFewTileKeys + j] = tile[j * stride + x];
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
