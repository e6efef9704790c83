// What a tile of a panel of queries and a chunk of keys adds to the gradients, with weights P recomputed from its scores:
//   dP = dO V^T    dS = P (dP - delta)    dV += P^T dO    dQ += dS K    dK += dS^T Q
// in lanes of the type of computation. attention/layout_gradients-inl.h has the other layouts,
// attention/backward_tangent-inl.h has their tangents.
#if defined(HEED_ATTENTION_GRADIENT_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_GRADIENT_PRODUCTS_INL_H_
#undef HEED_ATTENTION_GRADIENT_PRODUCTS_INL_H_
#else
#define HEED_ATTENTION_GRADIENT_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "attention/dropout-inl.h"
#include "attention/normaliser-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"
#include "attention/sight-inl.h"
#include "attention/statistic_terms-inl.h"
#include "simd/lane_sums-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The shape that a chunk is computed over, and its products in lanes of the type of computation.
template <class T>
class GradientProducts {
 public:
  GradientProducts(const attention::BackwardProblem<T>& problem, attention::BackwardScratch<T>& scratch, Scores<T>& scores,
                   std::span<PositionHook<T>* const> hooks, const Normaliser<T>& normaliser)
      : problem_(problem),
        shape_(problem.plan.shape()),
        scratch_(scratch),
        scores_(scores),
        hooks_(hooks),
        normaliser_(normaliser),
        terms_(problem, scratch),
        values_(scratch.values, shape_.value_dim) {}
  virtual ~GradientProducts() = default;
  GradientProducts(const GradientProducts&) = delete;
  GradientProducts& operator=(const GradientProducts&) = delete;

  // How tiles at the edge of what is seen are cut.
  virtual Boundary boundary() const { return Boundary::kStrips; }

  // Keys begin .. end - 1 of a key head from now on.
  virtual void Walk(int64_t b, int64_t kv_head, int64_t begin, int64_t end) {
    values_.Walk(KeysOf(problem_.plan, problem_.v, b, kv_head), begin, end);
    begin_ = begin;
  }

  // Where dK and dV of the walk are summed up from now on: rows from its first key on, whole vectors and aligned.
  void SumInto(const HeadRows<T>& d_keys, const HeadRows<T>& d_values) {
    d_keys_ = d_keys;
    d_values_ = d_values;
  }
  // Whether these hold nothing yet, not even zeros: the panel at hand, which sees all pairs of the walk, then stores.
  void SumsAreFresh(bool fresh) { fresh_ = fresh; }
  // Whether products can be stored that way, and added to the caller's own rows: these hold what a product stores, and stay
  // close to each other or are met once.
  virtual bool stores() const { return true; }
  virtual bool SumsInPlace(const HeadRows<T>& own, int64_t width) const {
    return scores_.alone() && AreVectors(own, width) && (OnePanel() || own.row_stride == width);
  }
  // Whether products ask memory for rows meanwhile.
  virtual bool asks_ahead() const { return true; }
  // Whether all queries of a key head stand in one panel, which finds nothing that another one has brought closer.
  bool OnePanel() const { return attention::PanelsOfKeyHead(problem_.cut, attention::HeadsOfKeyHead(shape_)) == 1; }

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

  // Those of gradients of statistics.
  const StatisticTerms<T>& terms() const { return terms_; }

  // Takes the rows of a panel, whose scores have begun.
  void Begin(const Panel& panel) {
    panel_ = &panel;
    finite_.reset();
    stream_ = StreamOf(problem_.attention.dropout, problem_.dropout, panel.b, panel.heads == 1 ? panel.head : 0);
    Pack();
  }

