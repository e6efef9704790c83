// The gradients of o = softmax(s) v with s = scale * q.k + bias, given dO:
//   p = exp(s - lse)    dV += p_dropped^T dO    dP = dropped(dO V^T)    dS = p (dP - delta)    dQ = scale dS K
//   dK = scale dS^T Q
// with delta[i] = dO[i].O[i]; it holds with dropout because O already contains it.
//
// Dao 2023, "FlashAttention-2", algorithm 2, with heed's layout: scores and dS are stored [key, query], so that every product
// is broadcast scalars times vectors and nothing is transposed. A chunk of keys has dK and dV of its own for each piece of the
// queries, which are added in the order of the pieces, and its share of dQ in the order of the chunks, whoever computes them.
#if defined(HEED_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_BACKWARD_INL_H_
#undef HEED_ATTENTION_BACKWARD_INL_H_
#else
#define HEED_ATTENTION_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "attention/dropout-inl.h"
#include "attention/few_gradients-inl.h"
#include "attention/gradient_products-inl.h"
#include "attention/mask-inl.h"
#include "attention/normaliser-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class BackwardChunk {
 public:
  BackwardChunk(const attention::BackwardProblem<T>& problem, attention::BackwardScratch<T>& scratch,
                std::span<PositionHook<T>* const> hooks)
      : problem_(problem),
        shape_(problem.plan.shape()),
        scratch_(scratch),
        hooks_(hooks),
        scores_(problem, scratch, hooks),
        products_(problem, scratch, scores_),
        normaliser_(scratch.minus_lse, scratch.share, scratch.reference, scratch.sum),
        few_(problem, scratch, scores_, normaliser_),
        in_rows_(scores_.in_rows()) {}

  // The share of one piece of the queries of one key head in dK and dV of one chunk of its keys, and the chunk's share of their
  // dQ. next: what is likely to come after it, or null.
  void Run(const attention::ChunkPlace& place, const attention::ChunkPlace* next) {
    const attention::Plan& plan = problem_.plan;
    const attention::Cut& cut = problem_.cut;
    const int64_t b = place.b, kv_head = place.kv_head, group = shape_.q_heads / shape_.kv_heads;
    next_ = next;
    chunk_ = place.chunk;
    block_ = place.block;
    begin_ = chunk_ * cut.chunk;
    end_ = std::max(begin_, std::min(begin_ + cut.chunk, plan.KeyCount(b)));
    touched_ = {};
    d_keys_ = SumsOf(problem_.d_k, place, cut.head_dim, shape_.head_dim, scratch_.d_keys);
    d_values_ = SumsOf(problem_.d_v, place, cut.value_dim, shape_.value_dim, scratch_.d_values);
    if (in_rows_) {
      few_.Walk(b, kv_head, begin_, end_, d_keys_, d_values_);
    } else {
      products_.Walk(b, kv_head, begin_, end_);
      products_.SumInto(d_keys_, d_values_);
    }
    const auto [begin, end] = attention::PanelsOfPiece(cut, group, place.piece);
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t h = attention::FirstHead(cut, kv_head, group, panel), after = panel + 1;
      if (panel == begin || panel % cut.panels == 0)
        stream_ = StreamOf(problem_.attention.dropout, problem_.dropout, b, cut.group == 1 ? h : 0);
      upcoming_ = {b, attention::FirstHead(cut, kv_head, group, after), after < end ? after % cut.panels : -1};
      RunPanel(b, h, kv_head, panel % cut.panels);
    }
    if (problem_.pieces_apart()) {
      KeepPiece(place);
    } else {
      AddPiece(place);
    }
  }

 private:
  // Whether all queries of a key head stand in one panel, which finds nothing that another one has brought closer.
  bool alone() const { return attention::PanelsOfKeyHead(problem_.cut, shape_.q_heads / shape_.kv_heads) == 1; }
  int64_t KeyElements() const { return (end_ - begin_) * problem_.cut.head_dim; }
  int64_t ValueElements() const { return (end_ - begin_) * problem_.cut.value_dim; }

  // Where the gradient of a chunk's rows is summed up: in the caller's own where they hold what a product stores and stay
  // close to each other, or are met once; else in `scratch`, from where they are copied.
  HeadRows<T> SumsOf(const core::Output& gradient, const attention::ChunkPlace& place, int64_t padded, int64_t width,
                     T* scratch) const {
    const HeadRows<T> apart{scratch, padded, 1};
    if (!gradient.present() || problem_.cut.pieces > 1 || !(hooks_.empty() || in_rows_)) return apart;
    const attention::Plan& plan = problem_.plan;
    const StoredRows<std::byte> rows = RowsOf(gradient, plan.ArrayRow(place.b), place.kv_head, plan.FirstKey(place.b));
    if (!rows.template Holds<T>()) return apart;
    const HeadRows<T> own{reinterpret_cast<T*>(rows.At(begin_, 0)), rows.row_stride, rows.element_stride};
    if (in_rows_) return own.element_stride == 1 ? own : apart;
    return AreVectors(own, width) && (alone() || own.row_stride == width) ? own : apart;
  }

  // Zeros where the sums of the keys begin .. end - 1 of the chunk will be.
  void ClearSums(int64_t begin, int64_t end) {
    const auto clear = [&](const HeadRows<T>& sums, int64_t width) {
      for (int64_t j = begin; j < end; ++j) std::fill_n(sums.Row(j - begin_), width, T{0});
    };
    const bool keys_apart = d_keys_.data == scratch_.d_keys, values_apart = d_values_.data == scratch_.d_values;
    if (problem_.d_k.present()) clear(d_keys_, keys_apart ? problem_.cut.head_dim : shape_.head_dim);
    if (problem_.d_v.present()) clear(d_values_, values_apart ? problem_.cut.value_dim : shape_.value_dim);
  }

  // Before a panel that reaches these keys. Sums of a piece are moved as a whole.
  void Touch(const attention::KeyRange& reach) {
    if (sees()) {
      if (reach.begin < touched_.begin) ClearSums(reach.begin, touched_.begin);
      if (reach.end > touched_.end) ClearSums(touched_.end, reach.end);
      touched_ = {std::min(touched_.begin, reach.begin), std::max(touched_.end, reach.end)};
      return;
    }
    touched_ = problem_.cut.pieces > 1 ? attention::KeyRange{begin_, end_} : reach;
    ClearSums(touched_.begin, touched_.end);
  }

  // Whether any panel of the piece has seen any of the chunk.
  bool sees() const { return !touched_.empty(); }

  // Whether the panel at hand sees all pairs of the chunk, of whose keys it reaches some.
  bool SeesWholeChunk(const attention::KeyRange& reach) const {
    return reach.begin == begin_ && reach.end == end_ && !panel_.range.NeedsMask(begin_, end_) &&
           !problem_.attention.mask.present() && !problem_.plan.hides() &&
           (scratch_.lanes.hidden & attention::LowBits(panel_.used())) == 0;
  }

  // A piece that runs apart from the others of its chunk.
  void KeepPiece(const attention::ChunkPlace& place) {
    const int64_t b = place.b, kv_head = place.kv_head, piece = place.piece;
    const attention::Cut& cut = problem_.cut;
    problem_.PiecesThatSee(b, kv_head, place.chunk)[piece] = sees();
    if (!sees()) return;
    if (problem_.d_k.present())
      std::copy_n(scratch_.d_keys, KeyElements(), problem_.KeyPart(b, kv_head, piece) + begin_ * cut.head_dim);
    if (problem_.d_v.present())
      std::copy_n(scratch_.d_values, ValueElements(), problem_.ValuePart(b, kv_head, piece) + begin_ * cut.value_dim);
  }

  // The pieces of a chunk come one after the other; the last one writes what all of them sum up to.
  void AddPiece(const attention::ChunkPlace& place) {
    const attention::Cut& cut = problem_.cut;
    if (cut.pieces > 1) {
      if (place.piece == 0) any_sees_ = false;
      if (sees()) AddToSums();
      any_sees_ |= sees();
      if (place.piece + 1 < cut.pieces) return;
      touched_ = any_sees_ ? attention::KeyRange{begin_, end_} : attention::KeyRange{};
    }
    const bool sums = cut.pieces > 1 && any_sees_;
    Flush(problem_.d_k, place, shape_.head_dim, cut.head_dim, sums ? scratch_.key_sums : scratch_.d_keys,
          sums || d_keys_.data == scratch_.d_keys);
    Flush(problem_.d_v, place, shape_.value_dim, cut.value_dim, sums ? scratch_.value_sums : scratch_.d_values,
          sums || d_values_.data == scratch_.d_values);
  }

  void AddToSums() {
    const auto add = [&](T*& piece, T*& sums, int64_t count) {
      if (any_sees_) {
        for (int64_t x = 0; x < count; ++x) sums[x] += piece[x];
      } else {
        std::swap(piece, sums);
      }
    };
    if (problem_.d_k.present()) add(scratch_.d_keys, scratch_.key_sums, KeyElements());
    if (problem_.d_v.present()) add(scratch_.d_values, scratch_.value_sums, ValueElements());
  }

  void RunPanel(int64_t b, int64_t h, int64_t kv_head, int64_t index) {
    panel_ = MakePanel(problem_.plan, problem_.cut, b, h, index, scratch_.lanes);
    if (panel_.count == 0) return;
    const attention::Cut& cut = problem_.cut;
    const attention::KeyRange reach =
        NarrowPanel(problem_.plan, panel_, attention::ChunkOf(panel_.range.reach, chunk_, cut), cut.tile);
    products_.Blank();
    if (in_rows_) few_.ClearQueries(panel_.used());
    if (!reach.empty()) {
      ReadLogSumExps();
      const bool stores = !sees() && hooks_.empty() && (in_rows_ || products_.stores()) && SeesWholeChunk(reach);
      if (stores) {
        touched_ = reach;
      } else {
        Touch(reach);
      }
      products_.SumsAreFresh(stores);
      few_.SumsAreFresh(stores);
      scores_.Begin(panel_, kv_head, {begin_, end_});
      Pack();
      const PanelArrays<T> arrays{.b = b,
                                  .head = h,
                                  .panel = panel_.width,
                                  .used = panel_.used(),
                                  .blind = scratch_.lanes.uniform | scratch_.lanes.idle,
                                  .queries = scratch_.queries,
                                  .block = block_,
                                  .chunk = chunk_,
                                  .zero_sums = !problem_.d_lse.present() && !scores_.transforms(),
                                  .query_rows = scratch_.query_rows,
                                  .d_out = scratch_.d_out,
                                  .d_out_rows = scratch_.d_out_rows,
                                  .d_queries = problem_.d_q.present() ? scratch_.d_queries : nullptr};
      for (PositionHook<T>* hook : hooks_) hook->Begin(arrays);
      scores_.Survey(panel_, cut.tile, panel_.range.reach, scratch_.weights);
      if (!in_rows_) AskAhead(b, h, kv_head);
      normaliser_.Prepare(panel_, cut.tile, scratch_.lanes, scores_, scratch_, scratch_.weights);
      const bool far =
          !in_rows_ && ((alone() && scores_.far()) || ComeFromFar({begin_, end_}, shape_, core::BytesOf(problem_.k.element)));
      const auto take = [&](const Strips& strips) HWY_ATTR {
        if (far) AskForTile(strips.places[0].tile_key + cut.tile, reach.end);
        for (const TilePlace& place : strips.all()) Tile(place, strips.masked);
      };
      ForEachTile(panel_, cut.tile, reach, scratch_.lanes, take, in_rows_ ? Boundary::kPiece : Boundary::kStrips);
      products_.ClearBlank(panel_);
      for (PositionHook<T>* hook : hooks_) hook->End(arrays);
    }
    products_.ClearBlank(panel_);
    if (problem_.d_q.present() && (!reach.empty() || chunk_ == 0)) AddToQueries();
  }

  // Asks for the rows that this panel writes and for those that the next one begins with; behind the last panel of a piece for
  // the chunk's own gradients and for the next chunk.
  void AskAhead(int64_t b, int64_t h, int64_t kv_head) {
    const attention::Plan& plan = problem_.plan;
    simd::Ahead& ahead = scratch_.ahead;
    ahead.Clear();
    const auto rows = [&](const auto& operand, int64_t row, int64_t head) {
      return RowsOf(operand, plan.ArrayRow(row), head, plan.FirstQuery(row));
    };
    const auto panel = [&](int64_t row, int64_t first, int64_t place) {
      const int64_t begin = place * problem_.cut.panel, count = std::min(problem_.cut.panel, plan.QueryCount(row) - begin);
      for (int64_t head = first; head < first + problem_.cut.group; ++head) {
        AskFor(rows(problem_.q, row, head), begin, count, shape_.head_dim, ahead);
        AskFor(rows(problem_.d_out, row, head), begin, count, shape_.value_dim, ahead);
        AskFor(rows(problem_.out, row, head), begin, count, shape_.value_dim, ahead);
      }
    };
    for (int64_t x = 0; problem_.d_q.present() && x < panel_.heads; ++x)
      AskFor(rows(problem_.d_q, b, h + x), panel_.begin, panel_.count, shape_.head_dim, ahead);
    if (upcoming_.index >= 0) {
      panel(upcoming_.b, upcoming_.head, upcoming_.index);
    } else {
      const auto keys = [&](const auto& operand, int64_t row, int64_t head, int64_t begin, int64_t width) {
        const int64_t count = std::min(problem_.cut.chunk, plan.KeyCount(row) - begin);
        AskFor(RowsOf(operand, plan.ArrayRow(row), head, plan.FirstKey(row)), begin, count, width, ahead);
      };
      if (problem_.d_k.present()) keys(problem_.d_k, b, kv_head, begin_, shape_.head_dim);
      if (problem_.d_v.present()) keys(problem_.d_v, b, kv_head, begin_, shape_.value_dim);
      if (!next_) return;
      const int64_t group = shape_.q_heads / shape_.kv_heads, first = next_->piece * problem_.cut.piece;
      panel(next_->b, attention::FirstHead(problem_.cut, next_->kv_head, group, first), first % problem_.cut.panels);
      if (next_->b == b && next_->kv_head == kv_head && next_->chunk == chunk_) return;
      keys(problem_.k, next_->b, next_->kv_head, next_->chunk * problem_.cut.chunk, shape_.head_dim);
      keys(problem_.v, next_->b, next_->kv_head, next_->chunk * problem_.cut.chunk, shape_.value_dim);
    }
  }

  // Asks for the keys and values of a tile and for what is added to there.
  void AskForTile(int64_t begin, int64_t end) {
    end = std::min(end, begin + problem_.cut.tile);
    scores_.AskForKeys(begin, end);
    products_.AskForKeys(begin, end);
  }

  void ReadLogSumExps() {
    ReadRowNumbers(problem_.lse, -std::numeric_limits<T>::infinity(), scratch_.minus_lse);
    HideRowsWithoutWeights(panel_, scratch_.minus_lse, scratch_.lanes);
  }

  // After ReadLogSumExps.
  void Pack() {
    if (in_rows_) {
      few_.Begin(panel_);
    } else {
      products_.Begin(panel_);
    }
    ReadRowNumbers(problem_.correction, T{0}, scratch_.share);
    normaliser_.Set(panel_.width);
    // d lse / d s is p too, so its gradient joins the term that p multiplies.
    ReadRowNumbers(problem_.d_lse, T{0}, scratch_.minus_delta);
    if (!problem_.wants_scores) return;
    const auto subtract = [&](auto& products) {
      products.SubtractProducts(problem_.out, scratch_.minus_delta);
      if (problem_.remainder.data) products.SubtractProducts(problem_.remainder, scratch_.minus_delta);
    };
    if (in_rows_) {
      subtract(few_);
    } else {
      subtract(products_);
    }
  }

  // The number of each lane; `otherwise` where the lane is idle, or nothing is given.
  void ReadRowNumbers(const View<const T, 3>& view, T otherwise, T* numbers) const {
    const int64_t count = view.present() ? panel_.used() : 0, row = problem_.plan.ArrayRow(panel_.b);
    for (int64_t w = 0; w < count; ++w)
      numbers[w] = view(row, scratch_.lanes.head[w], problem_.plan.FirstQuery(panel_.b) + scratch_.lanes.query[w]);
    std::fill(numbers + count, numbers + panel_.width, otherwise);
    for (uint64_t idle = scratch_.lanes.idle; idle != 0; idle &= idle - 1) numbers[std::countr_zero(idle)] = otherwise;
  }

  void Tile(const TilePlace& place, bool masked) {
    if (in_rows_) return few_.Tile(place, masked);
    const Seen seen = scores_.See(place, masked);
    if (seen == Seen::kNone) return;
    T* d_keys = problem_.d_k.present() ? scratch_.d_keys + (place.key - begin_) * problem_.cut.head_dim : nullptr;
    scores_.Fill(place, seen, scores_.KeysRead(place), scratch_.weights, d_keys);
    if (seen == Seen::kSome) scores_.Mask(place, -std::numeric_limits<T>::infinity(), scratch_.weights);
    if (problem_.wants_scores) {
      WeightsAndScores(place, seen);
    } else {
      WeightsAlone(place);
    }
    for (PositionHook<T>* hook : hooks_)
      if (hook->weighs()) hook->Weigh(place, scratch_.weights);
    Products(place, seen);
  }

  void WeightsAndScores(const TilePlace& place, Seen seen) {
    WeightGradient(place);
    if (Dropping()) {
      DroppedGradient(place);
    } else {
      ScoreGradient(place);
    }
    // Masked pairs and uniform lanes have no gradient of the score, whatever a masked value holds.
    if (seen == Seen::kSome) scores_.Mask(place, T{0}, scratch_.d_scores);
    scores_.Accumulate(place, scratch_.d_scores);
  }

  // d_scores = dP, the gradient of the weights as far as it is known without delta.
  void WeightGradient(const TilePlace& place) {
    products_.WeightGradient(place);
    for (PositionHook<T>* hook : hooks_) hook->AddToWeightGradient(place, scratch_.d_scores);
  }

  bool Dropping() const { return problem_.dropout.of_65536 != 0; }

  // weights = p; d_scores = p * (dP - delta), where d_scores holds dP. delta is subtracted last: in rows of nearly one key the
  // two are nearly the same, and products that began with delta would be rounded at its size all the way.
  void ScoreGradient(const TilePlace& place) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t w = place.lane_begin; w < place.lane_end; w += lanes) {
      const typename Normaliser<T>::Lanes of = normaliser_.At(w);
      const auto minus_delta = hn::Load(d_, scratch_.minus_delta + w);
      T *weights = scratch_.weights + w, *d_scores = scratch_.d_scores + w;
      for (int64_t j = 0; j < place.keys; ++j) {
        const int64_t at = j * place.panel;
        const auto p = of.Weight(weights + at);
        hn::Store(p, d_, weights + at);
        hn::Store(hn::Mul(p, hn::Add(hn::Load(d_, d_scores + at), minus_delta)), d_, d_scores + at);
      }
    }
  }

  // The same with dropout, where d_scores holds dO.V: weights = kept p / keep, d_scores = p * (kept dO.V / keep - delta).
  void DroppedGradient(const TilePlace& place) {
    const auto scale = hn::Set(d_, static_cast<T>(problem_.dropout.kept_scale));
    ForEachDropped(d_, stream_, place, [&](int64_t w) HWY_ATTR {
      const auto minus_delta = hn::Load(d_, scratch_.minus_delta + w);
      return [&, w, of = normaliser_.At(w), minus_delta](int64_t j, hn::Mask<decltype(d_)> dropped) HWY_ATTR {
        T* weight = scratch_.weights + j * place.panel + w;
        T* gradient = scratch_.d_scores + j * place.panel + w;
        const auto p = of.Weight(weight);
        const auto share = hn::IfThenZeroElse(dropped, scale);
        const auto d_weight = hn::IfThenZeroElse(dropped, hn::Mul(scale, hn::Load(d_, gradient)));
        hn::Store(hn::Mul(p, share), d_, weight);
        hn::Store(hn::Mul(p, hn::Add(d_weight, minus_delta)), d_, gradient);
      };
    });
  }

  // weights = p, with dropout kept p / keep, where nobody wants a gradient of the scores.
  void WeightsAlone(const TilePlace& place) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t w = place.lane_begin; w < place.lane_end && !Dropping(); w += lanes)
      for (int64_t j = 0; j < place.keys; ++j) {
        T* weight = scratch_.weights + j * place.panel + w;
        hn::Store(normaliser_.At(w).Weight(weight), d_, weight);
      }
    if (!Dropping()) return;
    const auto scale = hn::Set(d_, static_cast<T>(problem_.dropout.kept_scale));
    ForEachDropped(d_, stream_, place, [&](int64_t w) HWY_ATTR {
      return [&, w, of = normaliser_.At(w)](int64_t j, hn::Mask<decltype(d_)> dropped) HWY_ATTR {
        T* weight = scratch_.weights + j * place.panel + w;
        hn::Store(hn::Mul(of.Weight(weight), hn::IfThenZeroElse(dropped, scale)), d_, weight);
      };
    });
  }

  void Products(const TilePlace& place, Seen seen) {
    if (problem_.d_v.present()) products_.AddToValues(place, seen);
    if (PositionHook<T>* multiplier = scores_.multiplier(); multiplier && problem_.wants_scores) {
      multiplier->MultiplyGradient(place, seen == Seen::kSome, scratch_.d_scores);
      return;
    }
    products_.AddToQueriesAndKeys(place, seen);
  }

  // The panel's dQ of this chunk: to the caller's rows, or to rows in T where those are narrower, or, for chunks after the
  // first that run apart, to rows of their own.
  void AddToQueries() {
    const bool apart = problem_.d_q_parts != nullptr && chunk_ > 0, first = chunk_ == 0 || apart;
    const T scale = static_cast<T>(problem_.plan.scale());
    // Queries that look at no key, or at all alike, have no gradient, whatever the keys of their neighbours hold.
    const uint64_t still = (scratch_.lanes.uniform | scratch_.lanes.idle) & attention::LowBits(panel_.used());
    const auto store = [&](T* to, int64_t stride) HWY_ATTR {
      if (in_rows_) return few_.StoreQueries(panel_.used(), scale, to, stride);
      Transpose(static_cast<const T*>(scratch_.d_queries), panel_.width, shape_.head_dim, panel_.used(), scale, to, stride);
    };
    if (const HeadRows<T> rows = QuerySums(0, apart); panel_.heads == 1 && first && rows.element_stride == 1 && still == 0)
      return store(rows.Row(panel_.begin), rows.row_stride);
    T* shares = scratch_.query_rows;  // packed queries are no longer needed
    const int64_t stride = problem_.cut.head_dim;
    store(shares, stride);
    for (int64_t w = 0; w < panel_.used(); ++w) {
      const HeadRows<T> rows = QuerySums(w / panel_.count, apart);
      T* row = rows.Row(panel_.begin + w % panel_.count);
      if (still >> w & 1) std::fill_n(shares + w * stride, shape_.head_dim, T{0});
      if (first) {
        for (int64_t c = 0; c < shape_.head_dim; ++c) row[c * rows.element_stride] = shares[w * stride + c];
      } else {
        for (int64_t c = 0; c < shape_.head_dim; ++c) row[c * rows.element_stride] += shares[w * stride + c];
      }
    }
  }

  // Where dQ of head x of the panel is summed up.
  HeadRows<T> QuerySums(int64_t x, bool apart) const {
    const int64_t b = panel_.b, h = panel_.head + x;
    if (apart) return {problem_.QueryPart(b, h, chunk_), shape_.head_dim, 1};
    if (problem_.d_q_wide) return {problem_.WideQueries(b, h), shape_.head_dim, 1};
    const StoredRows<std::byte> own = RowsOf(problem_.d_q, problem_.plan.ArrayRow(b), h, problem_.plan.FirstQuery(b));
    return {reinterpret_cast<T*>(own.data), own.row_stride, own.element_stride};
  }

  // Writes the sums of a chunk where they stand apart, and zeros for the keys that nobody has seen.
  void Flush(const core::Output& gradient, const attention::ChunkPlace& place, int64_t width, int64_t padded, const T* sums,
             bool apart) {
    if (!gradient.present()) return;
    const attention::Plan& plan = problem_.plan;
    const StoredRows<std::byte> rows = RowsOf(gradient, plan.ArrayRow(place.b), place.kv_head, plan.FirstKey(place.b));
    const attention::KeyRange seen = sees() ? touched_ : attention::KeyRange{end_, end_};
    ClearRows(rows, begin_, seen.begin, width);
    for (int64_t j = seen.begin; apart && j < seen.end; ++j) StoreRow(sums + (j - begin_) * padded, width, rows, j);
    ClearRows(rows, seen.end, end_, width);
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::BackwardProblem<T>& problem_;
  const Shape& shape_;
  attention::BackwardScratch<T>& scratch_;
  std::span<PositionHook<T>* const> hooks_;
  Scores<T> scores_;
  GradientProducts<T> products_;
  Normaliser<T> normaliser_;
  FewGradients<T> few_;
  bool in_rows_;  // whether the queries are few and work is done in rows
  Panel panel_{};
  DropoutStream stream_{};
  const attention::ChunkPlace* next_ = nullptr;
  attention::PanelPlace upcoming_{};   // the panel after the one at hand, index -1 behind the last
  HeadRows<T> d_keys_{}, d_values_{};  // see SumsOf
  attention::KeyRange touched_{};      // the keys whose sums panels of the piece have reached
  bool any_sees_ = false;              // whether pieces before it have seen any of the chunk
  int64_t chunk_ = 0, block_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
