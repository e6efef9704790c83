// The gradients of o = softmax(s) v with s = scale * q.k + bias, given dO:
//   p = exp(s - lse)    dV += p_dropped^T dO    dP = dropped(dO V^T)    dS = p (dP - delta)    dQ = scale dS K
//   dK = scale dS^T Q
// with delta[i] = dO[i].O[i]; it holds with dropout because O already contains it. Gradients of the log-sum-exp and of
// statistics add to dP and delta (attention/statistic_terms-inl.h). A key without a value is part of lse, and of nothing else
// here.
//
// Dao 2023, "FlashAttention-2", algorithm 2, with heed's layout: scores and dS are stored [key, query], so that every product
// is broadcast scalars times vectors and nothing is transposed. A chunk of keys has dK and dV of its own for each piece of the
// queries, which are added in the order of the pieces, and its part of dQ in the order of the chunks, whoever computes them.
#if defined(HEED_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_BACKWARD_INL_H_
#undef HEED_ATTENTION_BACKWARD_INL_H_
#else
#define HEED_ATTENTION_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <span>

#include "attention/gradient_home-inl.h"
#include "attention/layout_gradients-inl.h"
#include "attention/normaliser-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"

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
        normaliser_(problem, scratch.lanes, scratch.minus_lse, scratch.correction, scratch.reference, scratch.sum),
        key_home_(problem, scratch),
        query_home_(problem, scratch) {
    Choose(problem, scratch, scores_, hooks, normaliser_, products_);
  }

  // What one piece of the queries of one key head in dK and dV of one chunk of its keys, and the chunk's part of their
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
    key_home_.Begin(place, {begin_, end_}, *products_);
    products_->Walk(b, kv_head, begin_, end_);
    products_->SumInto(key_home_.d_keys(), key_home_.d_values());
    const auto [begin, end] = attention::PanelsOfPiece(cut, group, place.piece);
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t h = attention::FirstHead(cut, kv_head, group, panel), after = panel + 1;
      upcoming_ = {b, attention::FirstHead(cut, kv_head, group, after), after < end ? after % cut.panels : -1};
      RunPanel(b, h, kv_head, panel % cut.panels);
    }
    key_home_.End();
  }

 private:
  // Whether the panel at hand sees all pairs of the chunk, of whose keys it reaches some.
  bool SeesWholeChunk(const attention::KeyRange& reach) const {
    return reach.begin == begin_ && reach.end == end_ && !panel_.range.NeedsMask(begin_, end_) &&
           !problem_.attention.mask.present() && !problem_.plan.hides() &&
           (scratch_.lanes.hidden & attention::LowBits(panel_.used())) == 0;
  }

  // See PanelArrays.
  bool ZeroSums() const {
    const View<const T, 3>& d_lse = problem_.tangents.wanted ? problem_.tangents.d_lse : problem_.d_lse;
    return !d_lse.present() && !scores_.transforms() && !problem_.valueless_key.present();
  }

  void RunPanel(int64_t b, int64_t h, int64_t kv_head, int64_t index) {
    panel_ = MakePanel(problem_.plan, problem_.cut, b, h, index, scratch_.lanes);
    if (panel_.count == 0) return;
    const attention::Cut& cut = problem_.cut;
    const attention::KeyRange reach =
        NarrowPanel(problem_.plan, panel_, attention::ChunkOf(panel_.range.reach, chunk_, cut), cut.tile);
    products_->Blank();
    if (!reach.empty()) {
      ReadLogSumExps();
      const bool stores = !key_home_.touched() && hooks_.empty() && products_->stores() && SeesWholeChunk(reach);
      if (stores) {
        key_home_.Store();
      } else {
        key_home_.Touch(reach);
      }
      products_->SumsAreFresh(stores);
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
                                  .zero_sums = ZeroSums(),
                                  .query_rows = scratch_.query_rows,
                                  .d_out = scratch_.d_out,
                                  .d_out_rows = scratch_.d_out_rows,
                                  .d_queries = problem_.d_q.present() ? scratch_.d_queries : nullptr};
      for (PositionHook<T>* hook : hooks_) hook->Begin(arrays);
      scores_.Survey(panel_, cut.tile, panel_.range.reach, scratch_.weights);
      if (products_->asks_ahead()) AskAhead(b, h, kv_head);
      normaliser_.Prepare(panel_, cut.tile, scores_, scratch_.weights);
      const bool far = products_->asks_ahead() && ((products_->OnePanel() && problem_.ComesFromMemory()) ||
                                                   ComeFromFar({begin_, end_}, shape_, core::BytesOf(problem_.k.element)));
      const auto take = [&](const TileSight& tile) HWY_ATTR {
        if (far) AskForTile(tile.strips()[0].place.tile_key + cut.tile, reach.end);
        products_->Take(tile);
      };
      scores_.sight().ForEachTile(panel_, cut.tile, reach, take, products_->boundary());
      products_->Close();
      for (PositionHook<T>* hook : hooks_) hook->End(arrays);
    }
    products_->ClearBlank(panel_);
    if (problem_.d_q.present() && (!reach.empty() || chunk_ == 0)) query_home_.Add(panel_, chunk_);
  }

  // Asks for the rows that this panel writes and for those that the next one begins with; behind the last panel of a piece for
  // the chunk's own gradients and for the next chunk.
  void AskAhead(int64_t b, int64_t h, int64_t kv_head) {
    const attention::Plan& plan = problem_.plan;
    simd::Ahead& ahead = scratch_.ahead;
    ahead.Clear();
    const auto panel = [&](int64_t row, int64_t first, int64_t place) {
      const int64_t begin = place * problem_.cut.panel, count = std::min(problem_.cut.panel, plan.QueryCount(row) - begin);
      for (int64_t head = first; head < first + problem_.cut.group; ++head) {
        AskFor(QueriesOf(plan, problem_.q, row, head), begin, count, shape_.head_dim, ahead);
        AskFor(QueriesOf(plan, problem_.d_out, row, head), begin, count, shape_.value_dim, ahead);
        AskFor(QueriesOf(plan, problem_.out, row, head), begin, count, shape_.value_dim, ahead);
      }
    };
    for (int64_t x = 0; problem_.d_q.present() && x < panel_.heads; ++x)
      AskFor(QueriesOf(plan, problem_.d_q, b, h + x), panel_.begin, panel_.count, shape_.head_dim, ahead);
    if (upcoming_.index >= 0) {
      panel(upcoming_.b, upcoming_.head, upcoming_.index);
    } else {
      const auto keys = [&](const auto& operand, int64_t row, int64_t head, int64_t begin, int64_t width) {
        const int64_t count = std::min(problem_.cut.chunk, plan.KeyCount(row) - begin);
        AskFor(KeysOf(plan, operand, row, head), begin, count, width, ahead);
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
    products_->AskForKeys(begin, end);
  }

  void ReadLogSumExps() {
    ReadNumbers(problem_.lse, -std::numeric_limits<T>::infinity(), scratch_.minus_lse);
    HideRowsWithoutWeights(panel_, scratch_.minus_lse, scratch_.lanes);
  }

  // After ReadLogSumExps.
  void Pack() {
    products_->Begin(panel_);
    ReadNumbers(problem_.correction, T{0}, scratch_.correction);
    normaliser_.Set(panel_.width);
    // d lse / d s is p too, so its gradient joins the term that p multiplies.
    ReadNumbers(problem_.d_lse, T{0}, scratch_.minus_delta);
    if (!problem_.wants_scores) return;
    if (products_->terms().present()) products_->terms().Begin(panel_, scratch_.minus_delta);
    products_->SubtractProducts(problem_.out, scratch_.minus_delta);
    if (problem_.remainder.data) products_->SubtractProducts(problem_.remainder, scratch_.minus_delta);
  }

  void ReadNumbers(const View<const T, 3>& rows, T otherwise, T* numbers) const {
    ReadRowNumbers(problem_.plan, panel_, scratch_.lanes, rows, otherwise, numbers);
  }

  const attention::BackwardProblem<T>& problem_;
  const Shape& shape_;
  attention::BackwardScratch<T>& scratch_;
  std::span<PositionHook<T>* const> hooks_;
  Scores<T> scores_;
  Normaliser<T> normaliser_;
  ChosenGradients<T> products_;
  KeyHome<T> key_home_;
  QueryHome<T> query_home_;
  Panel panel_{};
  const attention::ChunkPlace* next_ = nullptr;
  attention::PanelPlace upcoming_{};  // the panel after the one at hand, index -1 behind the last
  int64_t chunk_ = 0, block_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
