// Where the backward pass sums up gradients, and when these sums are cleared, added to, handed on and written: dK and dV of a
// chunk in the caller's rows, in the worker's scratch area or in a part for each piece of the queries; dQ in the caller's rows,
// in rows of the type of computation or in a part for each chunk. Parts are added in their order, whoever made them.
#if defined(HEED_ATTENTION_GRADIENT_HOME_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_GRADIENT_HOME_INL_H_
#undef HEED_ATTENTION_GRADIENT_HOME_INL_H_
#else
#define HEED_ATTENTION_GRADIENT_HOME_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/rows-inl.h"
#include "hwy/highway.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// dK and dV of the chunk of keys at hand, for one piece of the queries after the other.
template <class T>
class KeyHome {
 public:
  KeyHome(const attention::BackwardProblem<T>& problem, attention::BackwardScratch<T>& scratch)
      : problem_(problem),
        sums_{Sums{problem.d_k, problem.plan.shape().head_dim, problem.cut.head_dim, scratch.d_keys, scratch.key_sums,
                   problem.d_k_parts},
              Sums{problem.d_v, problem.plan.shape().value_dim, problem.cut.value_dim, scratch.d_values, scratch.value_sums,
                   problem.d_v_parts}} {}

  // A piece with a chunk of keys. products: who says whether sums may stand in the caller's own rows.
  template <class Products>
  void Begin(const attention::ChunkPlace& place, const attention::KeyRange& chunk, const Products& products) {
    place_ = place;
    chunk_ = chunk;
    touched_ = {};
    for (Sums& sums : sums_) {
      sums.rows = {sums.piece, sums.padded, 1};
      if (!sums.gradient.present() || problem_.cut.pieces > 1) continue;
      const StoredRows<std::byte> rows = OwnRows(sums);
      if (!rows.template Holds<T>()) continue;
      const HeadRows<T> own{reinterpret_cast<T*>(rows.At(chunk.begin, 0)), rows.row_stride, rows.element_stride};
      if (products.SumsInPlace(own, sums.width)) sums.rows = own;
    }
  }

  // Where they are summed up, from the chunk's first key on.
  const HeadRows<T>& d_keys() const { return sums_[0].rows; }
  const HeadRows<T>& d_values() const { return sums_[1].rows; }

  // Whether any panel of the piece has reached any of the chunk.
  bool touched() const { return !touched_.empty(); }
  // A panel that reaches these keys adds to their sums, which then begin with zeros. Sums of a piece are moved as a whole.
  void Touch(const attention::KeyRange& reach) {
    if (touched()) {
      if (reach.begin < touched_.begin) Clear(reach.begin, touched_.begin);
      if (reach.end > touched_.end) Clear(touched_.end, reach.end);
      touched_ = {std::min(touched_.begin, reach.begin), std::max(touched_.end, reach.end)};
      return;
    }
    touched_ = problem_.cut.pieces > 1 ? chunk_ : reach;
    Clear(touched_.begin, touched_.end);
  }
  // The first panel stores the sums of all keys of the chunk.
  void Store() { touched_ = chunk_; }

  // After the last panel of the piece.
  void End() {
    if (problem_.pieces_apart()) return HandOn();
    const bool pieces = problem_.cut.pieces > 1;
    if (pieces) {
      if (place_.piece == 0) any_ = false;
      if (touched()) AddToOthers();
      any_ |= touched();
      if (place_.piece + 1 < problem_.cut.pieces) return;
      touched_ = any_ ? chunk_ : attention::KeyRange{};
    }
    for (const Sums& sums : sums_) Write(sums, pieces && any_ ? sums.others : sums.apart() ? sums.piece : nullptr);
  }

 private:
  // One of the two.
  struct Sums {
    const core::Output& gradient;
    int64_t width, padded;  // of a row
    T *&piece, *&others;    // [chunk, padded] of the piece at hand, and of all pieces before it
    T* parts;               // of all pieces, where they run apart
    HeadRows<T> rows{};     // those of `piece`, or the caller's

    bool apart() const { return rows.data == piece; }
  };

  // The caller's.
  StoredRows<std::byte> OwnRows(const Sums& sums) const {
    return KeysOf(problem_.plan, sums.gradient, place_.b, place_.kv_head);
  }
  int64_t Elements(const Sums& sums) const { return (chunk_.end - chunk_.begin) * sums.padded; }

