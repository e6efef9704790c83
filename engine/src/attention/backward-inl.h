// The gradients of o = softmax(s) v with s = scale * q.k + bias, given dO:
//   p = exp(s - lse)    dV += p_dropped^T dO    dP = dropped(dO V^T)    dS = p (dP - delta)    dQ = scale dS K    dK = scale
//   dS^T Q
// with delta[i] = dO[i].O[i]; it holds with dropout because O already contains it.
//
// Dao 2023, "FlashAttention-2", algorithm 2, with heed's layout: scores and dS are stored [key, query], so that every product
// is broadcast scalars times vectors and nothing is transposed. One chunk of keys owns its dK and dV; its share of dQ is
// added in the order of the chunks, whoever computes it.
#if defined(HEED_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_BACKWARD_INL_H_
#undef HEED_ATTENTION_BACKWARD_INL_H_
#else
#define HEED_ATTENTION_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <numbers>

#include "attention/dropout-inl.h"
#include "attention/mask-inl.h"
#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/score_hook-inl.h"
#include "simd/exp2-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class BackwardChunk {
 public:
  BackwardChunk(const attention::BackwardProblem<T>& problem, attention::BackwardScratch<T>& scratch, ScoreHook<T>* hook)
      : problem_(problem), shape_(problem.plan.shape()), scratch_(scratch), hook_(hook) {}

  // dK and dV of one chunk of keys, and the chunk's share of dQ, over all query heads of one key head.
  void Run(int64_t b, int64_t kv_head, int64_t chunk) {
    chunk_ = chunk;
    begin_ = chunk * problem_.cut.chunk;
    end_ = std::min(begin_ + problem_.cut.chunk, shape_.kv_len);
    std::fill_n(scratch_.d_keys, (end_ - begin_) * problem_.cut.head_dim, T{0});
    std::fill_n(scratch_.d_values, (end_ - begin_) * problem_.cut.value_dim, T{0});
    keys_ = RowsOf(problem_.k, b, kv_head);
    values_ = RowsOf(problem_.v, b, kv_head);
    const int64_t group = shape_.q_heads / shape_.kv_heads;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      stream_ = StreamOf(problem_.attention.dropout, problem_.dropout, b, h);
      for (int64_t index = 0; index < problem_.cut.panels; ++index) RunPanel(b, h, index);
    }
    Flush(RowsOf(problem_.d_k, b, kv_head), shape_.head_dim, problem_.cut.head_dim, scratch_.d_keys);
    Flush(RowsOf(problem_.d_v, b, kv_head), shape_.value_dim, problem_.cut.value_dim, scratch_.d_values);
  }

 private:
  void RunPanel(int64_t b, int64_t h, int64_t index) {
    panel_ = MakePanel(problem_.plan, problem_.cut, b, h, index, scratch_.lanes);
    const attention::KeyRange reach = attention::ChunkReach(problem_.cut, panel_.range.reach, chunk_);
    std::fill_n(scratch_.d_queries, shape_.head_dim * panel_.width, T{0});
    if (!reach.empty()) {
      Pack(b, h);
      ForEachTile(panel_, problem_.cut.tile, reach, scratch_.lanes,
                  [&](const TilePlace& place, bool masked) HWY_ATTR { Tile(place, masked); });
    }
    if (!reach.empty() || chunk_ == 0) AddToQueries(b, h);
  }

  void Pack(int64_t b, int64_t h) {
    const attention::LaneScratch<T>& lanes = scratch_.lanes;
    const HeadRows<const T> q = RowsOf(problem_.q, b, h), d_out = RowsOf(problem_.d_out, b, h),
                            out = RowsOf(problem_.out, b, h);
    const double scale = problem_.plan.scale();
    PackColumns(panel_, lanes, {q, shape_.head_dim, static_cast<T>(scale * std::numbers::log2e), true}, scratch_.queries);
    PackRows(panel_, lanes, {q, shape_.head_dim, static_cast<T>(scale), true}, problem_.cut.head_dim, scratch_.query_rows);
    PackColumns(panel_, lanes, {d_out, shape_.value_dim, T{1}, false}, scratch_.d_out);
    PackRows(panel_, lanes, {d_out, shape_.value_dim, T{1}, false}, problem_.cut.value_dim, scratch_.d_out_rows);
    for (int64_t w = 0; w < panel_.width; ++w) {
      scratch_.minus_lse[w] = -std::numeric_limits<T>::infinity();
      scratch_.minus_delta[w] = 0;
      if (!lanes.keys[w].active()) continue;
      const int64_t i = panel_.begin + w;
      const T lse = problem_.lse(b, h, i);
      // A live row whose scores are all -inf has no weights: 0 * exp(...), not exp(inf).
      if (lse != -std::numeric_limits<T>::infinity())
        scratch_.minus_lse[w] = static_cast<T>(static_cast<double>(lse) * -std::numbers::log2e);
      const HeadRows<const T> row{out.Row(i), 0, out.element_stride};
      scratch_.minus_delta[w] = -Dot(d_, scratch_.d_out_rows + w * problem_.cut.value_dim, row, shape_.value_dim);
    }
  }

  void Tile(const TilePlace& place, bool masked) {
    const HeadRows<const T> key_rows = UnitRows(keys_, place.key, place.keys, shape_.head_dim, scratch_.keys);
    const HeadRows<const T> value_rows = UnitRows(values_, place.key, place.keys, shape_.value_dim, scratch_.values);
    Scores(place, key_rows);
    Product(d_, Scalars<T>{value_rows.data, value_rows.row_stride, 1}, {scratch_.d_out + place.lane_begin, panel_.width},
            place.keys, shape_.value_dim, place.lanes(), Dropping() ? Start::kZero : Start::kColumns,
            static_cast<const T*>(scratch_.minus_delta + place.lane_begin),
            {scratch_.d_scores + place.lane_begin, panel_.width});
    if (masked) MaskTile(d_, scratch_.lanes, place, -std::numeric_limits<T>::infinity(), scratch_.minus_lse, scratch_.weights);
    if (Dropping()) {
      DroppedGradient(place);
    } else {
      ScoreGradient(place);
    }
    if (masked) MaskGradient(place);
    if (hook_) hook_->Accumulate(place, scratch_.d_scores);
    Products(place, masked, key_rows);
  }

  bool Dropping() const { return problem_.dropout.of_65536 != 0; }

  // weights[j, w] = (scale q.k + bias) log2(e) - lse, to be exponentiated
  void Scores(const TilePlace& place, const HeadRows<const T>& rows) {
    if (hook_) hook_->Fill(place, scratch_.minus_lse, scratch_.weights);
    Product(d_, Scalars<T>{rows.data, rows.row_stride, 1}, {scratch_.queries + place.lane_begin, panel_.width}, place.keys,
            shape_.head_dim, place.lanes(), hook_ ? Start::kMemory : Start::kColumns,
            static_cast<const T*>(scratch_.minus_lse + place.lane_begin), {scratch_.weights + place.lane_begin, panel_.width});
  }

  // weights = p; d_scores = p * (dP - delta), where d_scores holds dP - delta.
  void ScoreGradient(const TilePlace& place) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = place.lane_begin; w < place.lane_end; w += lanes) {
        const int64_t at = j * place.panel + w;
        const auto p = Exp2(d_, hn::Load(d_, scratch_.weights + at));
        hn::Store(p, d_, scratch_.weights + at);
        hn::Store(hn::Mul(p, hn::Load(d_, scratch_.d_scores + at)), d_, scratch_.d_scores + at);
      }
  }

  // The same with dropout, where d_scores holds dO.V: weights = kept p / keep, d_scores = p * (kept dO.V / keep - delta).
  void DroppedGradient(const TilePlace& place) {
    const auto scale = hn::Set(d_, static_cast<T>(problem_.dropout.kept_scale));
    ForEachKept(d_, stream_, place, [&](int64_t j, int64_t w, hn::Mask<decltype(d_)> kept) HWY_ATTR {
      T* weight = scratch_.weights + j * place.panel + w;
      T* gradient = scratch_.d_scores + j * place.panel + w;
      const auto p = Exp2(d_, hn::Load(d_, weight));
      const auto share = hn::IfThenElseZero(kept, scale);
      const auto d_weight = hn::IfThenElseZero(kept, hn::Mul(scale, hn::Load(d_, gradient)));
      hn::Store(hn::Mul(p, share), d_, weight);
      hn::Store(hn::Mul(p, hn::Add(d_weight, hn::Load(d_, scratch_.minus_delta + w))), d_, gradient);
    });
  }

  // Masked pairs and uniform lanes have no gradient of the score, whatever a masked value holds.
  void MaskGradient(const TilePlace& place) {
    MaskTile(d_, scratch_.lanes, place, T{0}, static_cast<const T*>(nullptr), scratch_.d_scores);
  }

  void Products(const TilePlace& place, bool masked, const HeadRows<const T>& key_rows) {
    if (masked && !AllFinite(d_, key_rows, place.keys, shape_.head_dim)) {
      VisibleProduct(d_, scratch_.lanes, place, key_rows, shape_.head_dim, scratch_.d_scores, scratch_.d_queries);
    } else {
      Product(d_, Scalars<T>{key_rows.data, 1, key_rows.row_stride}, {scratch_.d_scores + place.lane_begin, panel_.width},
              shape_.head_dim, place.keys, place.lanes(), Start::kMemory, static_cast<const T*>(nullptr),
              {scratch_.d_queries + place.lane_begin, panel_.width});
    }
    AddToKeys(place, scratch_.weights, scratch_.d_out_rows, problem_.cut.value_dim, scratch_.d_values);
    AddToKeys(place, scratch_.d_scores, scratch_.query_rows, problem_.cut.head_dim, scratch_.d_keys);
  }

  // sums[key + j, :] += sum over lanes of tile[j, w] * rows[w, :]
  void AddToKeys(const TilePlace& place, const T* tile, const T* rows, int64_t width, T* sums) {
    const int64_t queries = std::min(place.lane_end, panel_.count) - place.lane_begin;
    Product(d_, Scalars<T>{tile + place.lane_begin, panel_.width, 1}, {rows + place.lane_begin * width, width}, place.keys,
            queries, width, Start::kMemory, static_cast<const T*>(nullptr), {sums + (place.key - begin_) * width, width});
  }

  // The panel's dQ of this chunk, to the caller's rows or, for chunks after the first that run apart, to their own.
  void AddToQueries(int64_t b, int64_t h) {
    const bool apart = problem_.d_q_parts != nullptr && chunk_ > 0;
    const HeadRows<T> rows =
        apart ? HeadRows<T>{problem_.QueryPart(b, h, chunk_), shape_.head_dim, 1} : RowsOf(problem_.d_q, b, h);
    const T scale = static_cast<T>(problem_.plan.scale());
    T* shares = scratch_.query_rows;  // packed queries are no longer needed
    const int64_t stride = problem_.cut.head_dim;
    Transpose(static_cast<const T*>(scratch_.d_queries), panel_.width, shape_.head_dim, panel_.count, scale, shares, stride);
    for (int64_t w = 0; w < panel_.count; ++w) {
      T* row = rows.Row(panel_.begin + w);
      if (scratch_.lanes.keys[w].uniform) std::fill_n(shares + w * stride, shape_.head_dim, T{0});
      if (chunk_ == 0 || apart) {
        for (int64_t c = 0; c < shape_.head_dim; ++c) row[c * rows.element_stride] = shares[w * stride + c];
      } else {
        for (int64_t c = 0; c < shape_.head_dim; ++c) row[c * rows.element_stride] += shares[w * stride + c];
      }
    }
  }

  void Flush(const HeadRows<T>& rows, int64_t width, int64_t padded, const T* sums) {
    for (int64_t j = 0; j < end_ - begin_; ++j) {
      T* row = rows.Row(begin_ + j);
      for (int64_t c = 0; c < width; ++c) row[c * rows.element_stride] = sums[j * padded + c];
    }
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::BackwardProblem<T>& problem_;
  const Shape& shape_;
  attention::BackwardScratch<T>& scratch_;
  ScoreHook<T>* hook_;
  Panel panel_{};
  HeadRows<const T> keys_{}, values_{};
  DropoutStream stream_{};
  int64_t chunk_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
