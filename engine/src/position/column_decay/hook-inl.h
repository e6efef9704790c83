// Products whose columns fade with the distance: sum over c of q[i,c] k[j,c] 2^(-r[c] (p[i] - p[j])).
//
// The factor falls in two at the position o of a panel's first query: queries fade by 2^(-r (p[i] - o)), keys by 2^(-r (o -
// p[j])). Queries of a panel are neighbours, so neither is ever far from 1 where a pair is seen, but for keys so far back that
// what they give is 0; and the product itself is the one of every other call. Faded keys are made for a few keys at a time.
//
// In truth o is rounded in every column so that r o is a whole number: whichever queries share a panel, the factors of a query
// and a key then differ by powers of two alone, and every score has the same bits.
#if defined(HEED_POSITION_COLUMN_DECAY_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_COLUMN_DECAY_HOOK_INL_H_
#undef HEED_POSITION_COLUMN_DECAY_HOOK_INL_H_
#else
#define HEED_POSITION_COLUMN_DECAY_HOOK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "attention/mask-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "position/column_decay/scheme.h"
#include "simd/exp2-inl.h"
#include "simd/lane_sums-inl.h"
#include "simd/tile-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of factors by position.
template <class T>
class ColumnFactors {
 public:
  using Call = position::ColumnDecayCall<T>;
  ColumnFactors(const Call& call, const typename Call::Scratch& scratch, int64_t width)
      : call_(call), scratch_(scratch), width_(width) {}

  // Where the factor of every column is about 1.
  void SetOrigin(double position) {
    for (int64_t c = 0; c < width_; ++c) scratch_.origin[c] = std::floor(call_.rates()[c] * position);
    query_cell_ = key_cell_ = std::numeric_limits<double>::quiet_NaN();
  }
  void MakeOfQuery(double position, T* row) { Make(position, -1, query_cell_, scratch_.query_cell, call_.falls(), row); }
  void MakeOfKey(double position, T* row) { Make(position, 1, key_cell_, scratch_.key_cell, call_.rises(), row); }

 private:
  // row[c] = 2^(sign * (rate * position - origin)): the factor where the position's cell begins, times that of its place there.
  void Make(double position, int sign, double& cell, T* at_cell, const T* steps, T* row) {
    const double size = static_cast<double>(call_.cell());
    double begin = std::floor(position / size) * size;
    if (position != std::floor(position)) begin = position;
    if (begin != cell) BeginCell(begin, sign, at_cell);
    cell = begin;
    const T* step = steps + static_cast<int64_t>(position - begin) * width_;
    for (int64_t c = 0; c < width_; c += step_)
      hn::Store(hn::Mul(hn::Load(d_, at_cell + c), hn::Load(d_, step + c)), d_, row + c);
  }

  void BeginCell(double position, int sign, T* at_cell) {
    for (int64_t c = 0; c < width_; ++c) {
      const double bits = call_.rates()[c] * position, whole = std::floor(bits);
      scratch_.fractions[c] = static_cast<T>(sign * (bits - whole));
      // Keys behind their query are hidden, whatever their factor.
      scratch_.wholes[c] = static_cast<T>(std::clamp(sign * (whole - scratch_.origin[c]), -1000.0, 2 * Call::kMostBits));
    }
    for (int64_t c = 0; c < width_; c += step_) {
      const auto fraction = PowerOfTwo(d_, hn::Load(d_, scratch_.fractions + c));
      hn::Store(hn::Mul(fraction, PowerOfTwo(d_, hn::Load(d_, scratch_.wholes + c))), d_, at_cell + c);
    }
  }

  static constexpr hn::ScalableTag<T> d_{};
  const int64_t step_ = static_cast<int64_t>(hn::Lanes(d_));
  const Call& call_;
  const typename Call::Scratch scratch_;
  int64_t width_;
  double query_cell_ = 0, key_cell_ = 0;  // where the cells begin whose factors are there
};

template <class T>
class ColumnDecayHook final : public PositionHook<T> {
 public:
  using Call = position::ColumnDecayCall<T>;
  ColumnDecayHook(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place)
      : call_(call),
        plan_(place.plan),
        head_dim_(call.head_dim()),
        width_(place.cut.head_dim),
        scratch_(scratch),
        factors_(call, scratch, width_) {}

  Term term() const override { return Term::kProduct; }

  void Begin(const PanelArrays<T>& panel) override {
    panel_ = panel;
    begun_ = false;
  }

