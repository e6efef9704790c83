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
#include "position/hook_place.h"
#include "position/offset-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class ContentQueries final : public PositionHook<T> {
 public:
  using Call = position::ContentBiasCall<T>;
  ContentQueries(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place)
      : call_(call),
        head_dim_(place.plan.shape().head_dim),
        width_(place.cut.head_dim),
        scale_(place.plan.scale()),
        stride_(scratch.key_columns),
        offsets_(place.plan, (call.rows() - 1) / 2),
        scratch_(scratch) {}

  Term term() const override { return Term::kContent; }

  void Begin(const PanelArrays<T>& panel) override {
    offsets_.Begin(panel.b);
    d_table_ = call_.backward() ? call_.queries()->parts.At(panel.block, panel.chunk) : nullptr;
  }

  void BeginTile(const TilePlace& place, const TileArrays<T>& arrays) override {
    arrays_ = arrays;
    const RowRange rows = offsets_.Rows(place);
    // The products begin at a column that vectors may be loaded from.
    first_ = rows.first / attention::kLaneQuantum * attention::kLaneQuantum;
    count_ = rows.last + 1 - first_;
    common_ = rows.single() ? rows.first - first_ : -1;
  }

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    const T* products = scratch_.key_content;
    Product(d_, Scalars<T>{arrays_.keys, arrays_.key_stride, 1}, {call_.query_columns() + first_, call_.columns()},
            {place.keys, head_dim_, Padded()}, Fresh(scratch_.key_content, stride_));
    if (common_ >= 0) {
      AddTerms(d_, place, empty, scores,
               [&](int64_t j, int64_t) HWY_ATTR { return hn::Set(d_, products[j * stride_ + common_]); });
    } else if (offsets_.Diagonal(place)) {
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

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (!arrays_.d_keys && !d_table_) return;
    Gather(place, d_scores);
    // d_k[j] += scale * sum over rows of gathered[j, r] * table[r]
    if (arrays_.d_keys)
      Product(d_, Scalars<T>{scratch_.key_content, stride_, 1}, {call_.query_rows() + first_ * width_, width_},
              {place.keys, count_, width_}, AddedTo(arrays_.d_keys, width_));
    if (d_table_) AddToTable(place);
  }

 private:
  int64_t Padded() const { return attention::RoundUp(count_, attention::kLaneQuantum); }

  // key_content[j, row of the pair] = sum of d_scores[j, w]; the products that stood there are no longer needed.
  void Gather(const TilePlace& place, const T* d_scores) {
    const bool diagonal = offsets_.Diagonal(place);
    const int64_t corner = diagonal ? offsets_.Corner(place) : 0;
    for (int64_t j = 0; j < place.keys; ++j) {
      T* sums = scratch_.key_content + j * stride_;
      std::fill_n(sums, Padded(), T{0});
      const T* row = d_scores + j * place.panel;
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
        const int64_t at = diagonal ? offsets_.ClippedRow(corner + j - w) : offsets_.Row(place, j, w);
        sums[at - first_] += row[w];
      }
    }
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
        for (int64_t c = 0; factor != 0 && c < width_; ++c) sums[r * width_ + c] += factor * scratch_.key_rows[j * width_ + c];
      }
  }

  static constexpr hn::ScalableTag<T> d_{};
  const Call& call_;
  int64_t head_dim_, width_;  // D, and padded
  double scale_;
  int64_t stride_;
  Offsets offsets_;
  const typename Call::Scratch scratch_;
  T* d_table_ = nullptr;  // where the panel at hand adds the table's gradient
  TileArrays<T> arrays_{};
  // Of the tile at hand: the row of the first product, how many follow, and which of them serves all pairs (or -1).
  int64_t first_ = 0, count_ = 0, common_ = -1;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