  void Clear(int64_t begin, int64_t end) {
    for (const Sums& sums : sums_)
      for (int64_t j = begin; sums.gradient.present() && j < end; ++j)
        std::fill_n(sums.rows.Row(j - chunk_.begin), sums.apart() ? sums.padded : sums.width, T{0});
  }

  // A piece that runs apart from the others of its chunk.
  void HandOn() {
    problem_.PiecesThatSee(place_.b, place_.kv_head, place_.chunk)[place_.piece] = touched();
    if (!touched()) return;
    for (const Sums& sums : sums_) {
      if (!sums.gradient.present()) continue;
      T* part = problem_.KeyPart(sums.parts, sums.padded, place_.b, place_.kv_head, place_.piece);
      std::copy_n(sums.piece, Elements(sums), part + chunk_.begin * sums.padded);
    }
  }

  // Pieces that come one after the other.
  void AddToOthers() {
    for (Sums& sums : sums_) {
      if (!sums.gradient.present()) continue;
      if (!any_) {
        std::swap(sums.piece, sums.others);
        continue;
      }
      for (int64_t x = 0; x < Elements(sums); ++x) sums.others[x] += sums.piece[x];
    }
  }

  // Sums that stand apart, null if they are in place, and zeros for the keys that nobody has reached.
  void Write(const Sums& sums, const T* apart) {
    if (!sums.gradient.present()) return;
    const StoredRows<std::byte> rows = OwnRows(sums);
    const attention::KeyRange seen = touched() ? touched_ : attention::KeyRange{chunk_.end, chunk_.end};
    ClearRows(rows, chunk_.begin, seen.begin, sums.width);
    for (int64_t j = seen.begin; apart && j < seen.end; ++j)
      StoreRow(apart + (j - chunk_.begin) * sums.padded, sums.width, rows, j);
    ClearRows(rows, seen.end, chunk_.end, sums.width);
  }

  const attention::BackwardProblem<T>& problem_;
  std::array<Sums, 2> sums_;  // dK, dV
  attention::ChunkPlace place_{};
  attention::KeyRange chunk_{}, touched_{};  // touched: the keys whose sums panels of the piece have reached
  bool any_ = false;                         // whether pieces before it have reached any of the chunk
};

// Where dQ of a head is summed up.
template <class T>
HeadRows<T> QuerySums(const attention::BackwardProblem<T>& problem, int64_t b, int64_t h) {
  if (problem.d_q_wide) return {problem.WideQueries(b, h), problem.plan.shape().head_dim, 1};
  const StoredRows<std::byte> own = QueriesOf(problem.plan, problem.d_q, b, h);
  return {reinterpret_cast<T*>(own.data), own.row_stride, own.element_stride};
}

// dQ of a panel, chunk after chunk.
template <class T>
class QueryHome {
 public:
  QueryHome(const attention::BackwardProblem<T>& problem, attention::BackwardScratch<T>& scratch)
      : problem_(problem), scratch_(scratch), head_dim_(problem.plan.shape().head_dim) {}

  // The panel's dQ of this chunk: to the caller's rows, or to rows in T where those are narrower, or, for chunks after the
  // first that run apart, to rows of their own.
  void Add(const Panel& panel, int64_t chunk) {
    const bool apart = problem_.d_q_parts != nullptr && chunk > 0, first = chunk == 0 || apart;
    const T scale = static_cast<T>(problem_.plan.scale());
    // Queries that look at no key, or at all alike, have no gradient, whatever the keys of their neighbours hold.
    const uint64_t still = (scratch_.lanes.uniform | scratch_.lanes.idle) & attention::LowBits(panel.used());
    const auto store = [&](T* to, int64_t stride) HWY_ATTR {
      Transpose(static_cast<const T*>(scratch_.d_queries), panel.width, head_dim_, panel.used(), scale, to, stride);
    };
    if (const HeadRows<T> rows = SumsOf(panel, 0, chunk, apart);
        panel.heads == 1 && first && rows.element_stride == 1 && still == 0)
      return store(rows.Row(panel.begin), rows.row_stride);
    T* sums = scratch_.query_rows;  // packed queries are no longer needed
    const int64_t stride = problem_.cut.head_dim;
    store(sums, stride);
    for (int64_t w = 0; w < panel.used(); ++w) {
      const HeadRows<T> rows = SumsOf(panel, w / panel.count, chunk, apart);
      T* row = rows.Row(panel.begin + w % panel.count);
      if (still >> w & 1) std::fill_n(sums + w * stride, head_dim_, T{0});
      if (first) {
        for (int64_t c = 0; c < head_dim_; ++c) row[c * rows.element_stride] = sums[w * stride + c];
      } else {
        for (int64_t c = 0; c < head_dim_; ++c) row[c * rows.element_stride] += sums[w * stride + c];
      }
    }
  }

