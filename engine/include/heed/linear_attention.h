// Linear attention with decay, in time and memory linear in the sequence length: a state of fixed size replaces keys and
// values.
//
//   S[t] = exp(g[t]) S[t-1] + k[t] v[t]^T         S[-1] is the initial state, 0 where there is none
//   y[t] = S[t]^T q[t]
//
// that is, y[t] = sum over s <= t of exp(g[s+1] + ... + g[t]) (q[t] . k[s]) v[s], plus the initial state's part. g = 0 is
// plain linear attention, one g a head retention, one a step the state space duality of Mamba-2. Scale queries and apply
// feature maps to queries and keys before the call.
//
// Shapes: q, k [B, H, N, D], v and out [B, H, N, Dv], states [B, H, D, Dv], one for each sequence and head. Any extent may be
// 0. Inputs may have any strides, 0 where heads share them (the call does not sum gradients over heads). Elements are float or
// double; products of decays are double, everything else is computed in the element type. An element of an output must share
// memory with no other element of an output and with nothing that the call reads.
//
// Sources: Katharopoulos et al. 2020, "Transformers are RNNs" (3.2 to 3.4); Sun et al. 2023, "Retentive Network" (2.1); Dao and
// Gu 2024, "Transformers are SSMs" (6: chunks of products, with a state between them). The decay of a pair is a running product
// of factors of at most 1 within a chunk, not a quotient of two long products: it neither overflows nor loses digits. A decay
// of minus infinity forgets all earlier steps. Products below 2^-103 (double: 2^-970) within a chunk count as 0.
#ifndef HEED_LINEAR_ATTENTION_H_
#define HEED_LINEAR_ATTENTION_H_

#include <cstdint>

#include "heed/call_options.h"
#include "heed/error.h"
#include "heed/executor.h"
#include "heed/view.h"
#include "heed/workspace.h"

namespace heed {

struct LinearOptions {
  // Steps of each sequence, [B, 1], from Lengths::PerBatch; absent: N. A call does not read later steps; outputs and gradients
  // are 0 there, and the final state is that after the last step within the length.
  Lengths lengths{};
  // Packed sequences: sequence b holds steps offsets[b] .. offsets[b+1] - 1. [B + 1], from 0, ascending. Arrays are then
  // [1, H, T, D] with T steps in all; states stay [B, H, D, Dv], one a sequence.
  View<const int64_t, 1> offsets{};
  // Divides y[t] by the sum of its weights, sum over s of exp(..) (q[t] . k[s]); the output is 0 where the sum is 0. States
  // then have one more column, [B, H, D, Dv + 1]: the decayed sum of keys. The gated delta rule refuses it.
  bool normalise = false;
};

template <class T>
struct LinearInputs {
  View<const T, 4> q{}, k{}, v{};
  // Log decays g, at most 0: [B, H, N], or [1, H, 1] for all steps of a head. Absent: 0.
  View<const T, 3> decay{};
  // Finite; absent: 0.
  View<const T, 4> initial_state{};
  // For the gated delta rule (heed/gated_delta.h): [B, H, N].
  View<const T, 3> beta{};
};

// Gradients in the shapes of their inputs, d_decay [1, H, 1] for a decay a head. Absent: not computed.
template <class T>
struct LinearGradients {
  View<T, 4> d_q{}, d_k{}, d_v{};
  View<T, 3> d_decay{};
  View<T, 4> d_initial_state{};
  View<T, 3> d_beta{};
};

// The results of a forward pass. final_state may be absent.
template <class T>
struct LinearOutputs {
  View<T, 4> out{};
  View<T, 4> final_state{};
  // [B, H, N], if normalised: the sums that divided the outputs. Keep them for the backward pass.
  View<T, 3> sums{};
};

// The inputs of a backward pass: cotangents of out and of the final state (absent: 0) and, if normalised, the forward pass's
// out and sums.
template <class T>
struct LinearCotangents {
  View<const T, 4> d_out{};
  View<const T, 4> d_final_state{};
  View<const T, 4> out{};
  View<const T, 3> sums{};
};

// Sequences and heads run in parallel and, where those are fewer than twice the threads, chunks of 64 steps too; results have
// the same bits for any number of threads. The workspace grows as needed: some 0.4 MB for each thread (float, D and Dv of 64),
// and backward a state for every 64 steps of the longest sequence. With parallel chunks it holds a state for every 64 steps of
// all sequences and heads, backward two. T: float, double. Throws InvalidArgument, naming the argument, before it writes
// anything.
template <class T>
void LinearAttentionForward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearOutputs<T>& outputs,
                            Workspace& workspace, Executor& executor);

// The gradients of sum(out * d_out) + sum(final_state * d_final_state). Overwrites those that are present.
template <class T>
void LinearAttentionBackward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearCotangents<T>& cotangents,
                             const LinearGradients<T>& gradients, Workspace& workspace, Executor& executor);

// One step for decoding: q, k [B, H, D], v [B, H, Dv], decay [B, H] or absent, beta [B, H] for the gated delta rule, else
// absent.
template <class T>
struct LinearStep {
  View<const T, 3> q{}, k{}, v{};
  View<const T, 2> decay{}, beta{};
};

// Updates the state [B, H, D, Dv] (Dv + 1 if normalised; the last stride is 1) in place and writes the output [B, H, Dv].
// Equals a forward pass over one step, to rounding.
template <class T>
void LinearAttentionStep(const LinearStep<T>& step, View<T, 4> state, View<T, 3> out, Executor& executor,
                         bool normalise = false);

}  // namespace heed

#endif  // HEED_LINEAR_ATTENTION_H_
