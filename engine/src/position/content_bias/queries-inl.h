// Relative positions on the side of the keys (the term position-to-content of He et al. 2021): k[j].e[c], where c is the
// clipped offset of key j from query i.
//
// Which rows of the table a tile reads follows from its offsets: neighbouring ones, as many as the tile has diagonals at most
// where positions are affine. A tile's keys are multiplied with those rows, and each pair picks its product along its diagonal;
// the gradient of the scores is gathered the same way, and two products carry it to the keys and to the table. Nothing has the
// size of queries times keys, and nothing outlives a tile but the table itself.
#if defined(HEED_POSITION_CONTENT_BIAS_QUERIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_CONTENT_BIAS_QUERIES_INL_H_
#undef HEED_POSITION_CONTENT_BIAS_QUERIES_INL_H_
#else
#define HEED_POSITION_CONTENT_BIAS_QUERIES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <variant>

#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "position/content_bias/scheme.h"
#include "position/offset-inl.h"
#include "simd/lane_sums-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class ContentQueries {
 public:
  using Call = position::ContentBiasCall<T>;
  ContentQueries(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place)
      : call_(call),
        head_dim_(place.plan.shape().head_dim),
        width_(place.cut.head_dim),
        scale_(place.plan.scale()),
        stride_(scratch.key_columns),
        kv_heads_(place.plan.shape().kv_heads),
        group_(place.plan.shape().q_heads / std::max<int64_t>(1, kv_heads_)),
        tile_(place.cut.tile),
        tiles_(attention::DivideUp(place.plan.shape().kv_len, tile_)),
        offsets_(place.plan, (call.rows() - 1) / 2),
        scratch_(scratch) {
    std::fill_n(scratch_.edge_tiles, scratch_.slots, int64_t{-1});
  }

  void Begin(const PanelArrays<T>& panel) {
    offsets_.Begin(panel.b);
    head_ = panel.head;
    d_table_ = call_.backward() ? call_.Part(call_.kQueries, panel.block, panel.b, panel.head, panel.chunk) : nullptr;
  }

  void BeginTile(const TilePlace& place, const TileArrays<T>& arrays) {
    arrays_ = arrays;
    const RowRange rows = offsets_.Rows(place);
    // The products begin at a column that vectors may be loaded from.
    first_ = rows.first / attention::kLaneQuantum * attention::kLaneQuantum;
    count_ = rows.last + 1 - first_;
    common_ = rows.single() ? rows.first - first_ : -1;
  }

  void AddToScores(const TilePlace& place, bool empty, T* scores) {
    if (call_.by_head() && !place.one_head) {
      AddHeadByHead(place, empty, scores);
      return;
    }
    if (const T* edge = Edge(place)) {
      AddTerms(d_, place, empty, scores, [&](int64_t j, int64_t) HWY_ATTR { return hn::Set(d_, edge[j]); });
      return;
    }
    Products(place);
    const T* products = scratch_.key_content;
    if (offsets_.Diagonal(place)) {
      const hn::RebindToSigned<decltype(d_)> di;
      const auto first = hn::Set(di, static_cast<hn::TFromD<decltype(di)>>(first_));
      const DiagonalRows<decltype(d_)> rows(offsets_, place);
      AddTerms(d_, place, empty, scores, [&](int64_t j, int64_t w) HWY_ATTR {
        return hn::GatherIndex(d_, products + j * stride_, hn::Sub(rows.At(j, w), first));
      });
    } else {
      AddScalarTerms(place, empty, scores,
                     [&](int64_t j, int64_t w) { return products[j * stride_ + offsets_.Row(place, j, w) - first_]; });
    }
  }

  void Accumulate(const TilePlace& place, const T* d_scores) {
    if (!arrays_.d_keys && !d_table_) return;
    if (common_ >= 0) {
      AccumulateCommon(place, d_scores);
      return;
    }
    Gather(place, d_scores);
    // d_k[j] += scale * sum over rows of gathered[j, r] * table[r]
    if (arrays_.d_keys)
      Product(d_, Scalars<T>{scratch_.key_content, stride_, 1}, {call_.QueryRows(head_) + first_ * width_, width_},
              {place.keys, count_, width_}, AddedTo(arrays_.d_keys, width_));
    if (d_table_) AddToTable(place);
  }

 private:
  // Lanes of several heads, each with a table of its own: few queries, whose lanes take their products one by one.
  void AddHeadByHead(const TilePlace& place, bool empty, T* scores) {
    for (int64_t j = 0; empty && j < place.keys; ++j)
      std::fill(scores + j * place.panel + place.lane_begin, scores + j * place.panel + place.lane_end, T{0});
    for (int64_t w = place.lane_begin; w < place.used_end();) {
      head_ = place.heads[w];
      Products(place);
      for (; w < place.used_end() && place.heads[w] == head_; ++w)
        for (int64_t j = 0; j < place.keys; ++j)
          scores[j * place.panel + w] += scratch_.key_content[j * stride_ + offsets_.Row(place, j, w) - first_];
    }
  }

  int64_t Padded() const { return attention::RoundUp(count_, attention::kLaneQuantum); }

  // key_content[j, r] = key j . row first_ + r
  void Products(const TilePlace& place) {
    Product(d_, Scalars<T>{arrays_.keys, arrays_.key_stride, 1}, {call_.QueryColumns(head_) + first_, call_.columns()},
            {place.keys, head_dim_, Padded()}, Fresh(scratch_.key_content, stride_));
  }

  // The products of a whole tile's keys with the one row that its pairs share, where that is the first or the last; else null.
  // Panel after panel meets the same tiles of a head, so they are made once.
  const T* Edge(const TilePlace& place) {
    const int64_t row = first_ + common_, tile = place.tile_key / tile_;
    const bool last = row == call_.rows() - 1;
    if (common_ < 0 || place.key != place.tile_key || (row != 0 && !last)) return nullptr;
    // Heads of other tables are of other products, even if they share their keys.
    const int64_t heads =
        call_.by_head() ? place.b * kv_heads_ * group_ + place.head : place.b * kv_heads_ + place.head / group_;
    const int64_t number = (heads * tiles_ + tile) * (tile_ + 1) + place.keys;
    const int64_t slot = tile % scratch_.slots;
    T* edges = scratch_.edges + slot * 2 * tile_;
    if (scratch_.edge_tiles[slot] != number) {
      for (int64_t side = 0; side < 2; ++side) {
        first_ = (side == 0 ? 0 : call_.rows() - 1) / attention::kLaneQuantum * attention::kLaneQuantum;
        common_ = (side == 0 ? 0 : call_.rows() - 1) - first_;
        count_ = common_ + 1;
        Products(place);
        for (int64_t j = 0; j < place.keys; ++j) edges[side * tile_ + j] = scratch_.key_content[j * stride_ + common_];
      }
      scratch_.edge_tiles[slot] = number;
      BeginTile(place, arrays_);
    }
    return edges + (last ? tile_ : 0);
  }

  // Where all pairs share a row: d_k[j] += scale * g[j] * row, d_row += scale * g[j] * k[j] with g[j] the sum of d_scores[j,
  // w].
  void AccumulateCommon(const TilePlace& place, const T* d_scores) {
    const T *row = call_.QueryRows(head_) + (first_ + common_) * width_, scale = static_cast<T>(scale_);
    T* d_row = d_table_ ? d_table_ + (first_ + common_) * width_ : nullptr;
    for (int64_t j = 0; j < place.keys; ++j) {
      const T sum = SumOver(d_scores + j * place.panel, place);
      if (sum == 0) continue;  // a key that holds NaN or infinity does not reach the rows of pairs that are masked
      if (arrays_.d_keys) AddScaled(sum, row, arrays_.d_keys + j * width_);
      if (d_row) AddScaled(scale * sum, arrays_.keys + j * arrays_.key_stride, d_row);
    }
  }

  // to[c] += factor * row[c]
  void AddScaled(T factor, const T* row, T* to) const {
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    const auto factors = hn::Set(d_, factor);
    int64_t c = 0;
    for (; c + step <= head_dim_; c += step)
      hn::StoreU(hn::MulAdd(factors, hn::LoadU(d_, row + c), hn::LoadU(d_, to + c)), d_, to + c);
    for (; c < head_dim_; ++c) to[c] = MulAddOne(factor, row[c], to[c]);
  }

  // The sum of row[w] over all lanes of the tile; those without a query hold 0.
  T SumOver(const T* row, const TilePlace& place) const { return SumOfLanesFrom(d_, row, place.lane_begin, place.lane_end); }

  // The sum of row[w] for begin <= w < end.
  T SumOver(const T* row, int64_t begin, int64_t end) const {
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    const auto below = [&](int64_t limit, int64_t w) HWY_ATTR {
      return hn::FirstN(d_, static_cast<std::size_t>(std::clamp<int64_t>(limit - w, 0, step)));
    };
    constexpr int64_t kWide = kSumLanes<decltype(d_)>;
    LaneSums<decltype(d_)> sums;
    sums.ForEach(begin / kWide * kWide, attention::RoundUp(end, kWide), [&](int64_t w, auto& part) HWY_ATTR {
      part = hn::Add(part, hn::IfThenElseZero(hn::AndNot(below(begin, w), below(end, w)), hn::Load(d_, row + w)));
    });
    return sums.Total();
  }

  // key_content[j, row of the pair] = sum of d_scores[j, w]; the products that stood there are no longer needed.
  void Gather(const TilePlace& place, const T* d_scores) {
    for (int64_t j = 0; j < place.keys; ++j) {
      T* sums = scratch_.key_content + j * stride_;
      std::fill_n(sums, Padded(), T{0});
      if (offsets_.Diagonal(place)) {
        GatherDiagonal(place, j, d_scores + j * place.panel, sums);
      } else {
        for (int64_t w = place.lane_begin; w < place.used_end(); ++w)
          sums[offsets_.Row(place, j, w) - first_] += d_scores[j * place.panel + w];
      }
    }
  }

  // Along a diagonal tile each lane has a row of its own, but for those that are clipped to the first or the last one.
  void GatherDiagonal(const TilePlace& place, int64_t j, const T* d_scores, T* sums) const {
    const int64_t offset = offsets_.Corner(place) + j, limit = offsets_.limit();  // of lane 0
    const int64_t begin = place.lane_begin, end = std::max(place.used_end(), begin);
    const int64_t own_begin = std::clamp(offset - limit, begin, end), own_end = std::clamp(offset + limit + 1, own_begin, end);
    for (int64_t w = own_begin; w < own_end; ++w) sums[offset - w + limit - first_] = d_scores[w];
    if (own_begin > begin) sums[2 * limit - first_] += SumOver(d_scores, begin, own_begin);
    if (own_end < end) sums[-first_] += SumOver(d_scores, own_end, end);
  }

  // d_table[r] += scale * sum over keys of gathered[j, r] * k[j]
  void AddToTable(const TilePlace& place) {
    const T scale = static_cast<T>(scale_);
    for (int64_t j = 0; j < place.keys; ++j) {
      const T* key = arrays_.keys + j * arrays_.key_stride;
      T* row = scratch_.key_rows + j * width_;
      for (int64_t c = 0; c < head_dim_; ++c) row[c] = scale * key[c];
      std::fill(row + head_dim_, row + width_, T{0});
    }
    T* sums = d_table_ + first_ * width_;
    if (AllFinite(d_, HeadRows<const T>{scratch_.key_rows, width_, 1}, place.keys, width_)) {
      Product(d_, Scalars<T>{scratch_.key_content, 1, stride_}, {scratch_.key_rows, width_}, {count_, place.keys, width_},
              AddedTo(sums, width_));
      return;
    }
    // A key that holds NaN or infinity does not reach the rows of pairs that are masked.
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t r = 0; r < count_; ++r) {
        const T factor = scratch_.key_content[j * stride_ + r];
        for (int64_t c = 0; factor != 0 && c < width_; ++c)
          sums[r * width_ + c] = MulAddOne(factor, scratch_.key_rows[j * width_ + c], sums[r * width_ + c]);
      }
  }

  static constexpr hn::ScalableTag<T> d_{};
  const Call& call_;
  int64_t head_dim_, width_;  // D, and padded
  double scale_;
  int64_t stride_;
  int64_t kv_heads_, group_, tile_, tiles_;  // query heads a key head, keys a tile, tiles
  Offsets offsets_;
  const typename Call::Scratch scratch_;
  int64_t head_ = 0;      // whose table the products are made with
  T* d_table_ = nullptr;  // where the panel at hand adds the table's gradient
  TileArrays<T> arrays_{};
  // Of the tile at hand: the row of the first product, how many follow, and which of them serves all pairs (or -1).
  int64_t first_ = 0, count_ = 0, common_ = -1;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
