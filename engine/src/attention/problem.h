// One call as the kernels see it: views, plan and the scratch area of one worker. No SIMD here.
#ifndef HEED_ATTENTION_PROBLEM_H_
#define HEED_ATTENTION_PROBLEM_H_

#include <cstdint>

#include "attention/plan.h"
#include "core/arena.h"
#include "heed/attention.h"

namespace heed::attention {

// Dropout in the integers that the kernels use.
struct DropoutThreshold {
  uint32_t of_65536 = 0;    // a weight is dropped where its 16 random bits are below
  double kept_scale = 1.0;  // inverse of the probability realised
};

DropoutThreshold RealisedDropout(const Dropout& dropout);

template <class T>
struct ForwardProblem {
  const Attention& attention;
  const Plan& plan;
  Cut cut;
  DropoutThreshold dropout;
  View<const T, 4> q, k, v;
  View<T, 4> out;
  View<T, 3> lse;
};

template <class T>
struct BackwardProblem {
  const Attention& attention;
  const Plan& plan;
  Cut cut;
  DropoutThreshold dropout;
  View<const T, 4> q, k, v, out;
  View<const T, 3> lse;
  View<const T, 4> d_out;
  View<T, 4> d_q, d_k, d_v;
  // Partial gradients of the relative bias [B, Hq, chunks, 2M+1], or null when not wanted.
  T* d_bias_parts;
  int64_t bias_columns;  // 2M+1
  // Partial dQ [B, Hq, chunks - 1, Nq, D] of the chunks after the first, or null where one task walks all chunks of a head.
  T* d_q_parts;

  T* BiasPart(int64_t b, int64_t h, int64_t chunk) const {
    return d_bias_parts + ((b * plan.shape().q_heads + h) * cut.chunks + chunk) * bias_columns;
  }
  // Rows of D elements; chunk >= 1.
  T* QueryPart(int64_t b, int64_t h, int64_t chunk) const {
    const Shape& shape = plan.shape();
    return d_q_parts + ((b * shape.q_heads + h) * (cut.chunks - 1) + chunk - 1) * shape.q_len * shape.head_dim;
  }
};

// Per-lane facts of a panel, for boundary tiles.
template <class T>
struct LaneScratch {
  QueryRow* keys;   // what each lane's query looks at; inactive where there is no query
  T *first, *last;  // the same range relative to the tile at hand
  T* uniform;       // 1 where the query looks at all keys alike, else 0

  void Lay(core::Arena& arena, int64_t panel) {
    keys = arena.Take<QueryRow>(panel);
    first = arena.Take<T>(panel);
    last = arena.Take<T>(panel);
    uniform = arena.Take<T>(panel);
  }
};

template <class T>
struct ForwardScratch {
  LaneScratch<T> lanes;
  T* queries;        // [D, panel], scaled by scale * log2(e)
  T* scores;         // [tile, panel], then weights
  T* output;         // [Dv, panel]
  T* minus_max;      // [panel], base-2 reference subtracted from the scores, negated
  T* sum;            // [panel]
  T *keys, *values;  // [tile, D], [tile, Dv] when the caller's rows have gaps between elements
  T* bias;           // [tile + panel] diagonals of a relative bias

  explicit ForwardScratch(core::Arena& arena, const Cut& cut, const Shape& shape) {
    lanes.Lay(arena, cut.panel);
    queries = arena.Take<T>(shape.head_dim * cut.panel);
    scores = arena.Take<T>(cut.tile * cut.panel);
    output = arena.Take<T>(shape.value_dim * cut.panel);
    minus_max = arena.Take<T>(cut.panel);
    sum = arena.Take<T>(cut.panel);
    keys = arena.Take<T>(cut.tile * cut.head_dim);
    values = arena.Take<T>(cut.tile * cut.value_dim);
    bias = arena.Take<T>(cut.tile + cut.panel + kLaneQuantum);
  }
};

template <class T>
struct BackwardScratch {
  LaneScratch<T> lanes;
  T* queries;            // [D, panel], scaled by scale * log2(e)
  T* query_rows;         // [panel, D padded], scaled by scale
  T* d_out;              // [Dv, panel]
  T* d_out_rows;         // [panel, Dv padded]
  T* minus_lse;          // [panel], base 2; -inf for inactive lanes
  T* minus_delta;        // [panel]
  T* weights;            // [tile, panel]
  T* d_scores;           // [tile, panel]
  T* d_queries;          // [D, panel]
  T *keys, *values;      // as in ForwardScratch
  T *d_keys, *d_values;  // [chunk, D padded], [chunk, Dv padded]
  T* bias;               // as in ForwardScratch
  T* d_bias;             // [kLaneQuantum, tile + panel + kLaneQuantum] copies of the diagonals' gradient

  explicit BackwardScratch(core::Arena& arena, const Cut& cut, const Shape& shape) {
    lanes.Lay(arena, cut.panel);
    queries = arena.Take<T>(shape.head_dim * cut.panel);
    query_rows = arena.Take<T>(cut.panel * cut.head_dim);
    d_out = arena.Take<T>(shape.value_dim * cut.panel);
    d_out_rows = arena.Take<T>(cut.panel * cut.value_dim);
    minus_lse = arena.Take<T>(cut.panel);
    minus_delta = arena.Take<T>(cut.panel);
    weights = arena.Take<T>(cut.tile * cut.panel);
    d_scores = arena.Take<T>(cut.tile * cut.panel);
    d_queries = arena.Take<T>(shape.head_dim * cut.panel);
    keys = arena.Take<T>(cut.tile * cut.head_dim);
    values = arena.Take<T>(cut.tile * cut.value_dim);
    d_keys = arena.Take<T>(std::min(cut.chunk, RoundUp(shape.kv_len, cut.tile)) * cut.head_dim);
    d_values = arena.Take<T>(std::min(cut.chunk, RoundUp(shape.kv_len, cut.tile)) * cut.value_dim);
    bias = arena.Take<T>(cut.tile + cut.panel + kLaneQuantum);
    d_bias = arena.Take<T>(kLaneQuantum * (cut.tile + cut.panel + kLaneQuantum));
  }
};

}  // namespace heed::attention

#endif  // HEED_ATTENTION_PROBLEM_H_