  // sums[w] -= dO . the row of lane w, in the order in which the products of dO and V are summed: where a row looks at one key
  // alone the two are the same number, and the gradient of its score is 0.
  virtual void SubtractProducts(const core::Input& operand, T* sums) {
    PackColumns(*panel_, scratch_.lanes, ValueRows(operand), scratch_.out);
    SubtractSums(sums, [&](int64_t w, auto& sum) HWY_ATTR {
      for (int64_t c = 0; c < shape_.value_dim; ++c)
        for (std::size_t x = 0; x < kVectors; ++x) {
          const int64_t at = c * panel_->width + w + static_cast<int64_t>(x) * kLanes;
          sum[x] = hn::MulAdd(hn::Load(d_, scratch_.out + at), hn::Load(d_, scratch_.d_out + at), sum[x]);
        }
    });
  }

  // Takes in a tile of the panel.
  virtual void Take(const TileSight& tile) {
    for (const StripSight& strip : tile.strips())
      if (strip.seen != Seen::kNone) TakeStrip(strip);
  }
  // After the last tile of a panel: its dQ is columns.
  virtual void Close() { ClearBlank(*panel_); }

 protected:
  // The rows of a panel as products take them.
  virtual void Pack() {
    PackColumns(*panel_, scratch_.lanes, ValueRows(problem_.d_out), scratch_.d_out);
    PackFloats(panel_->width);
  }
  // d_scores = dO V^T.
  virtual void WeightGradient(const TilePlace& place) {
    const HeadRows<const T> rows = values_.At(place.tile_key, place.key, place.keys);
    Product(d_, Scalars<T>{rows.data, rows.row_stride, 1}, {scratch_.d_out + place.lane_begin, panel_->width},
            {place.keys, shape_.value_dim, scores_.BackwardLanes(place)},
            Fresh(scratch_.d_scores + place.lane_begin, panel_->width), scratch_.ahead);
  }
  // dV += P^T dO, where scratch.weights holds P, which may be rounded afterwards.
  virtual void AddToValues(const StripSight& strip) {
    AddRows(strip, scratch_.weights, d_out_rows_, problem_.cut.value_dim, d_values_);
  }
  // dQ += dS K and dK += dS^T Q, each where wanted; scratch.d_scores holds dS, which may be rounded afterwards.
  virtual void AddToQueriesAndKeys(const StripSight& strip) {
    if (problem_.d_q.present()) AddColumns(strip, scores_.Keys(strip.place), scratch_.d_scores);
    if (problem_.d_k.present()) AddRows(strip, scratch_.d_scores, QueryRows(), problem_.cut.head_dim, d_keys_);
  }

  bool Dropping() const { return problem_.dropout.of_65536 != 0; }
  HeadRows<const T> QueryRows() const { return {scratch_.query_rows, problem_.cut.head_dim, 1}; }

  // d_queries[:, w] += sum over keys of rows[j, :] * tile[j, w]
  void AddColumns(const StripSight& strip, const HeadRows<const T>& rows, const T* tile) {
    const TilePlace& place = strip.place;
    if (!TakesAllPairs(strip.seen, [&]() HWY_ATTR { return AllFinite(d_, rows, place.keys, shape_.head_dim); })) {
      ClearBlank(*panel_);
      VisibleProduct(d_, scratch_.lanes, place, rows, shape_.head_dim, tile, scratch_.d_queries);
      return;
    }
    if (!place.all_used()) ClearBlank(*panel_);
    const Target<T> d_queries{scratch_.d_queries + place.lane_begin, panel_->width, !blank_};
    Product(d_, Scalars<T>{rows.data, 1, rows.row_stride}, {tile + place.lane_begin, panel_->width},
            {shape_.head_dim, place.keys, scores_.BackwardLanes(place)}, d_queries, scratch_.ahead);
    blank_ = false;
  }

