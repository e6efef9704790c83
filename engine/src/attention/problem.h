// One call as the kernels see it: arrays, plan and the scratch areas of one worker. No SIMD here.
#ifndef HEED_ATTENTION_PROBLEM_H_
#define HEED_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <type_traits>

#include "attention/plan.h"
#include "core/arena.h"
#include "core/operand.h"
#include "heed/attention.h"
#include "simd/ahead.h"

namespace heed::attention {

// Dropout in the integers that the kernels use.
struct DropoutThreshold {
  uint32_t of_65536 = 0;    // a weight is dropped where its 16 random bits are below
  double kept_scale = 1.0;  // inverse of the probability realised
};

DropoutThreshold RealisedDropout(const Dropout& dropout);

// What every pass needs. T is the type of all computation, float or double; operands may hold 16-bit elements instead.
struct Problem {
  const Attention& attention;
  const Plan& plan;
  Cut cut;
  DropoutThreshold dropout;
  core::Input q, k;
};

template <class T>
struct ForwardProblem : Problem {
  core::Input v;
  core::Output out;
  View<T, 3> lse;
  heed::Statistics<T> statistics;
  core::Output remainder;  // what rounding took from out, or without data
  View<T, 3> correction;   // what rounding took from lse, or absent
  T* parts;                // partial states of the splits, see SplitPart; null where panels are not split

  bool wants_statistics() const {
    return statistics.entropy.present() || statistics.max_weight.present() || statistics.mean_distance.present();
  }
};

template <class T>
struct WeightsProblem : Problem {
  View<const T, 3> lse;
  View<const int64_t, 1> heads, rows;  // those asked for
  View<T, 4> weights;                  // [B, heads, rows, Nk]
};

// Where tasks collect the gradients of biases before their final sums; null or without data where not wanted.
template <class T>
struct BiasParts {
  T* relative_bias = nullptr;  // [B, Hq, chunks, 2M+1]
  T* slopes = nullptr;         // [B, Hq, chunks]
  // [B, Hkv, chunks, 2M+1, D padded], those of values [.., Dv padded]
  T *content_keys = nullptr, *content_values = nullptr, *content_queries = nullptr;
  // Of a dense bias: the view that pairs add to, for copy 0 and chunk 0.
  View<T, 4> bias;
  int64_t bias_copy_stride = 0, bias_chunk_stride = 0;
};

template <class T>
struct BackwardProblem : Problem {
  core::Input v, out;
  View<const T, 3> lse;
  core::Input d_out;
  View<const T, 3> d_lse;       // or absent
  core::Input remainder;        // of out, or without data
  View<const T, 3> correction;  // of lse, or absent
  core::Output d_q, d_k, d_v;   // without data where not wanted
  bool wants_scores;            // whether anything that the scores are made of has a gradient that is wanted
  // dQ of all queries in T [Hq, queries of all rows, D], where the caller's elements are narrower; else null.
  T* d_q_wide;
  // Partial dQ [chunks - 1, Hq, queries of all rows, D] of the chunks after the first, or null where one task walks all chunks.
  T* d_q_parts;
  BiasParts<T> parts;

  // The first of head h's rows for batch row b, D elements each.
  T* WideQueries(int64_t b, int64_t h) const { return d_q_wide + QueryRowIndex(b, h) * plan.shape().head_dim; }
  T* QueryPart(int64_t b, int64_t h, int64_t chunk) const {
    const Shape& shape = plan.shape();
    return d_q_parts + ((chunk - 1) * shape.q_heads * plan.AllQueries() + QueryRowIndex(b, h)) * shape.head_dim;
  }

 private:
  int64_t QueryRowIndex(int64_t b, int64_t h) const { return h * plan.AllQueries() + plan.QueriesBefore(b); }
};

// Ranks of keys, as wide as the elements that stand beside them in vectors.
template <class T>
using Rank = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// Facts about the lanes of one panel.
template <class T>
struct Lanes {
  QueryRow* rows;                  // what each lane's query looks at; inactive where there is no query
  int64_t* query;                  // which query of its batch row stands in each lane
  int64_t* head;                   // and of which head
  T *first, *last;                 // the range of its row relative to the tile at hand
  Rank<T>*rank_first, *rank_last;  // the ranks that its query may look at
  uint64_t* visible;               // [tile] bit w: lane w may look at the key
  uint64_t uniform;                // bit w: the query of lane w looks at all keys alike
  uint64_t idle;                   // bit w: lane w has no query that looks at any key

