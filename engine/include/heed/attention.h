// Exact multi-head attention on the CPU, forward, backward and forward mode, in memory linear in the sequence length.
//
//   s[i,j] = cap(scale * (q[i].(k[j] + a[i,j]) + k[j].e[i,j])) + bias[i,j]     for the keys j that query i may attend to
//   p[i,:] = softmax(s[i,:])             lse[i] = log sum_j exp(s[i,j])       (natural logarithm; a sink is one more key)
//   o[i]   = sum_j drop(p[i,j]) (v[j] + c[i,j])
//
// with cap(x) = softcap * tanh(x / softcap). bias is the sum of all biases; a, e and c are vectors, one for each offset. Terms
// that no option sets are absent. Options combine; for the few pairs that do not, an error names both.
//
// Shapes: q [B, Hq, Nq, D], k [B, Hkv, Nk, D], v [B, Hkv, Nk, Dv], out [B, Hq, Nq, Dv], lse [B, Hq, Nq]. Hq is a multiple
// of Hkv; query head h reads key head h / (Hq / Hkv). Any extent may be 0; an array has at most 2^48 elements (here an extent
// of 0 counts as 1). Inputs may have any strides. An element of an output must share memory with no other element of an output
// and with nothing that the call reads, arrays of options included; arrays may interleave without sharing. Elements are float,
// double, BFloat16 or Float16. 16-bit calls compute in float and round once (BFloat16 with Precision::kFused more often); their
// lse, tables and gradients of tables are float.
//
// Source: online softmax and recomputation after Dao 2023, "FlashAttention-2", algorithms 1 and 2. docs/architecture.md
// describes heed's own layout, with queries in SIMD lanes.
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
#include "heed/thread_workspace.h"
#include "heed/view.h"
#include "heed/workspace.h"

namespace heed {

struct Shape {
  int64_t batch = 0, q_heads = 0, kv_heads = 0, q_len = 0, kv_len = 0, head_dim = 0, value_dim = 0;
};

// Further results of a forward pass, in O(Nq) memory, each [B, Hq, Nq] or absent: of the weights before dropout the entropy
// -sum_j p[j] log p[j], the largest p[j], and the mean of |key position - query position|. A sink counts as one more key at
// distance 0. 0 in rows without weights.
template <class T>
struct Statistics {
  View<T, 3> entropy, max_weight, mean_distance;
};

// Statistics for the backward pass: Forward's results and their gradients, all [B, Hq, Nq]. An absent gradient counts as 0. A
// gradient needs its statistic, and d_max_weight also Forward's largest_key.
template <class T>
struct StatisticGradients {
  View<const T, 3> entropy, max_weight, mean_distance;
  View<const int64_t, 3> largest_key;
  View<const T, 3> d_entropy, d_max_weight, d_mean_distance;

