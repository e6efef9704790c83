// Exact multi-head attention on the CPU, forward, backward and forward mode, in memory linear in the sequence length.
//
//   s[i,j] = cap(scale * (q[i].(k[j] + a[i,j]) + k[j].e[i,j])) + bias[i,j]     for the keys j that query i may look at
//   p[i,:] = softmax(s[i,:])             lse[i] = log sum_j exp(s[i,j])       (natural logarithm; a sink is one more key)
//   o[i]   = sum_j drop(p[i,j]) (v[j] + c[i,j])
//
// with cap(x) = softcap * tanh(x / softcap), the sum of all biases, and a, e, c the vectors of schemes in the content; each is
// absent unless asked for. Options combine freely; the few pairs that cannot are refused by an error that names both.
//
// Shapes: q [B, Hq, Nq, D], k [B, Hkv, Nk, D], v [B, Hkv, Nk, Dv], out [B, Hq, Nq, Dv], lse [B, Hq, Nq]. Hq is a multiple
// of Hkv; query head h reads key head h / (Hq / Hkv). Any extent may be 0; an array has at most 2^48 elements, where an extent
// of 0 counts as 1. Any strides are accepted for inputs. No element of an output may share memory with another one of any
// output, nor with anything that the call reads, the arrays behind its options included; arrays that interleave without sharing
// are fine. Elements are float, double, BFloat16 or Float16; the 16-bit ones are computed in float and rounded once (those of
// BFloat16 unless Precision::kFused says otherwise), and everything else of their calls (lse, tables, their gradients) is
// float.
//
// Source: online softmax and recomputation after Dao 2023, "FlashAttention-2", algorithms 1 and 2; the layout (queries in
// SIMD lanes) is heed's own and described in docs/architecture.md.
#ifndef HEED_ATTENTION_H_
#define HEED_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/attention_options.h"
#include "heed/element.h"
#include "heed/error.h"
#include "heed/executor.h"
#include "heed/view.h"
#include "heed/workspace.h"

namespace heed {

struct Shape {
  int64_t batch = 0, q_heads = 0, kv_heads = 0, q_len = 0, kv_len = 0, head_dim = 0, value_dim = 0;
};

// What a forward pass may return besides the output, in O(Nq) memory; each [B, Hq, Nq], absent where not wanted. Of the
// weights before dropout: entropy = -sum_j p[j] log p[j], the largest p[j], and the mean of |key position - query position|.
// A sink counts as one more key, whose distance is 0. 0 in rows without weights.
template <class T>
struct Statistics {
  View<T, 3> entropy, max_weight, mean_distance;
};

// Statistics that have a gradient, for the backward pass: what Forward returned, and the gradient of each, all [B, Hq, Nq]. An
// absent gradient counts as 0; where one is present, so is what it belongs to, and beside d_max_weight the key that Forward
// named.
template <class T>
struct StatisticGradients {
  View<const T, 3> entropy, max_weight, mean_distance;
  View<const int64_t, 3> largest_key;
  View<const T, 3> d_entropy, d_max_weight, d_mean_distance;

  bool wanted() const { return d_entropy.present() || d_max_weight.present() || d_mean_distance.present(); }
};

// T is float, double, BFloat16 or Float16. All functions throw InvalidArgument before anything is written.
//
// out and, where present, lse, statistics, remainder, correction and largest_key are overwritten. The overload without
// workspace and executor uses a workspace of the calling thread and ThreadPool::Default().
//
// remainder: of 16-bit calls alone, in the shape of out: what rounding took from out, itself rounded to BFloat16. Gradients
// contain sum(out * d_out), which the rounding of out alone would spoil where scores are large.
//
// correction: [B, Hq, Nq], close to 1: the weights of the forward pass are exp(s - lse) times this, because lse is rounded, and
// more so the larger the scores are; 0 where it cannot say. To the digit: see heed/log_sum_exp.h.
//
// Whoever will call Backward keeps both for it.
//
// largest_key: [B, Hq, Nq], the index of the key whose weight is the largest of its row, the first of equal ones; -1 in rows
// without weights, and where a sink has more weight than any key. The derivative of the largest weight is that of this key's:
// of the subgradients of a maximum the one that is easiest to tell.
template <class T>
void Forward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, View<T, 4> out, View<Accum<T>, 3> lse, Workspace& workspace,
             Executor& executor, const Statistics<Accum<T>>& statistics = {}, View<BFloat16, 4> remainder = {},
             View<Accum<T>, 3> correction = {}, View<int64_t, 3> largest_key = {});