  void Lay(core::Arena& arena, const Cut& cut) {
    rows = arena.Take<QueryRow>(cut.panel);
    query = arena.Take<int64_t>(cut.panel);
    head = arena.Take<int64_t>(cut.panel);
    first = arena.Take<T>(cut.panel);
    last = arena.Take<T>(cut.panel);
    rank_first = arena.Take<Rank<T>>(cut.panel);
    rank_last = arena.Take<Rank<T>>(cut.panel);
    visible = arena.Take<uint64_t>(cut.tile);
  }
};

// Rows of the tables of a content bias, which all have as many; 0 without.
inline int64_t ContentRows(const Attention& attention) {
  if (!attention.content_bias) return 0;
  const ContentBias& bias = *attention.content_bias;
  return std::visit([](const auto& t) { return t.extent[0]; }, bias.keys     ? *bias.keys
                                                               : bias.values ? *bias.values
                                                                             : *bias.queries);
}

// Rows by which the weights are gathered in the forward pass.
inline int64_t WeightRows(const Attention& attention) {
  return attention.content_bias && attention.content_bias->values ? ContentRows(attention) : 0;
}

// Products that a tile of keys may need with a table of content queries: one a diagonal from an aligned column on, or all of
// them where positions are listed.
inline int64_t KeyColumns(const Attention& attention, const Cut& cut) {
  if (!attention.content_bias || !attention.content_bias->queries) return 0;
  const int64_t all = RoundUp(ContentRows(attention), kLaneQuantum);
  const bool listed = attention.query_positions.listed() || attention.key_positions.listed();
  return listed ? all : std::min(all, cut.tile + cut.panel + kLaneQuantum);
}

// What the hooks of position/ work in.
template <class T>
struct HookScratch {
  T* diagonals;      // [tile + panel + kLaneQuantum] of a relative bias
  T* d_diagonals;    // [kLaneQuantum, tile + panel + kLaneQuantum] copies of their gradient; backward only
  T* transposed;     // [tile, panel] of a dense bias
  T* content;        // [2M+1, panel] products of queries and content keys
  T* content_table;  // [2M+1, the wider of D and Dv padded] rows of a table at hand
  T* d_content;      // [2M+1, panel] backward: gradient of content
  T* value_content;  // [2M+1, panel] backward: products of dO and content values
  T* mass;           // [2M+1, panel] weights by offset; forward: rows behind the output, set for every panel
  int64_t key_columns;
  T* query_columns;  // [D, 2M+1 padded] a table of content queries, times scale * log2(e)
  T* query_rows;     // [2M+1, D padded] the same times scale; backward
  T* key_content;    // [tile, key_columns] products of keys and content queries, then their gradient
  T* key_rows;       // [tile, D padded] keys times scale; backward

  void Lay(core::Arena& arena, const Attention& attention, const Cut& cut, bool backward) {
    const bool relative = attention.relative_bias.has_value();
    diagonals = arena.Take<T>(relative ? cut.tile + cut.panel + kLaneQuantum : 0);
    d_diagonals = arena.Take<T>(relative && backward ? kLaneQuantum * (cut.tile + cut.panel + kLaneQuantum) : 0);
    transposed = arena.Take<T>(attention.bias ? cut.tile * cut.panel : 0);
    LayContent(arena, attention, cut, backward);
    LayContentQueries(arena, attention, cut, backward);
  }

  void LayContent(core::Arena& arena, const Attention& attention, const Cut& cut, bool backward) {
    const int64_t rows = ContentRows(attention);
    const bool keys = rows > 0 && attention.content_bias->keys, values = rows > 0 && attention.content_bias->values;
    content = arena.Take<T>(keys ? rows * cut.panel : 0);
    content_table = arena.Take<T>(keys || values ? rows * std::max(cut.head_dim, cut.value_dim) : 0);
    d_content = arena.Take<T>(keys && backward ? rows * cut.panel : 0);
    value_content = arena.Take<T>(values && backward ? rows * cut.panel : 0);
    mass = backward ? arena.Take<T>(values ? rows * cut.panel : 0) : nullptr;
  }

  void LayContentQueries(core::Arena& arena, const Attention& attention, const Cut& cut, bool backward) {
    key_columns = KeyColumns(attention, cut);
    const int64_t rows = key_columns == 0 ? 0 : RoundUp(ContentRows(attention), kLaneQuantum);
    query_columns = arena.Take<T>(rows * cut.head_dim);
    query_rows = arena.Take<T>(backward ? rows * cut.head_dim : 0);
    key_content = arena.Take<T>(cut.tile * key_columns);
    key_rows = arena.Take<T>(backward && key_columns > 0 ? cut.tile * cut.head_dim : 0);
  }
};

// What scores are made in, the same for every pass.
template <class T>
struct ScoreScratch {
  Lanes<T> lanes;
  T* rows;     // [panel, the wider of D and Dv] a panel of the caller's rows, converted
  T* queries;  // [D, panel], scaled by scale * log2(e)
  T* keys;     // [tile, D] where the caller's rows have gaps between elements or another type
  T* tanh;     // [tile, panel] of soft-capped scores
  simd::Ahead ahead;
  HookScratch<T> hooks;