  void BeginTile(const TilePlace& place, const TileArrays<T>& arrays) override {
    arrays_ = arrays;
    if (!begun_) BeginPanel(place);
    begun_ = true;
  }

  void Multiply(const TilePlace& place, bool empty, T* scores) override {
    if (apart_) {
      MultiplyLanes(place, empty, scores);
      return;
    }
    ForEachGroup(place, [&](int64_t first, int64_t count) HWY_ATTR {
      const Target<T> target{scores + first * place.panel + place.lane_begin, place.panel, !empty};
      Product(d_, Scalars<T>{scratch_.keys, width_, 1}, {scratch_.queries + place.lane_begin, place.panel},
              {count, head_dim_, place.lanes()}, target);
    });
  }

  void MultiplyGradient(const TilePlace& place, attention::Seen seen, const T* d_scores) override {
    if (apart_) {
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
        factors_.SetOrigin(QueryPosition(place, w));
        ForEachGroup(place, [&](int64_t first, int64_t count) { AddOfPairs(place, first, count, w, w + 1, d_scores); });
      }
      return;
    }
    const HeadRows<const T> keys{arrays_.keys, arrays_.key_stride, 1};
    const bool one_by_one =
        !TakesAllPairs(seen, [&]() HWY_ATTR { return finite_ && AllFinite(d_, keys, place.keys, head_dim_); });
    ForEachGroup(place, [&](int64_t first, int64_t count) HWY_ATTR {
      if (one_by_one) {
        AddOfPairs(place, first, count, place.lane_begin, place.used_end(), d_scores);
      } else {
        AddProducts(place, first, count, d_scores + first * place.panel + place.lane_begin);
      }
    });
  }

  void End(const PanelArrays<T>& panel) override {
    if (!begun_ || !panel.d_queries) return;
    for (int64_t at = 0; at < head_dim_ * panel.panel; at += step_) {
      const auto factor = hn::Load(d_, scratch_.columns + at), gradient = hn::Load(d_, scratch_.d_queries + at);
      hn::Store(hn::MulAdd(factor, gradient, hn::Load(d_, panel.d_queries + at)), d_, panel.d_queries + at);
    }
  }

 private:
  double QueryPosition(const TilePlace& place, int64_t w) const {
    const attention::Order& order = plan_.order();
    return order.listed() ? order.QueryPositions(place.b)[place.queries[w]] : static_cast<double>(place.queries[w]);
  }
  double KeyPosition(const TilePlace& place, int64_t key) const {
    const attention::Order& order = plan_.order();
    return order.listed() ? order.KeyPositions(place.b)[key] : static_cast<double>(key + plan_.FirstOffset(place.b));
  }

  void BeginPanel(const TilePlace& place) {
    double first = QueryPosition(place, 0), last = first;
    for (int64_t w = 1; w < place.used; ++w) {
      first = std::min(first, QueryPosition(place, w));
      last = std::max(last, QueryPosition(place, w));
    }
    apart_ = call_.largest() * (last - first) > Call::kMostBits;
    factors_.SetOrigin(first);
    for (int64_t w = 0; w < place.used; ++w) {
      if (apart_) factors_.SetOrigin(QueryPosition(place, w));
      factors_.MakeOfQuery(QueryPosition(place, w), scratch_.query_factors + w * width_);
    }
    std::fill_n(scratch_.query_factors + place.used * width_, (place.panel - place.used) * width_, T{0});
    Transpose(static_cast<const T*>(scratch_.query_factors), width_, place.panel, head_dim_, T{1}, scratch_.columns,
              place.panel);
    Multiply(panel_.queries, scratch_.columns, head_dim_ * place.panel, scratch_.queries);
    if (!call_.backward()) return;
    Multiply(panel_.query_rows, scratch_.query_factors, place.panel * width_, scratch_.query_rows);
    std::fill_n(scratch_.d_queries, head_dim_ * place.panel, T{0});
    finite_ = AllFinite(d_, HeadRows<const T>{panel_.query_rows, width_, 1}, place.used, head_dim_);
  }

  void Multiply(const T* a, const T* b, int64_t count, T* to) const {
    for (int64_t at = 0; at < count; at += step_) hn::Store(hn::Mul(hn::Load(d_, a + at), hn::Load(d_, b + at)), d_, to + at);
  }

  // Calls visit(first, count) for a tile's keys in groups, whose factors and faded rows are then made.
  template <class Visit>
  HWY_INLINE void ForEachGroup(const TilePlace& place, const Visit& visit) {
    for (int64_t first = 0; first < place.keys; first += Call::kKeys) {
      const int64_t count = std::min(Call::kKeys, place.keys - first);
      for (int64_t x = 0; x < count; ++x) {
        factors_.MakeOfKey(KeyPosition(place, place.key + first + x), scratch_.factors + x * width_);
        FadeKey(arrays_.keys + (first + x) * arrays_.key_stride, x);
      }
      visit(first, count);
    }
  }

  void FadeKey(const T* key, int64_t x) {
    const T* factors = scratch_.factors + x * width_;
    T* faded = scratch_.keys + x * width_;
    int64_t c = 0;
    for (; c + step_ <= head_dim_; c += step_)
      hn::Store(hn::Mul(hn::LoadU(d_, key + c), hn::Load(d_, factors + c)), d_, faded + c);
    for (; c < head_dim_; ++c) faded[c] = key[c] * factors[c];
  }

  // Where queries of a panel stand far apart, each has an origin of its own. The sums are those of a product.
  void MultiplyLanes(const TilePlace& place, bool empty, T* scores) {
    for (int64_t j = 0; empty && j < place.keys; ++j)
      std::fill(scores + j * place.panel + place.lane_begin, scores + j * place.panel + place.lane_end, T{0});
    for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
      factors_.SetOrigin(QueryPosition(place, w));
      ForEachGroup(place, [&](int64_t first, int64_t count) HWY_ATTR {
        for (int64_t x = 0; x < count; ++x) {
          T& score = scores[(first + x) * place.panel + w];
          for (int64_t c = 0; c < head_dim_; ++c)
            score = MulAddOne(scratch_.keys[x * width_ + c], scratch_.queries[c * place.panel + w], score);
        }
      });
    }
  }

  // The gradients of a group and the whole tile. d_scores: from the group's first key and the tile's first lane on.
  void AddProducts(const TilePlace& place, int64_t first, int64_t count, const T* d_scores) {
    if (panel_.d_queries)
      Product(d_, Scalars<T>{scratch_.keys, 1, width_}, {d_scores, place.panel}, {head_dim_, count, place.lanes()},
              AddedTo(scratch_.d_queries + place.lane_begin, place.panel));
    if (!arrays_.d_keys) return;
    Product(d_, Scalars<T>{d_scores, place.panel, 1}, {scratch_.query_rows + place.lane_begin * width_, width_},
            {count, place.used_end() - place.lane_begin, width_}, Fresh(scratch_.d_keys, width_));
    T* d_keys = arrays_.d_keys + first * width_;
    for (int64_t at = 0; at < count * width_; at += step_) {
      const auto factor = hn::Load(d_, scratch_.factors + at), gradient = hn::Load(d_, scratch_.d_keys + at);
      hn::Store(hn::MulAdd(factor, gradient, hn::Load(d_, d_keys + at)), d_, d_keys + at);
    }
  }

  // The same for some lanes, of pairs whose score has a gradient alone.
  void AddOfPairs(const TilePlace& place, int64_t first, int64_t count, int64_t begin, int64_t end, const T* d_scores) {
    for (int64_t x = 0; x < count; ++x)
      for (int64_t w = begin; w < end; ++w) {
        const T gradient = d_scores[(first + x) * place.panel + w];
        for (int64_t c = 0; gradient != 0 && c < head_dim_; ++c) {
          const int64_t at = x * width_ + c;
          T& d_query = scratch_.d_queries[c * place.panel + w];
          if (panel_.d_queries) d_query = MulAddOne(scratch_.keys[at], gradient, d_query);
          if (arrays_.d_keys)
            AddTo(arrays_.d_keys[first * width_ + at], scratch_.factors[at], gradient * scratch_.query_rows[w * width_ + c]);
        }
      }
  }

  // sum += a * b
  static void AddTo(T& sum, T a, T b) { sum = MulAddOne(a, b, sum); }

  static constexpr hn::ScalableTag<T> d_{};
  const int64_t step_ = static_cast<int64_t>(hn::Lanes(d_));
  const Call& call_;
  const attention::Plan& plan_;
  int64_t head_dim_, width_;  // D, and padded
  const typename Call::Scratch scratch_;
  ColumnFactors<T> factors_;
  PanelArrays<T> panel_{};
  TileArrays<T> arrays_{};
  // Of the panel at hand: whether a tile of it has come, whether its queries stand too far apart to share an origin, and
  // whether they are numbers.
  bool begun_ = false, apart_ = false, finite_ = true;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
