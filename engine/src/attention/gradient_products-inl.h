// The matrix products of the backward pass, between a panel of queries and the tiles of a chunk of keys:
//   dP = dO V^T    dV += P^T dO    dQ += dS K    dK += dS^T Q
// in the type of computation or, for bfloat16, in pairs: then dP is exact but for its sum, and where weights and gradients of
// scores are rounded (PairUse::kAll) so are the other three.
#if defined(HEED_ATTENTION_GRADIENT_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_GRADIENT_PRODUCTS_INL_H_
#undef HEED_ATTENTION_GRADIENT_PRODUCTS_INL_H_
#else
#define HEED_ATTENTION_GRADIENT_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "attention/mask-inl.h"
#include "attention/pair_rows-inl.h"
#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class GradientProducts {
 public:
  GradientProducts(const attention::BackwardProblem<T>& problem, attention::BackwardScratch<T>& scratch, Scores<T>& scores)
      : problem_(problem),
        shape_(problem.plan.shape()),
        scratch_(scratch),
        scores_(scores),
        values_(scratch.values, shape_.value_dim),
        value_pairs_(scratch.value_pairs, shape_.value_dim) {}

  // Keys begin .. end - 1 of a key head from now on.
  void Walk(int64_t b, int64_t kv_head, int64_t begin, int64_t end) {
    const attention::Plan& plan = problem_.plan;
    const auto rows = RowsOf(problem_.v, plan.ArrayRow(b), kv_head, plan.FirstKey(b));
    values_.Walk(rows, begin, end);
    if (pairs()) value_pairs_.Walk(rows, begin, end);
    begin_ = begin;
  }

  // Where dK and dV of the walk are summed up from now on: rows from its first key on, whole vectors and aligned.
  void SumInto(const HeadRows<T>& d_keys, const HeadRows<T>& d_values) {
    d_keys_ = d_keys;
    d_values_ = d_values;
  }
  // Whether these hold nothing yet, not even zeros: the panel at hand, which sees all pairs of the walk, then stores.
  void SumsAreFresh(bool fresh) { fresh_ = fresh; }
  // Whether products can be stored that way.
  bool stores() const { return !rounds(); }

  // Asks for values begin .. end - 1 of the walk and for the gradients of keys and values there.
  void AskForKeys(int64_t begin, int64_t end) {
    AskFor(values_.stored(), begin, end - begin, shape_.value_dim, scratch_.ahead);
    const auto sums = [&](const HeadRows<T>& rows, int64_t width) {
      constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
      scratch_.ahead.Add(reinterpret_cast<const std::byte*>(rows.Row(begin - begin_)), width * kBytes, rows.row_stride * kBytes,
                         end - begin);
    };
    if (problem_.d_k.present()) sums(d_keys_, problem_.cut.head_dim);
    if (problem_.d_v.present()) sums(d_values_, problem_.cut.value_dim);
  }

  // A panel's dQ holds nothing yet, not even zeros.
  void Blank() { blank_ = problem_.d_q.present(); }
  void ClearBlank(const Panel& panel) {
    if (blank_) std::fill_n(scratch_.d_queries, shape_.head_dim * panel.width, T{0});
    blank_ = false;
  }

  // Takes the rows of a panel, whose scores have begun.
  void Begin(const Panel& panel) {
    panel_ = &panel;
    finite_.reset();
    const PanelSource<T> d_out = ValueRows(problem_.d_out);
    if (pairs()) PackPairColumns(panel, scratch_.lanes, d_out, scratch_.d_out_pairs);
    if (!pairs() || scores_.rows_read()) PackColumns(panel, scratch_.lanes, d_out, scratch_.d_out);
    if (rounds()) {
      PackPairRows(panel, scratch_.lanes, QueryRows(), problem_.cut.head_dim, scratch_.query_row_pairs);
      PackPairRows(panel, scratch_.lanes, d_out, problem_.cut.value_dim, scratch_.d_out_row_pairs);
    }
    if (!rounds() || scores_.rows_read()) PackFloats();
  }

  // sums[w] -= dO . the row of lane w, in the order in which the products of dO and V are summed: where a row looks at one key
  // alone the two are the same number, and the gradient of its score is 0.
  void SubtractProducts(const core::Input& operand, T* sums) {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (pairs()) {
        PackPairColumns(*panel_, scratch_.lanes, ValueRows(operand), scratch_.out_pairs);
        return SubtractPairs(sums);
      }
    }
    PackColumns(*panel_, scratch_.lanes, ValueRows(operand), scratch_.out);
    SubtractSums(sums, [&](int64_t w, auto& sum) HWY_ATTR {
      for (int64_t c = 0; c < shape_.value_dim; ++c)
        for (std::size_t x = 0; x < kVectors; ++x) {
          const int64_t at = c * panel_->width + w + static_cast<int64_t>(x) * kLanes;
          sum[x] = hn::MulAdd(hn::Load(d_, scratch_.out + at), hn::Load(d_, scratch_.d_out + at), sum[x]);
        }
    });
  }

  // d_scores = dO V^T.
  void WeightGradient(const TilePlace& place) {
    T* d_scores = scratch_.d_scores + place.lane_begin;
    if constexpr (sizeof(T) == sizeof(float)) {
      if (pairs()) {
        PairProduct(value_pairs_.AlongElements(place.tile_key, place.key),
                    {scratch_.d_out_pairs + place.lane_begin, panel_->width}, {place.keys, shape_.value_dim, place.lanes()},
                    {d_scores, panel_->width, false}, scratch_.ahead);
        return;
      }
    }
    const HeadRows<const T> rows = values_.At(place.tile_key, place.key, place.keys);
    Product(d_, Scalars<T>{rows.data, rows.row_stride, 1}, {scratch_.d_out + place.lane_begin, panel_->width},
            {place.keys, shape_.value_dim, scores_.BackwardLanes(place)}, Fresh(d_scores, panel_->width), scratch_.ahead);
  }

  // dV += P^T dO, where scratch.weights holds P.
  void AddToValues(const TilePlace& place, Seen seen) {
    if (rounds()) return AddRoundedValues(place, seen);
    AddRows(place, seen, scratch_.weights, d_out_rows_, problem_.cut.value_dim, d_values_);
  }

  // dQ += dS K and dK += dS^T Q, each where wanted; scratch.d_scores holds dS, which may be rounded afterwards.
  void AddToQueriesAndKeys(const TilePlace& place, Seen seen) {
    if (rounds()) {
      AddRoundedGradients(place, seen);
      return;
    }
    if (problem_.d_q.present()) AddColumns(place, seen);
    if (problem_.d_k.present())
      AddRows(place, seen, scratch_.d_scores, {scratch_.query_rows, problem_.cut.head_dim, 1}, problem_.cut.head_dim, d_keys_);
  }

 private:
  bool pairs() const { return problem_.pairs != attention::PairUse::kNone; }
  bool rounds() const { return problem_.pairs == attention::PairUse::kAll; }

  // Queries for dK: in pairs as they are, and then the sums are scaled.
  PanelSource<T> QueryRows() const {
    return {.operand = problem_.q,
            .plan = problem_.plan,
            .elements = shape_.head_dim,
            .factor = static_cast<T>(problem_.plan.scale()),
            .uniform = Uniform::kSkip,
            .scratch = scratch_.rows};
  }
  // Rows of Dv elements as they are.
  PanelSource<T> ValueRows(const core::Input& operand) const {
    return {.operand = operand,
            .plan = problem_.plan,
            .elements = shape_.value_dim,
            .factor = T{1},
            .uniform = Uniform::kTake,
            .scratch = scratch_.rows};
  }

  // The panel's rows in the type of computation.
  void PackFloats() {
    PackRows(*panel_, scratch_.lanes, QueryRows(), problem_.cut.head_dim, panel_->width, scratch_.query_rows);
    const PanelSource<T> d_out = ValueRows(problem_.d_out);
    if (scores_.alone() && panel_->heads == 1 && (d_out.Left(scratch_.lanes) & attention::LowBits(panel_->count)) == 0) {
      const attention::Plan& plan = problem_.plan;
      const auto rows = RowsOf(problem_.d_out, plan.ArrayRow(panel_->b), panel_->head, plan.FirstQuery(panel_->b));
      d_out_rows_ = {reinterpret_cast<const T*>(rows.At(panel_->begin, 0)), rows.row_stride, rows.element_stride};
      if (rows.template Holds<T>() && AreVectors(d_out_rows_, shape_.value_dim)) return;
    }
    d_out_rows_ = {scratch_.d_out_rows, problem_.cut.value_dim, 1};
    PackRows(*panel_, scratch_.lanes, d_out, problem_.cut.value_dim, panel_->width, scratch_.d_out_rows);
  }

  // add(w, sums) adds up what belongs to the quantum of lanes from w on, whose sums do not wait for each other.
  template <class Add>
  HWY_INLINE void SubtractSums(T* sums, const Add& add) {
    for (int64_t w = 0; w < panel_->width; w += attention::kLaneQuantum) {
      // Highway's vectors stand in no std::array on Arm: its functions are compiled for the baseline.
      hn::Vec<hn::ScalableTag<T>> sum[kVectors];
      for (auto& one : sum) one = hn::Zero(d_);
      add(w, sum);
      for (std::size_t x = 0; x < kVectors; ++x) {
        T* at = sums + w + static_cast<int64_t>(x) * kLanes;
        hn::Store(hn::Sub(hn::Load(d_, at), sum[x]), d_, at);
      }
    }
  }

  void SubtractPairs(T* sums) {
    const hn::RebindToUnsigned<hn::ScalableTag<T>> du;
    const DenormalsAsZero zero;
    SubtractSums(sums, [&](int64_t w, auto& sum) HWY_ATTR {
      for (int64_t p = 0; p < attention::DivideUp(shape_.value_dim, 2); ++p)
        for (std::size_t x = 0; x < kVectors; ++x) {
          const int64_t at = p * panel_->width + w + static_cast<int64_t>(x) * kLanes;
          sum[x] = AddPairs(d_, hn::Load(du, scratch_.out_pairs + at), hn::Load(du, scratch_.d_out_pairs + at), sum[x]);
        }
    });
  }

  void AddColumns(const TilePlace& place, Seen seen) {
    const HeadRows<const T> rows = scores_.Keys(place);
    if (seen == Seen::kSome && !AllFinite(d_, rows, place.keys, shape_.head_dim)) {
      ClearBlank(*panel_);
      VisibleProduct(d_, scratch_.lanes, place, rows, shape_.head_dim, scratch_.d_scores, scratch_.d_queries);
      return;
    }
    if (!place.all_used()) ClearBlank(*panel_);
    const Target<T> d_queries{scratch_.d_queries + place.lane_begin, panel_->width, !blank_};
    Product(d_, Scalars<T>{rows.data, 1, rows.row_stride}, {scratch_.d_scores + place.lane_begin, panel_->width},
            {shape_.head_dim, place.keys, scores_.BackwardLanes(place)}, d_queries, scratch_.ahead);
    blank_ = false;
  }

  // sums[key + j, :] += sum over lanes of tile[j, w] * rows[w, :]
  void AddRows(const TilePlace& place, Seen seen, const T* tile, const HeadRows<const T>& rows, int64_t width,
               const HeadRows<T>& sums) {
    if (seen == Seen::kSome && !Finite()) return AddVisibleRows(place, tile, rows, width, sums);
    Product(d_, Scalars<T>{tile + place.lane_begin, panel_->width, 1}, {rows.Row(place.lane_begin), rows.row_stride},
            {place.keys, place.used_end() - place.lane_begin, width},
            Target<T>{sums.Row(place.key - begin_), sums.row_stride, !fresh_}, scratch_.ahead);
  }

  // Whether the panel's queries and gradients are free of NaN and infinity; only boundary tiles need to know.
  bool Finite() {
    if (finite_) return *finite_;
    if (rounds()) {
      finite_ = AllFinitePairs(*panel_, scratch_.lanes, QueryRows()) &&
                AllFinitePairs(*panel_, scratch_.lanes, ValueRows(problem_.d_out));
    } else {
      finite_ =
          AllFinite(d_, HeadRows<const T>{scratch_.query_rows, problem_.cut.head_dim, 1}, panel_->used(), shape_.head_dim) &&
          AllFinite(d_, d_out_rows_, panel_->used(), shape_.value_dim);
    }
    return *finite_;
  }

  // The same over visible pairs only: a query that holds NaN or infinity does not reach keys that it may not look at.
  void AddVisibleRows(const TilePlace& place, const T* tile, const HeadRows<const T>& rows, int64_t width,
                      const HeadRows<T>& sums) {
    const uint64_t* visible = VisibleOf(scratch_.lanes, place);
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
        if ((visible[j] >> w & 1) == 0) continue;
        T* sum = sums.Row(place.key - begin_ + j);
        for (int64_t c = 0; c < width; ++c) sum[c] += tile[j * place.panel + w] * rows.Row(w)[c];
      }
  }

  // What follows rounds weights or gradients of scores to pairs.

  // dV += P^T dO, or dK += dS^T Q in scaled sums, from rows that are rounded already.
  void AddPairRows(const TilePlace& place, const uint32_t* rows, int64_t width, T* sums, float factor) {
    if constexpr (sizeof(T) == sizeof(float))
      PairProduct({scratch_.rounded + place.lane_begin, panel_->width, 2}, {rows + place.lane_begin / 2 * width, width},
                  {place.keys, place.used_end() - place.lane_begin, width},
                  {sums + (place.key - begin_) * width, width, true, factor}, scratch_.ahead);
  }

  // The same over visible pairs only, see AddVisibleRows. tile: rounded.
  void AddVisiblePairRows(const TilePlace& place, const T* tile, const uint32_t* rows, int64_t width, T* sums, T factor) {
    const uint64_t* visible = VisibleOf(scratch_.lanes, place);
    const int64_t count = place.used_end() - place.lane_begin;
    const hn::CappedTag<T, 1> one;
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t c = 0; c < width; ++c) {
        T& total = sums[(place.key - begin_ + j) * width + c];
        auto sum = hn::Set(one, factor == 1 ? total : T{0});
        for (int64_t x = 0; x < count; ++x) {
          const int64_t w = place.lane_begin + StepAt(Steps::kPairs, x, count);
          if ((visible[j] >> w & 1) == 0) continue;
          const auto bits = static_cast<uint16_t>(rows[w / 2 * width + c] >> (w % 2 * 16));
          sum = hn::MulAdd(hn::Set(one, tile[j * place.panel + w]), hn::Set(one, static_cast<T>(ToFloat(BFloat16{bits}))), sum);
        }
        total = hn::GetLane(factor == 1 ? sum : hn::MulAdd(sum, hn::Set(one, factor), hn::Set(one, total)));
      }
  }

  void AddRoundedValues(const TilePlace& place, Seen seen) {
    if constexpr (sizeof(T) == sizeof(float)) {
      const int64_t width = problem_.cut.value_dim, begin = place.lane_begin;
      if (seen == Seen::kSome && !Finite()) {
        RoundInPlace(place, scratch_.weights);
        AddVisiblePairRows(place, scratch_.weights, scratch_.d_out_row_pairs, width, scratch_.d_values, T{1});
        return;
      }
      RoundTile(scratch_.weights + begin, panel_->width, place.keys, place.lanes(),
                {.pairs = nullptr, .rows = scratch_.rounded + begin});
      AddPairRows(place, scratch_.d_out_row_pairs, width, scratch_.d_values, 1);
    }
  }

  void AddRoundedGradients(const TilePlace& place, Seen seen) {
    if constexpr (sizeof(T) == sizeof(float)) {
      const bool queries = problem_.d_q.present(), keys = problem_.d_k.present(), all = seen == Seen::kAll;
      const bool keys_finite = all || !queries || scores_.key_pairs().AllFinite(place.tile_key, place.key, place.keys);
      const bool rows_finite = all || !keys || Finite();
      const int64_t begin = place.lane_begin;
      RoundTile(
          scratch_.d_scores + begin, panel_->width, place.keys, place.lanes(),
          {.pairs = queries ? scratch_.d_score_pairs + begin : nullptr, .rows = keys ? scratch_.rounded + begin : nullptr});
      if (!keys_finite || !rows_finite) RoundInPlace(place, scratch_.d_scores);
      if (queries) AddRoundedColumns(place, keys_finite);
      const int64_t width = problem_.cut.head_dim;
      const T scale = static_cast<T>(problem_.plan.scale());
      if (keys && rows_finite) AddPairRows(place, scratch_.query_row_pairs, width, scratch_.d_keys, scale);
      if (keys && !rows_finite)
        AddVisiblePairRows(place, scratch_.d_scores, scratch_.query_row_pairs, width, scratch_.d_keys, scale);
    }
  }

  void AddRoundedColumns(const TilePlace& place, bool finite) {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (!finite || place.lanes() < panel_->width) ClearBlank(*panel_);
      if (!finite) {
        VisibleProduct(d_, scratch_.lanes, place, scores_.Keys(place), shape_.head_dim, scratch_.d_scores, scratch_.d_queries,
                       Steps::kPairs);
        return;
      }
      const int64_t begin = place.lane_begin;
      PairProduct(scores_.key_pairs().AlongKeys(place.tile_key, place.key), {scratch_.d_score_pairs + begin, panel_->width},
                  {shape_.head_dim, place.keys, place.lanes()}, {scratch_.d_queries + begin, panel_->width, !blank_},
                  scratch_.ahead);
      blank_ = false;
    }
  }

  static constexpr hn::ScalableTag<T> d_{};
  static constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d_));
  static constexpr std::size_t kVectors = attention::kLaneQuantum / hn::MaxLanes(hn::ScalableTag<T>());
  const attention::BackwardProblem<T>& problem_;
  const Shape& shape_;
  attention::BackwardScratch<T>& scratch_;
  Scores<T>& scores_;
  WalkedRows<T> values_;
  WalkedPairs value_pairs_;
  const Panel* panel_ = nullptr;
  HeadRows<T> d_keys_{}, d_values_{};
  HeadRows<const T> d_out_rows_{};  // of the panel: packed, or the caller's own
  bool fresh_ = false;
  int64_t begin_ = 0;           // the first key of the chunk
  bool blank_ = false;          // whether the panel's dQ holds nothing yet, not even zeros
  std::optional<bool> finite_;  // of the panel at hand, once asked for
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
