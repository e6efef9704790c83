// Exact multi-head attention on the CPU, forward and backward, in memory linear in the sequence length.
//
//   s[i,j] = cap(scale * (q[i].(k[j] + a[i,j]) + k[j].e[i,j])) + bias[i,j]     for the keys j that query i may look at
//   p[i,:] = softmax(s[i,:])             lse[i] = log sum_j exp(s[i,j])       (natural logarithm)
//   o[i]   = sum_j drop(p[i,j]) (v[j] + c[i,j])
//
// with cap(x) = softcap * tanh(x / softcap), the sum of all biases, and a, e, c the rows of a ContentBias; each is absent
// unless asked for. Options combine freely; the few pairs that cannot are refused by an error that names both.
//
// Shapes: q [B, Hq, Nq, D], k [B, Hkv, Nk, D], v [B, Hkv, Nk, Dv], out [B, Hq, Nq, Dv], lse [B, Hq, Nq]. Hq is a multiple
// of Hkv; query head h reads key head h / (Hq / Hkv). Any extent may be 0; an array has at most 2^48 elements, where an extent
// of 0 counts as 1. Any strides are accepted for inputs. No element of an output may share memory with another one of any
// output, nor with anything that the call reads, the arrays behind its options included; arrays that interleave without sharing
// are fine. Elements are float, double, BFloat16 or Float16; the 16-bit ones are computed in float and rounded once, and
// everything else of their calls (lse, tables, their gradients) is float.
//
// Source: online softmax and recomputation after Dao 2023, "FlashAttention-2", algorithms 1 and 2; the layout (queries in
// SIMD lanes) is heed's own and described in docs/architecture.md.
#ifndef HEED_ATTENTION_H_
#define HEED_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "heed/element.h"
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

// Where the tokens of one side stand. Either token t at offset + t, or as listed: [1, N] or [B, N], whole numbers or real
// ones (timestamps), in any order, repeated or not, finite. Absent: keys at 0..Nk-1, queries as `causal` aligns them (0..Nq-1
// without causality). No position may lie beyond 2^53 on either side of 0. Lists are read during the call, not kept.
struct Positions {
  std::optional<int64_t> offset;
  std::variant<std::monostate, View<const int64_t, 2>, View<const double, 2>> list;

  bool listed() const { return list.index() != 0; }
  bool present() const { return offset.has_value() || listed(); }
};

// A query at position p looks at keys in p - left .. p + right only; -1: no bound on that side, nor is one that reaches beyond
// all keys.
struct Window {
  int64_t left = -1, right = -1;
  bool present() const { return left >= 0 || right >= 0; }
};

// Sequences of different lengths end to end: sequence b holds queries query_offsets[b] .. query_offsets[b+1] - 1 and keys
// likewise. Arrays are then [1, H, T, D] with T tokens in all; B stands for the number of sequences, everything given per
// batch row ([B], [B, N] up to the longest sequence) is given per sequence, and positions begin anew in each.
struct Packed {
  View<const int64_t, 1> query_offsets, key_offsets;  // [B + 1], from 0, ascending
  bool present() const { return query_offsets.present() || key_offsets.present(); }
};

// True where a query may look at a key; a dense array in the caller's memory. Extents are those of [B, Hq, Nq, Nk] or 1.
struct Mask {
  View<const bool, 4> values;
  bool present() const { return values.present(); }
};

// A table in the accumulation type of the call.
template <int Rank>
using Table = std::variant<View<const float, Rank>, View<const double, Rank>>;

// Numbers added to the scores, dense in the caller's memory: extents are those of [B, Hq, Nq, Nk] or 1. An entry of -inf
// hides the key as a mask does; the lowest finite number does not: a row that holds nothing else takes the mean of its values.
// Scores are kept in powers of two, so entries beyond 0.69 of the largest number of T count as that. The gradient is reduced to
// the extents of the array.
struct Bias {
  Table<4> values;
};

// One trainable number per head and clipped offset: bias(delta) = table[h, clip(delta, -M, M) + M] with
// delta = key position - query position, a whole number. T5 and learned relative biases are such tables. Finite entries only.
struct RelativeBias {
  Table<2> table;  // [Hq, 2M+1]
};

// ALiBi: -slope_h * |delta|, or slope_h * delta where not symmetric. Positions may be real numbers. Press et al. 2022.
struct SlopeBias {
  Table<1> slopes;  // [Hq]
  bool symmetric = true;
};

// Relative positions in the content: a[delta] is added to the key that a query sees, e[delta] to the query that a key meets,
// c[delta] to the value, with delta = key position - query position clipped to -M..M, a whole number, and the rows at
// delta + M. Vectors do not meet each other: there is no term a.e. Each may be absent. Finite entries only.
// keys, values: Shaw et al. 2018, "Self-Attention with Relative Position Representations", section 3.2. keys, queries: the
// terms content-to-position and position-to-content of He et al. 2021, "DeBERTa", section 3.1; with one table for both, method
// 4 of Huang et al. 2020, "Improve Transformer Models with Better Relative Position Embeddings", section 3.4.
struct ContentBias {
  std::optional<Table<2>> keys;     // [2M+1, D]
  std::optional<Table<2>> values;   // [2M+1, Dv]
  std::optional<Table<2>> queries;  // [2M+1, D]
};

