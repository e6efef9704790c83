// Vectors by clipped offset beside keys, queries and values.
#ifndef HEED_POSITION_CONTENT_BIAS_SCHEME_H_
#define HEED_POSITION_CONTENT_BIAS_SCHEME_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "position/scheme.h"
#include "position/table_parts.h"

namespace heed::position {

template <class T>
class ContentBiasCall : public TableCall<T, 3> {
 public:
  // The tables whose gradients are gathered, [2M+1, D or Dv padded].
  static constexpr std::size_t kKeys = 0, kValues = 1, kQueries = 2;

  ContentBiasCall(const CallFacts& call, const BiasGradients<T>& wanted);

  bool backward() const { return backward_; }
  int64_t rows() const { return rows_; }
  const std::optional<TableRows<T>>& keys() const { return keys_; }
  const std::optional<TableRows<T>>& values() const { return values_; }
  // Whether there is a table beside queries, and whether every query head has its own.
  bool has_queries() const { return bias_.queries || by_head(); }
  bool by_head() const { return bias_.head_queries.has_value(); }
  // The table beside queries of a head as columns [D, columns()], times scale * log2(e) as scores are, and as rows [2M+1, D
  // padded] times scale, for the backward pass.
  const T* QueryColumns(int64_t head) const { return query_columns_ + TableOf(head) * columns() * cut_.head_dim; }
  const T* QueryRows(int64_t head) const { return query_rows_ + TableOf(head) * rows_ * cut_.head_dim; }
  int64_t columns() const { return attention::RoundUp(rows_, attention::kLaneQuantum); }

  // The weights by offset gather behind the output.
  int64_t output_rows() const { return values_ && !backward_ ? rows_ : 0; }
  void LayPrepared(core::Arena& arena);
  void Prepare() const;
  bool wants_scores() const { return this->wanted(kKeys) || this->wanted(kQueries); }

  struct Scratch {
    T* content;        // [2M+1, panel] products of queries and content keys
    T* d_content;      // [2M+1, panel] backward: gradient of content
    T* value_content;  // [2M+1, panel] backward: products of dO and content values
    T* mass;           // [2M+1, panel] backward: weights by offset
    int64_t key_columns;
    T* key_content;  // [tile, key_columns] products of keys and content queries, then their gradient
    T* key_rows;     // [tile, D padded] backward: keys times scale
    // Products of keys with the first and the last row, which serve all tiles far from the diagonal: [slots, 2, tile] for the
    // tiles whose numbers stand in edge_tiles [slots].
    T* edges;
    int64_t *edge_tiles, slots;

    Scratch(core::Arena& arena, const ContentBiasCall& call);
  };

 private:
  int64_t TableOf(int64_t head) const { return by_head() ? head : 0; }
  // The tables beside queries, as the kernels read them: visit(head, table of two dimensions).
  template <class Visit>
  void ForEachQueryTable(const Visit& visit) const;
  // Products that a tile of keys may need with the table beside queries: one a diagonal from an aligned column on, or all of
  // them where positions are listed.
  int64_t KeyColumns() const;

  const ContentBias& bias_;
  const attention::Cut cut_;
  bool backward_;
  int64_t rows_;
  double scale_;
  int64_t walked_;  // keys that one task walks at most
  bool listed_;
  std::optional<TableRows<T>> keys_, values_;
  int64_t query_tables_ = 0;  // 0, 1 or one for every query head
  T *query_columns_ = nullptr, *query_rows_ = nullptr;
};

struct ContentBiasScheme : Scheme<ContentBiasScheme> {
  static bool Present(const Attention& attention) { return attention.content_bias.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  template <class Options, class Gradients, class Visit>
  static void ForEachTable(Options& attention, Gradients& gradients, const Visit& visit) {
    const auto table = [&](auto side) {
      auto* option = attention.content_bias ? &*attention.content_bias : nullptr;
      return option && option->*side ? &*(option->*side) : nullptr;
    };
    visit("content_bias.keys", table(&ContentBias::keys), "d_content_keys", gradients.content_keys);
    visit("content_bias.values", table(&ContentBias::values), "d_content_values", gradients.content_values);
    visit("content_bias.queries", table(&ContentBias::queries), "d_content_queries", gradients.content_queries);
    visit("content_bias.head_queries", table(&ContentBias::head_queries), "d_content_head_queries",
          gradients.content_head_queries);
  }
  template <class T>
  using Call = ContentBiasCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_CONTENT_BIAS_SCHEME_H_