template <class T>
void Forward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, View<T, 4> out, View<Accum<T>, 3> lse = {});

// The tangents of a call's inputs, each in the shape of what it belongs to; an absent one is 0.
template <class T>
struct Tangents {
  View<const T, 4> q, k, v;
  // Of parameters of positional schemes, only read: those of dense biases, of tables by offset alone and of slopes; others are
  // refused.
  BiasGradients<Accum<T>> biases;
};

// Forward mode: out and lse as Forward has them, and how fast they change when the inputs change at the speed of their tangents
// (the product of the Jacobian with them, JVP), in one walk over the keys and as little memory. With t_s the tangent of the
// scores:
//   t_lse[i] = sum_j p[i,j] t_s[i,j]     t_out[i] = sum_j drop(p[i,j]) (t_s[i,j] v[j] + t_v[j]) - t_lse[i] out[i]
// t_out [B, Hq, Nq, Dv] and t_lse [B, Hq, Nq] are overwritten; lse and t_lse may be absent. 16-bit calls compute in float and
// round t_out once. What a pair that is hidden holds goes nowhere; rows without weights have tangents of 0. Content biases,
// Transformer-XL, column decay and contextual positions are refused.
template <class T>
void Tangent(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, const Tangents<T>& tangents, View<T, 4> out, View<T, 4> t_out,
             View<Accum<T>, 3> lse, View<Accum<T>, 3> t_lse, Workspace& workspace, Executor& executor);

// The gradients of sum(out * d_out) + sum(lse * d_lse) + sum(entropy * d_entropy) + sum(max_weight * d_max_weight) +
// sum(mean_distance * d_mean_distance), without the terms whose gradients are absent.
// out, lse, remainder and correction are those of the forward pass with the same Attention; 16-bit gradients are computed in
// float and rounded once where the remainder is given, else they inherit the rounding of out; without the correction, that of
// lse. d_q, d_k, d_v and the gradients of biases that are present are overwritten; an absent one is not wanted, and costs
// neither time nor memory.
template <class T>
void Backward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
              View<const std::type_identity_t<T>, 4> v, View<const std::type_identity_t<T>, 4> out, View<const Accum<T>, 3> lse,
              View<const std::type_identity_t<T>, 4> d_out, View<T, 4> d_q, View<T, 4> d_k, View<T, 4> d_v,
              const BiasGradients<Accum<T>>& d_biases, Workspace& workspace, Executor& executor,
              View<const Accum<T>, 3> d_lse = {}, View<const BFloat16, 4> remainder = {},
              View<const Accum<T>, 3> correction = {}, const StatisticGradients<Accum<T>>& statistics = {});

// The weights before dropout of chosen heads and queries: weights[b, x, y, :] are those of head heads[x] and query rows[y]
// over all keys, [B, heads, rows, Nk]. lse is that of the forward pass. Not for packed sequences.
template <class T>
void Weights(const Attention& attention, View<const T, 4> q, View<const T, 4> k, View<const Accum<T>, 3> lse,
             View<const int64_t, 1> heads, View<const int64_t, 1> rows, View<Accum<T>, 4> weights, Workspace& workspace,
             Executor& executor);

// Bytes of workspace that a call uses with an executor of the given concurrency. element_bytes: 4 float, 8 double, 2 the rest.
// For packed sequences the shape has their number and the longest lengths. Throws InvalidArgument.
std::size_t ForwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);
std::size_t TangentWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);
std::size_t BackwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);

// The SIMD targets compiled in that this CPU can run, best first ("AVX3_BF16", "AVX3", "AVX2", "SSE2", ...).
std::vector<std::string> SupportedTargets();
// Restricts every later call in this process to one of SupportedTargets(); an empty name lifts the restriction. For tests,
// benches and `heed check`; do not call it while other threads compute.
void UseTarget(const std::string& name);

}  // namespace heed

#endif  // HEED_ATTENTION_H_