// Drops attention weights after the softmax with `probability`, resolved to 1/65536, and scales the kept ones by the
// inverse of the probability realised. The decision for a weight is a function of (seed, batch index,
// query head, query index, key index) alone: Philox4x32-10, Salmon et al. 2011. Nothing is stored.
struct Dropout {
  double probability = 0.0;  // 0 .. 65535/65536
  uint64_t seed = 0;
  int64_t batch_offset = 0;  // batch index of row 0; lets one row of a batch be recomputed alone
};

struct Attention {
  std::optional<double> scale;  // multiplies q.k; 1/sqrt(D) when absent
  Causal causal = Causal::kNone;
  Window window;
  Lengths query_lengths;   // [B]
  Lengths key_lengths;     // [B] or [B, Nq]
  Lengths prefix_lengths;  // [B]: keys before it are seen by every query, whatever causality says
  Packed packed;
  Positions query_positions, key_positions;
  Mask mask;
  std::optional<Bias> bias;
  std::optional<RelativeBias> relative_bias;
  std::optional<SlopeBias> slope_bias;
  std::optional<ContentBias> content_bias;
  std::optional<double> softcap;  // > 0
  Dropout dropout;
  EmptyRow empty_row = EmptyRow::kZero;
};

struct Shape {
  int64_t batch = 0, q_heads = 0, kv_heads = 0, q_len = 0, kv_len = 0, head_dim = 0, value_dim = 0;
};

// What a forward pass may return besides the output, in O(Nq) memory; each [B, Hq, Nq], absent where not wanted. Of the
// weights before dropout: entropy = -sum_j p[j] log p[j], the largest p[j], and the mean of |key position - query position|.
// 0 in rows without weights.
template <class T>
struct Statistics {
  View<T, 3> entropy, max_weight, mean_distance;
};

// Gradients of the parameters of biases, each in the shape of what it belongs to; absent where not wanted.
template <class T>
struct BiasGradients {
  View<T, 4> bias;
  View<T, 2> relative_bias;
  View<T, 1> slopes;
  View<T, 2> content_keys, content_values, content_queries;
};

// T is float, double, BFloat16 or Float16. All functions throw InvalidArgument before anything is written.
//
// out and, where present, lse, statistics, remainder and correction are overwritten. The overload without workspace and
// executor uses a workspace of the calling thread and ThreadPool::Default().
//
// remainder: of 16-bit calls alone, in the shape of out: what rounding took from out, itself rounded to BFloat16. Gradients
// contain sum(out * d_out), which the rounding of out alone would spoil where scores are large.
//
// correction: [B, Hq, Nq], close to 1: the weights of the forward pass are exp(s - lse) times this, because lse is rounded, and
// more so the larger the scores are; 0 where it cannot say.
//
// Whoever will call Backward keeps both for it.
template <class T>
void Forward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, View<T, 4> out, View<Accum<T>, 3> lse, Workspace& workspace,
             Executor& executor, const Statistics<Accum<T>>& statistics = {}, View<BFloat16, 4> remainder = {},
             View<Accum<T>, 3> correction = {});
template <class T>
void Forward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, View<T, 4> out, View<Accum<T>, 3> lse = {});

// The gradients of sum(out * d_out) + sum(lse * d_lse), the latter 0 where d_lse is absent. out, lse, remainder and correction
// are those of the forward pass with the same Attention; 16-bit gradients are computed in float and rounded once where the
// remainder is given, else they inherit the rounding of out; without the correction, that of lse. d_q, d_k, d_v and the
// gradients of biases that are present are overwritten; an absent one is not wanted, and costs neither time nor memory.
template <class T>
void Backward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
              View<const std::type_identity_t<T>, 4> v, View<const std::type_identity_t<T>, 4> out, View<const Accum<T>, 3> lse,
              View<const std::type_identity_t<T>, 4> d_out, View<T, 4> d_q, View<T, 4> d_k, View<T, 4> d_v,
              const BiasGradients<Accum<T>>& d_biases, Workspace& workspace, Executor& executor,
              View<const Accum<T>, 3> d_lse = {}, View<const BFloat16, 4> remainder = {},
              View<const Accum<T>, 3> correction = {});

// The weights before dropout of chosen heads and queries: weights[b, x, y, :] are those of head heads[x] and query rows[y]
// over all keys, [B, heads, rows, Nk]. lse is that of the forward pass. Not for packed sequences.
template <class T>
void Weights(const Attention& attention, View<const T, 4> q, View<const T, 4> k, View<const Accum<T>, 3> lse,
             View<const int64_t, 1> heads, View<const int64_t, 1> rows, View<Accum<T>, 4> weights, Workspace& workspace,
             Executor& executor);

// Bytes of workspace that a call uses with an executor of the given concurrency. element_bytes: 4 float, 8 double, 2 the rest.
// For packed sequences the shape has their number and the longest lengths. Throws InvalidArgument.
std::size_t ForwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);
std::size_t BackwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);

// The SIMD targets compiled in that this CPU can run, best first ("AVX3", "AVX2", "SSE2", ...).
std::vector<std::string> SupportedTargets();
// Restricts every later call in this process to one of SupportedTargets(); an empty name lifts the restriction. For tests,
// benches and `heed check`; do not call it while other threads compute.
void UseTarget(const std::string& name);

}  // namespace heed

#endif  // HEED_ATTENTION_H_
