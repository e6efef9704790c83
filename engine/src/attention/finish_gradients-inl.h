// The end of dQ, where chunks of keys ran apart or the caller's elements are narrower than sums, and of dK and dV, where pieces
// of the queries did.
#if defined(HEED_ATTENTION_FINISH_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_FINISH_GRADIENTS_INL_H_
#undef HEED_ATTENTION_FINISH_GRADIENTS_INL_H_
#else
#define HEED_ATTENTION_FINISH_GRADIENTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "attention/problem.h"
#include "attention/rows-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Adds the parts of the chunks after the first to dQ of some panels of a query head, in their order, and rounds it where the
// caller's elements are narrower.
template <class T>
class QueryFinish {
 public:
  explicit QueryFinish(const attention::BackwardProblem<T>& problem)
      : problem_(problem), cut_(problem.cut), head_dim_(problem.plan.shape().head_dim) {}

  void Run(int64_t b, int64_t h, int64_t first, int64_t last) const {
    const attention::Plan& plan = problem_.plan;
    const StoredRows<std::byte> own = RowsOf(problem_.d_q, plan.ArrayRow(b), h, plan.FirstQuery(b));
    const int64_t queries = std::min(plan.QueryCount(b), last * cut_.panel);
    for (int64_t begin = first * cut_.panel; begin < queries; begin += cut_.panel) {
      const int64_t end = std::min(begin + cut_.panel, queries);
      const attention::PanelRange range = plan.Reach(b, h, begin, end - begin);
      for (int64_t chunk = 1; problem_.d_q_parts && chunk < cut_.chunks; ++chunk) {
        const attention::KeyRange keys = attention::ChunkOf(range.reach, chunk, cut_);
        // A chunk that a panel saw nothing of has left its part as it was.
        if (!plan.Narrow(range, {b, {h, h + 1}, {begin, end}, keys}, cut_.tile).empty()) AddPart(b, h, chunk, begin, end, own);
      }
      for (int64_t i = begin; problem_.d_q_wide && i < end; ++i)
        StoreRow<T>(problem_.WideQueries(b, h) + i * head_dim_, head_dim_, own, i);
    }
  }

 private:
  void AddPart(int64_t b, int64_t h, int64_t chunk, int64_t begin, int64_t end, const StoredRows<std::byte>& own) const {
    const T* part = problem_.QueryPart(b, h, chunk);
    for (int64_t i = begin; i < end; ++i) {
      T* row = problem_.d_q_wide ? problem_.WideQueries(b, h) + i * head_dim_ : reinterpret_cast<T*>(own.At(i, 0));
      const int64_t stride = problem_.d_q_wide ? 1 : own.element_stride;
      for (int64_t c = 0; c < head_dim_; ++c) row[c * stride] += part[i * head_dim_ + c];
    }
  }

  const attention::BackwardProblem<T>& problem_;
  const attention::Cut& cut_;
  int64_t head_dim_;
};

// Adds the pieces of dK and dV of one chunk in their order, as one task that walks all of them does, and rounds the sums.
template <class T>
class KeyFinish {
 public:
  explicit KeyFinish(const attention::BackwardProblem<T>& problem) : problem_(problem), cut_(problem.cut) {}

  void Run(int64_t b, int64_t kv_head, int64_t chunk) const {
    const attention::Plan& plan = problem_.plan;
    const int64_t begin = chunk * cut_.chunk, end = std::min(begin + cut_.chunk, plan.KeyCount(b));
    const bool* sees = problem_.PiecesThatSee(b, kv_head, chunk);
    const auto finish = [&](const core::Output& gradient, int64_t width, int64_t padded, const auto& part_of) {
      if (!gradient.present()) return;
      const StoredRows<std::byte> rows = RowsOf(gradient, plan.ArrayRow(b), kv_head, plan.FirstKey(b));
      for (int64_t j = begin; j < end; ++j) StoreRow<T>(Sum(sees, j * padded, padded, part_of), width, rows, j);
    };
    finish(problem_.d_k, plan.shape().head_dim, cut_.head_dim,
           [&](int64_t piece) { return problem_.KeyPart(b, kv_head, piece); });
    finish(problem_.d_v, plan.shape().value_dim, cut_.value_dim,
           [&](int64_t piece) { return problem_.ValuePart(b, kv_head, piece); });
  }

 private:
  // The sum of one row, which is gathered in the first piece that saw anything of it.
  template <class PartOf>
  const T* Sum(const bool* sees, int64_t row, int64_t width, const PartOf& part_of) const {
    T* sum = nullptr;
    for (int64_t piece = 0; piece < cut_.pieces; ++piece) {
      if (!sees[piece]) continue;
      T* part = part_of(piece) + row;
      for (int64_t c = 0; sum && c < width; ++c) sum[c] += part[c];
      if (!sum) sum = part;
    }
    if (sum) return sum;
    sum = part_of(0) + row;
    std::fill_n(sum, width, T{0});
    return sum;
  }

  const attention::BackwardProblem<T>& problem_;
  const attention::Cut& cut_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