  bool wanted() const { return d_entropy.present() || d_max_weight.present() || d_mean_distance.present(); }
};

// The arrays of a call by name; T is float, double, BFloat16 or Float16. All functions throw InvalidArgument before they write
// anything. Without a workspace and an executor they use a workspace of the calling thread and ThreadPool::Default().
template <class T>
struct ForwardInputs {
  View<const T, 4> q, k, v;
};

// All but out may be absent.
//
// remainder: for 16-bit calls, in the shape of out: the rounding error of out, rounded to BFloat16. Gradients contain
// sum(out * d_out), which loses digits without it where scores are large. Leave it out in float and double.
//
// correction: [B, Hq, Nq], close to 1: weights = correction * exp(s - lse). It makes up for the rounding of lse, which grows
// with the scores; 0 where it is unknown. heed/log_sum_exp.h has the exact formula.
//
// largest_key: [B, Hq, Nq], the index of the key with the largest weight of its row, the first of equal ones; -1 in rows
// without weights, and where a sink has more weight than any key. The derivative of the largest weight is that of this key's
// weight, one of the subgradients of the maximum.
template <class T>
struct ForwardResults {
  View<T, 4> out;
  View<Accum<T>, 3> lse{};
  Statistics<Accum<T>> statistics{};
  View<BFloat16, 4> remainder{};
  View<Accum<T>, 3> correction{};
  View<int64_t, 3> largest_key{};
};

// Overwrites the results that are present: Forward<float>(attention, {.q = q, .k = k, .v = v}, {.out = out, .lse = lse}).
template <class T>
void Forward(const Attention& attention, const ForwardInputs<T>& inputs, const ForwardResults<T>& results,
             Workspace& workspace = ThreadWorkspace(), Executor& executor = ThreadPool::Default());

// What Backward reads. out, lse, remainder and correction come from the forward pass with the same Attention. 16-bit gradients
// are computed in float and rounded once if the remainder is given; without it they inherit the rounding of out, without the
// correction that of lse.
template <class T>
struct BackwardInputs {
  View<const T, 4> q, k, v, out;
  View<const Accum<T>, 3> lse;
  View<const T, 4> d_out;
  View<const Accum<T>, 3> d_lse{};
  View<const BFloat16, 4> remainder{};
  View<const Accum<T>, 3> correction{};
  StatisticGradients<Accum<T>> statistics{};
};

// Gradients of q, k, v and of the parameters of positional schemes, each in the shape of what it belongs to; absent ones cost
// neither time nor memory.
template <class T>
struct InputGradients {
  View<T, 4> q{}, k{}, v{};
  BiasGradients<Accum<T>> biases{};
};

// The gradients of sum(out * d_out) + sum(lse * d_lse) + sum(entropy * d_entropy) + sum(max_weight * d_max_weight) +
// sum(mean_distance * d_mean_distance), without the terms whose gradients are absent. Overwrites the gradients that are
// present.
template <class T>
void Backward(const Attention& attention, const BackwardInputs<T>& inputs, const InputGradients<T>& gradients,
              Workspace& workspace = ThreadWorkspace(), Executor& executor = ThreadPool::Default());

// The tangents of a call's inputs, each in the shape of what it belongs to; an absent one is 0.
template <class T>
struct Tangents {
  View<const T, 4> q, k, v;
  // Tangents of dense biases, of tables by offset, of slopes, of keys without a value and of the real tables of score
  // programs; the call only reads them. Those of other parameters throw InvalidArgument.
  BiasGradients<Accum<T>> biases;
};

// Forward mode: out and lse as Forward has them, and how fast they change when the inputs change at the speed of their tangents
// (the product of the Jacobian with them, JVP), in one walk over the keys and as little memory. With t_s the tangent of the
// scores:
//   t_lse[i] = sum_j p[i,j] t_s[i,j]     t_out[i] = sum_j drop(p[i,j]) (t_s[i,j] v[j] + t_v[j]) - t_lse[i] out[i]
// t_out [B, Hq, Nq, Dv] and t_lse [B, Hq, Nq] are overwritten; lse and t_lse may be absent. 16-bit calls compute in float and
// round t_out once. Hidden pairs have no influence, whatever numbers they hold; rows without weights have tangents of 0.
// Content biases, Transformer-XL, column decay and contextual positions are refused.
template <class T>
void Tangent(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, const Tangents<T>& tangents, View<T, 4> out, View<T, 4> t_out,
             View<Accum<T>, 3> lse, View<Accum<T>, 3> t_lse, Workspace& workspace, Executor& executor);

// Tangents of out, lse, d_out and d_lse, each in the shape of what it belongs to; an absent one is 0. Those of out and lse are
// what Tangent returned for the same tangents of the inputs: give out's if any of these is given, lse's if one of q, k or a
// bias is.
template <class T>
struct RowTangents {
  View<const T, 4> out{};
  View<const Accum<T>, 3> lse{};
  View<const T, 4> d_out{};
  View<const Accum<T>, 3> d_lse{};
};

// The derivative of Backward's gradients along the given tangents of all that they are made of. With Tangent, that is every
// second derivative in linear memory. The gradient of sum(out * d_out) + sum(lse * d_lse) has a symmetric Jacobian. So along
// tangents u this is the product of that Hessian with u; and gradients u of Backward's results give this to q, k, v and biases,
// and Tangent's t_out and t_lse along u to d_out and d_lse.
// Overwrites t_d_q, t_d_k, t_d_v and those of biases that are present, in the shapes of Backward's. 16-bit calls compute in
// float and round once; they inherit the rounding of of_rows.out. Hidden pairs have no influence. What Tangent refuses is
// refused; only dense biases, tables by offset and slopes have tangents or gradients here, and statistics have none: their
// gradients throw InvalidArgument.
template <class T>
void BackwardTangent(const Attention& attention, const BackwardInputs<T>& inputs, const Tangents<T>& tangents,
                     const RowTangents<T>& of_rows, View<T, 4> t_d_q, View<T, 4> t_d_k, View<T, 4> t_d_v,
                     const BiasGradients<Accum<T>>& t_d_biases, Workspace& workspace, Executor& executor);

// The weights before dropout of chosen heads and queries: weights[b, x, y, :] are those of head heads[x] and query rows[y]
// over all keys, [B, heads, rows, Nk]. lse is that of the forward pass. Not for packed sequences. Name T: Weights<float>(..).
template <class T>
void Weights(const Attention& attention, View<const T, 4> q, View<const T, 4> k, View<const Accum<T>, 3> lse,
             View<const int64_t, 1> heads, View<const int64_t, 1> rows, View<Accum<T>, 4> weights, Workspace& workspace,
             Executor& executor);

// Bytes of workspace that a call uses with an executor of this concurrency. element_bytes: 4 float, 8 double, 2 the rest. For
// packed sequences give their number as batch and the longest lengths. Throws InvalidArgument.
std::size_t ForwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);
std::size_t TangentWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);
std::size_t BackwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);
std::size_t BackwardTangentWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);