 private:
  // Where dQ of head x of the panel is summed up.
  HeadRows<T> SumsOf(const Panel& panel, int64_t x, int64_t chunk, bool apart) const {
    const int64_t b = panel.b, h = panel.head + x;
    return apart ? HeadRows<T>{problem_.QueryPart(b, h, chunk), head_dim_, 1} : QuerySums(problem_, b, h);
  }

  const attention::BackwardProblem<T>& problem_;
  attention::BackwardScratch<T>& scratch_;
  int64_t head_dim_;
};

// Adds the parts of the chunks after the first to dQ of panels first .. last - 1 of a query head, in their order, and rounds it
// where the caller's elements are narrower.
template <class T>
void FinishQueries(const attention::BackwardProblem<T>& problem, int64_t b, int64_t h, int64_t first, int64_t last) {
  const attention::Plan& plan = problem.plan;
  const attention::Cut& cut = problem.cut;
  const int64_t queries = std::min(plan.QueryCount(b), last * cut.panel), width = plan.shape().head_dim;
  const HeadRows<T> sums = QuerySums(problem, b, h);
  attention::QueryRow rows[simd::kWidestPanelBytes / sizeof(float)];
  for (int64_t begin = first * cut.panel; begin < queries; begin += cut.panel) {
    const int64_t end = std::min(begin + cut.panel, queries);
    const attention::PanelRange range = plan.Panel(b, {h, h + 1}, begin, end - begin, rows);
    for (int64_t chunk = 1; problem.d_q_parts && chunk < cut.chunks; ++chunk) {
      const attention::KeyRange keys = attention::ChunkOf(range.reach, chunk, cut);
      // A chunk that a panel saw nothing of has left its part as it was.
      if (plan.Trim(range, {b, {h, h + 1}, {begin, end}, keys}, cut.tile).empty()) continue;
      const T* part = problem.QueryPart(b, h, chunk);
      for (int64_t i = begin; i < end; ++i)
        for (int64_t c = 0; c < width; ++c) *sums.At(i, c) += part[i * width + c];
    }
    for (int64_t i = begin; problem.d_q_wide && i < end; ++i)
      StoreRow<T>(sums.Row(i), width, QueriesOf(plan, problem.d_q, b, h), i);
  }
}

// Adds the pieces of dK and dV of one chunk in their order, as one task that walks all of them does, and rounds the sums.
template <class T>
void FinishKeys(const attention::BackwardProblem<T>& problem, int64_t b, int64_t kv_head, int64_t chunk) {
  const attention::Plan& plan = problem.plan;
  const attention::Cut& cut = problem.cut;
  const int64_t begin = chunk * cut.chunk, end = std::min(begin + cut.chunk, plan.KeyCount(b));
  const bool* sees = problem.PiecesThatSee(b, kv_head, chunk);
  const auto finish = [&](const core::Output& gradient, T* parts, int64_t width, int64_t padded) {
    if (!gradient.present()) return;
    for (int64_t j = begin; j < end; ++j) {
      // Gathered in the first piece that saw anything of the chunk.
      T* sum = nullptr;
      for (int64_t piece = 0; piece < cut.pieces; ++piece) {
        if (!sees[piece]) continue;
        T* part = problem.KeyPart(parts, padded, b, kv_head, piece) + j * padded;
        for (int64_t c = 0; sum && c < padded; ++c) sum[c] += part[c];
        if (!sum) sum = part;
      }
      if (!sum) ClearRows(KeysOf(plan, gradient, b, kv_head), j, j + 1, width);
      if (sum) StoreRow<T>(sum, width, KeysOf(plan, gradient, b, kv_head), j);
    }
  };
  finish(problem.d_k, problem.d_k_parts, plan.shape().head_dim, cut.head_dim);
  finish(problem.d_v, problem.d_v_parts, plan.shape().value_dim, cut.value_dim);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
