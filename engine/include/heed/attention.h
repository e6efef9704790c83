// Exact multi-head attention on the CPU, forward and backward, in memory linear in the sequence length.
//
//   s[i,j] = scale * q[i].k[j] + bias(key position j - query position i)      for the keys j that query i may look at
//   p[i,:] = softmax(s[i,:])             lse[i] = log sum_j exp(s[i,j])       (natural logarithm)
//   o[i]   = sum_j drop(p[i,j]) v[j]
//
// Shapes: q [B, Hq, Nq, D], k [B, Hkv, Nk, D], v [B, Hkv, Nk, Dv], out [B, Hq, Nq, Dv], lse [B, Hq, Nq]. Hq is a multiple
// of Hkv; query head h reads key head h / (Hq / Hkv). Any extent may be 0. Any strides are accepted for inputs; outputs
// must not overlap themselves or the inputs.
//
// Source: online softmax and recomputation after Dao 2023, "FlashAttention-2", algorithms 1 and 2; the layout (queries in
// SIMD lanes) is heed's own and described in docs/architecture.md.
#ifndef HEED_ATTENTION_H_
#define HEED_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "heed/error.h"
#include "heed/executor.h"
#include "heed/view.h"
#include "heed/workspace.h"

namespace heed {

// Which keys a query may look at by order. A query at position p looks at keys whose position is at most p.
enum class Causal {
  kNone,
  kBottomRight,  // query i stands at i + Nk - Nq: the last query sees every key
  kTopLeft,      // query i stands at i: the first query sees only the first key
};

// What a query without any key to look at returns. A query beyond its query length always returns zeros.
enum class EmptyRow {
  kZero,     // output 0, lse -inf, no gradient
  kUniform,  // the mean of all Nk values, as d2l 1.0.3 computes it; lse log(Nk); gradient to the values only
};

// Valid lengths: a key j counts if j < length. Absent, one per batch row [B], or one per query [B, Nq]. Values outside
// 0..N are refused. The numbers are read, not kept.
struct Lengths {
  View<const int64_t, 2> values;  // [B, 1] or [B, Nq]

  Lengths() = default;
  static Lengths PerBatch(const int64_t* lengths, int64_t batch);                 // [B], contiguous
  static Lengths PerQuery(const int64_t* lengths, int64_t batch, int64_t q_len);  // [B, Nq], contiguous
  bool present() const { return values.present(); }
};

// Where the tokens stand in the whole sequence: token t at offset + t. Absent: keys at 0..Nk-1, queries as `causal` aligns
// them (0..Nq-1 without causality).
struct Positions {
  std::optional<int64_t> offset;
};

// One trainable number per head and clipped offset: bias(delta) = table[h, clip(delta, -M, M) + M] with
// delta = key position - query position. ALiBi, T5 and learned relative biases are such tables. The entries are added to
// the scaled scores. Finite entries only.
struct RelativeBias {
  std::variant<View<const float, 2>, View<const double, 2>> table;  // [Hq, 2M+1]; accumulation type of the call
};

// Drops attention weights after the softmax with `probability`, resolved to 1/65536, and scales the kept ones by the
// inverse of the probability realised. The decision for a weight is a function of (seed, batch index, query head, query
// index, key index) alone: Philox4x32-10, Salmon et al. 2011. Nothing is stored.
struct Dropout {
  double probability = 0.0;  // in [0, 1)
  uint64_t seed = 0;
  int64_t batch_offset = 0;  // batch index of row 0; lets one row of a batch be recomputed alone
};

struct Attention {
  std::optional<double> scale;  // multiplies q.k; 1/sqrt(D) when absent
  Causal causal = Causal::kNone;
  Lengths query_lengths;  // [B]
  Lengths key_lengths;    // [B] or [B, Nq]
  Positions query_positions, key_positions;
  std::optional<RelativeBias> relative_bias;
  Dropout dropout;
  EmptyRow empty_row = EmptyRow::kZero;
};

struct Shape {
  int64_t batch = 0, q_heads = 0, kv_heads = 0, q_len = 0, kv_len = 0, head_dim = 0, value_dim = 0;
};

// out and, where present, lse are overwritten. Throws InvalidArgument before anything is written. The overloads without
// workspace and executor use a workspace of the calling thread and ThreadPool::Default().
void Forward(const Attention& attention, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
             View<float, 4> out, View<float, 3> lse, Workspace& workspace, Executor& executor);
void Forward(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
             View<double, 4> out, View<double, 3> lse, Workspace& workspace, Executor& executor);
void Forward(const Attention& attention, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
             View<float, 4> out, View<float, 3> lse = {});
void Forward(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
             View<double, 4> out, View<double, 3> lse = {});

// The gradients of sum(out * d_out). out and lse are those of the forward pass with the same Attention. d_q, d_k, d_v and,
// where present, d_relative_bias [Hq, 2M+1] are overwritten.
void Backward(const Attention& attention, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
              View<const float, 4> out, View<const float, 3> lse, View<const float, 4> d_out, View<float, 4> d_q,
              View<float, 4> d_k, View<float, 4> d_v, View<float, 2> d_relative_bias, Workspace& workspace, Executor& executor);
void Backward(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
              View<const double, 4> out, View<const double, 3> lse, View<const double, 4> d_out, View<double, 4> d_q,
              View<double, 4> d_k, View<double, 4> d_v, View<double, 2> d_relative_bias, Workspace& workspace,
              Executor& executor);

// Bytes of workspace that a call uses with an executor of the given concurrency. element_bytes: 4 float, 8 double.
std::size_t ForwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);
std::size_t BackwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);

// The SIMD targets compiled in that this CPU can run, best first ("AVX3", "AVX2", "SSE2", ...).
std::vector<std::string> SupportedTargets();
// Restricts every later call in this process to one of SupportedTargets(); an empty name lifts the restriction. For tests,
// benches and `heed check`; do not call it while other threads compute.
void UseTarget(const std::string& name);

}  // namespace heed

#endif  // HEED_ATTENTION_H_