// The SIMD targets compiled in that this CPU can run, best first ("AVX3_BF16", "AVX3", "AVX2", "SSE2", ...; see
// heed/machine.h).
std::vector<std::string> SupportedTargets();
// Restricts every later call in this process to one of SupportedTargets(); an empty name lifts the restriction. Throws
// InvalidArgument for other names. For tests, benches and `heed check`; do not call it while other threads compute.
void UseTarget(const std::string& name);

// The same calls with arrays by their places. NOLINTBEGIN(readability-function-size): an argument each
template <class T>
void Forward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, View<T, 4> out, View<Accum<T>, 3> lse, Workspace& workspace,
             Executor& executor, const Statistics<Accum<T>>& statistics = {}, View<BFloat16, 4> remainder = {},
             View<Accum<T>, 3> correction = {}, View<int64_t, 3> largest_key = {}) {
  Forward<T>(attention, {q, k, v}, {out, lse, statistics, remainder, correction, largest_key}, workspace, executor);
}
template <class T>
void Forward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, View<T, 4> out, View<Accum<T>, 3> lse = {}) {
  Forward<T>(attention, {q, k, v}, {out, lse});
}
template <class T>
void Backward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
              View<const std::type_identity_t<T>, 4> v, View<const std::type_identity_t<T>, 4> out, View<const Accum<T>, 3> lse,
              View<const std::type_identity_t<T>, 4> d_out, View<T, 4> d_q, View<T, 4> d_k, View<T, 4> d_v,
              const BiasGradients<Accum<T>>& d_biases, Workspace& workspace, Executor& executor,
              View<const Accum<T>, 3> d_lse = {}, View<const BFloat16, 4> remainder = {},
              View<const Accum<T>, 3> correction = {}, const StatisticGradients<Accum<T>>& statistics = {}) {
  Backward<T>(attention, {q, k, v, out, lse, d_out, d_lse, remainder, correction, statistics}, {d_q, d_k, d_v, d_biases},
              workspace, executor);
}
// NOLINTEND(readability-function-size)
}  // namespace heed

#endif  // HEED_ATTENTION_H_