  // sums[key + j, :] += sum over lanes of tile[j, w] * rows[w, :]
  void AddRows(const StripSight& strip, const T* tile, const HeadRows<const T>& rows, int64_t width, const HeadRows<T>& sums) {
    const TilePlace& place = strip.place;
    if (!TakesAllPairs(strip.seen, [&]() HWY_ATTR { return Finite(); }))
      return AddVisibleRows(place, {tile, panel_->width, 1}, rows, width, sums);
    Product(d_, Scalars<T>{tile + place.lane_begin, panel_->width, 1}, {rows.Row(place.lane_begin), rows.row_stride},
            {place.keys, place.used_end() - place.lane_begin, width},
            Target<T>{sums.Row(place.key - begin_), sums.row_stride, !fresh_}, scratch_.ahead);
  }

  // The same over visible pairs only: a query that holds NaN or infinity does not reach keys that it may not look at.
  void AddVisibleRows(const TilePlace& place, const Scalars<T>& tile, const HeadRows<const T>& rows, int64_t width,
                      const HeadRows<T>& sums) {
    const uint64_t* visible = VisibleOf(scratch_.lanes, place);
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
        if ((visible[j] >> w & 1) == 0) continue;
        T* sum = sums.Row(place.key - begin_ + j);
        const T factor = tile.data[j * tile.row_stride + w * tile.step_stride];
        for (int64_t c = 0; c < width; ++c) sum[c] = MulAddOne(factor, rows.Row(w)[c], sum[c]);
      }
  }

  // Whether the panel's queries and gradients are free of NaN and infinity.
  virtual bool FindFinite() {
    return AllFinite(d_, QueryRows(), panel_->used(), shape_.head_dim) &&
           AllFinite(d_, d_out_rows_, panel_->used(), shape_.value_dim);
  }
  // The same; only boundary tiles need to know.
  bool Finite() {
    if (!finite_) finite_ = FindFinite();
    return *finite_;
  }

  // Queries for dK: in pairs as they are, and then the sums are scaled.
  PanelSource<T> Queries() const {
    return {problem_.q, problem_.plan, static_cast<T>(problem_.plan.scale()), Uniform::kSkip, scratch_.rows};
  }
  // Rows of Dv elements as they are.
  PanelSource<T> ValueRows(const core::Input& operand) const {
    return {operand, problem_.plan, T{1}, Uniform::kTake, scratch_.rows};
  }

  // The panel's rows in the type of computation, and zeros up to `room` rows.
  void PackFloats(int64_t room) {
    PackRows(*panel_, scratch_.lanes, Queries(), problem_.cut.head_dim, room, scratch_.query_rows);
    const PanelSource<T> d_out = ValueRows(problem_.d_out);
    if (scores_.alone() && panel_->heads == 1 && (d_out.Left(scratch_.lanes) & attention::LowBits(panel_->count)) == 0) {
      const auto rows = QueriesOf(problem_.plan, problem_.d_out, panel_->b, panel_->head);
      d_out_rows_ = {reinterpret_cast<const T*>(rows.At(panel_->begin, 0)), rows.row_stride, rows.element_stride};
      if (rows.template Holds<T>() && AreVectors(d_out_rows_, shape_.value_dim)) return;
    }
    d_out_rows_ = {scratch_.d_out_rows, problem_.cut.value_dim, 1};
    PackRows(*panel_, scratch_.lanes, d_out, problem_.cut.value_dim, room, scratch_.d_out_rows);
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

 private:
  void TakeStrip(const StripSight& strip) {
    const TilePlace& place = strip.place;
    const bool scores = problem_.wants_scores;
    T* d_keys = problem_.d_k.present() ? scratch_.d_keys + (place.key - begin_) * problem_.cut.head_dim : nullptr;
    scores_.Fill(strip, scratch_.weights, d_keys);
    if (strip.seen == Seen::kSome) scores_.Mask(place, -std::numeric_limits<T>::infinity(), scratch_.weights);
    if (scores) {
      WeightGradient(place);
      for (PositionHook<T>* hook : hooks_) hook->AddToWeightGradient(place, scratch_.d_scores);
    }
    if (Dropping()) {
      WeighTile<true>(place);
    } else {
      WeighTile<false>(place);
    }
    if (scores) {
      // Masked pairs and uniform lanes have no gradient of the score, whatever a masked value holds.
      if (strip.seen == Seen::kSome) scores_.Mask(place, T{0}, scratch_.d_scores);
      scores_.Accumulate(place, scratch_.d_scores);
    }
    for (PositionHook<T>* hook : hooks_)
      if (hook->weighs()) hook->Weigh(place, scratch_.weights);
    if (problem_.d_v.present()) AddToValues(strip);
    if (PositionHook<T>* multiplier = scores_.multiplier(); multiplier && scores) {
      multiplier->MultiplyGradient(place, strip.seen, scratch_.d_scores);
    } else {
      AddToQueriesAndKeys(strip);
    }
  }

  // How much there is to do for the gradients of a tile's scores.
  enum class Of { kNothing, kOutput, kOutputAndStatistics };

  template <bool kDropout>
  void WeighTile(const TilePlace& place) {
    if (!problem_.wants_scores) return Weigh<kDropout, Of::kNothing>(place);
    if (!terms_.present()) return Weigh<kDropout, Of::kOutput>(place);
    terms_.Fill(place);
    Weigh<kDropout, Of::kOutputAndStatistics>(place);
  }

  // weights = p, with dropout kept p / keep; d_scores = p * (dP - delta), where d_scores holds dP, with dropout dO.V, of which
  // dP is what is kept over keep. delta is subtracted last: in rows of nearly one key the two are nearly the same, and products
  // that began with delta would be rounded at its size all the way.
  template <bool kDropout, Of kOf>
  void Weigh(const TilePlace& place) {
    constexpr bool kTerms = kOf == Of::kOutputAndStatistics;
    const auto scale = hn::Set(d_, static_cast<T>(problem_.dropout.kept_scale));
    const auto lanes_from = [&](int64_t w) HWY_ATTR {
      const auto minus_delta = hn::Load(d_, scratch_.minus_delta + w);
      const auto entropy = kTerms ? terms_.EntropyFactorAt(w) : minus_delta;
      return [&, w, of = normaliser_.At(w), minus_delta, entropy](int64_t j, hn::Mask<decltype(d_)> dropped) HWY_ATTR {
        T *weight = scratch_.weights + j * place.panel + w, *gradient = scratch_.d_scores + j * place.panel + w;
        const auto p = of.Weight(weight);
        hn::Store(kDropout ? hn::Mul(p, hn::IfThenZeroElse(dropped, scale)) : p, d_, weight);
        if (kOf == Of::kNothing) return;
        const auto d_weight = hn::Load(d_, gradient);
        auto kept = kDropout ? hn::IfThenZeroElse(dropped, hn::Mul(scale, d_weight)) : d_weight;
        if (kTerms) kept = hn::Add(kept, terms_.Of(terms_.Filled(place, j, w), p, entropy));
        hn::Store(hn::Mul(p, hn::Add(kept, minus_delta)), d_, gradient);
      };
    };
    if (kDropout) return ForEachDropped(d_, stream_, place, lanes_from);
    for (int64_t w = place.lane_begin; w < place.lane_end; w += kLanes) {
      const auto visit = lanes_from(w);
      for (int64_t j = 0; j < place.keys; ++j) visit(j, hn::FirstN(d_, 0));
    }
  }

 protected:
  static constexpr hn::ScalableTag<T> d_{};
  static constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d_));
  static constexpr std::size_t kVectors = attention::kLaneQuantum / hn::MaxLanes(hn::ScalableTag<T>());
  const attention::BackwardProblem<T>& problem_;
  const Shape& shape_;
  attention::BackwardScratch<T>& scratch_;
  Scores<T>& scores_;
  std::span<PositionHook<T>* const> hooks_;
  const Normaliser<T>& normaliser_;
  StatisticTerms<T> terms_;
  RowCache<T> values_;
  DropoutStream stream_{};
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