  void Lay(core::Arena& arena, const Attention& attention, const Cut& cut, const Shape& shape, bool backward) {
    lanes.Lay(arena, cut);
    rows = arena.Take<T>(cut.panel * std::max(cut.head_dim, cut.value_dim));
    queries = arena.Take<T>(shape.head_dim * cut.panel);
    keys = arena.Take<T>(cut.tile * cut.head_dim);
    tanh = arena.Take<T>(attention.softcap ? cut.tile * cut.panel : 0);
    hooks.Lay(arena, attention, cut, backward);
  }
};

template <class T>
struct ForwardScratch : ScoreScratch<T> {
  T* scores;     // [tile, panel], then weights
  T* values;     // [tile, Dv], as keys
  T* minus_max;  // [panel], the base-2 reference of the scores, negated
  T* sum;        // [panel]
  T* largest;    // [panel] for statistics: the largest score, and the sum of weight times score, both from the reference
  T* weighted;
  T* output;  // [Dv, panel], then rows of weights by offset, then the mean distance

  ForwardScratch(core::Arena& arena, const Attention& attention, const Cut& cut, const Shape& shape) {
    ScoreScratch<T>::Lay(arena, attention, cut, shape, false);
    scores = arena.Take<T>(cut.tile * cut.panel);
    values = arena.Take<T>(cut.tile * cut.value_dim);
    minus_max = arena.Take<T>(cut.panel);
    sum = arena.Take<T>(cut.panel);
    largest = arena.Take<T>(cut.panel);
    weighted = arena.Take<T>(cut.panel);
    output = arena.Take<T>(OutputRows(attention, shape) * cut.panel);
  }

  static int64_t OutputRows(const Attention& attention, const Shape& shape) {
    return shape.value_dim + WeightRows(attention) + 1;
  }
  // What a split hands on: everything from minus_max to output, one after the other.
  static int64_t SplitPart(const Attention& attention, const Cut& cut, const Shape& shape) {
    return (4 + OutputRows(attention, shape)) * cut.panel;
  }
};

template <class T>
struct BackwardScratch : ScoreScratch<T> {
  T* query_rows;               // [panel, D padded], scaled by scale
  T* d_out;                    // [Dv, panel]
  T* out;                      // [Dv, panel]
  T* d_out_rows;               // [panel, Dv padded]
  T* minus_lse;                // [panel], base 2; -inf for inactive lanes
  T *share, *reference, *sum;  // [panel], see attention/normaliser-inl.h
  T* minus_delta;              // [panel]
  T* weights;                  // [tile, panel]
  T* d_scores;                 // [tile, panel]
  T* d_queries;                // [D, panel]
  T* values;                   // [tile, Dv], as keys
  T *d_keys, *d_values;        // [chunk, D padded], [chunk, Dv padded]

  BackwardScratch(core::Arena& arena, const Attention& attention, const Cut& cut, const Shape& shape, bool wants_keys,
                  bool wants_values) {
    ScoreScratch<T>::Lay(arena, attention, cut, shape, true);
    query_rows = arena.Take<T>(cut.panel * cut.head_dim);
    d_out = arena.Take<T>(shape.value_dim * cut.panel);
    out = arena.Take<T>(shape.value_dim, cut.panel);
    d_out_rows = arena.Take<T>(cut.panel * cut.value_dim);
    minus_lse = arena.Take<T>(cut.panel);
    share = arena.Take<T>(cut.panel);
    reference = arena.Take<T>(cut.panel);
    sum = arena.Take<T>(cut.panel);
    minus_delta = arena.Take<T>(cut.panel);
    weights = arena.Take<T>(cut.tile * cut.panel);
    d_scores = arena.Take<T>(cut.tile * cut.panel);
    d_queries = arena.Take<T>(shape.head_dim * cut.panel);
    values = arena.Take<T>(cut.tile * cut.value_dim);
    const int64_t keys = std::min(cut.chunk, RoundUp(shape.kv_len, cut.tile));
    d_keys = arena.Take<T>(wants_keys ? keys * cut.head_dim : 0);
    d_values = arena.Take<T>(wants_values ? keys * cut.value_dim : 0);
  }
};

}  // namespace heed::attention

#endif  // HEED_ATTENTION_PROBLEM_H_
