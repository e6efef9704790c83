// Linear attention with decay, in time and memory linear in the sequence length: instead of keys and values a state of fixed
// size is carried from step to step.
//
//   S[t] = exp(g[t]) S[t-1] + k[t] v[t]^T         S[-1] is the initial state, 0 where there is none
//   y[t] = S[t]^T q[t]
//
// which is y[t] = sum over s <= t of exp(g[s+1] + ... + g[t]) (q[t] . k[s]) v[s], and the initial state's part. So g = 0 is
// plain linear attention, one g a head retention, one a step the state space duality of Mamba-2. Queries are not scaled, and
// what features queries and keys stand for is up to the caller.
//
// Shapes: q, k [B, H, N, D], v and out [B, H, N, Dv], states [B, H, D, Dv] with one state for each sequence and head. Any
// extent may be 0; inputs have any strides, 0 for what heads share (gradients are not summed over heads). Elements are float or
// double, and all is computed in them but the products of decays, which are taken in double. No element of an output may share
// memory with another one of any output or with anything that the call reads.
//
// Sources: Katharopoulos et al. 2020, "Transformers are RNNs" (3.2 to 3.4); Sun et al. 2023, "Retentive Network" (2.1); Dao and
// Gu 2024, "Transformers are SSMs" (6: chunks of products, with a state between them). Decays of a pair are running products of
// factors of at most 1 within a chunk, never a quotient of two long ones: they neither overflow nor lose digits, and a decay of
// minus infinity forgets all that was before. Products below 2^-103 (double: 2^-970) within a chunk count as 0.
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
  // Steps of each sequence, [B, 1], as Lengths::PerBatch makes them; absent, N. Steps beyond are not read; outputs and
  // gradients are 0 there, and the final state is that after the last step that counts.
  Lengths lengths{};
  // Sequences end to end: sequence b holds steps offsets[b] .. offsets[b+1] - 1. [B + 1], from 0, ascending. Arrays are then
  // [1, H, T, D] with T steps in all; states are still [B, H, D, Dv], one a sequence.
  View<const int64_t, 1> offsets{};
  // Divides y[t] by the sum of its weights, sum over s of exp(..) (q[t] . k[s]); where that is 0 the output is 0. States then
  // have one more column, [B, H, D, Dv + 1]: the decayed sum of keys. Not for the gated delta rule.
  bool normalise = false;
};

template <class T>
struct LinearInputs {
  View<const T, 4> q{}, k{}, v{};
  // Log decays g, at most 0: [B, H, N], or [1, H, 1], which serves all steps of a head. Absent: 0.
  View<const T, 3> decay{};
  // Finite; absent: 0.
  View<const T, 4> initial_state{};
  // The gated delta rule's alone (heed/gated_delta.h): [B, H, N].
  View<const T, 3> beta{};
};

// Each in the shape of what it belongs to, d_decay [1, H, 1] for a decay a head. An absent one is not wanted.
template <class T>
struct LinearGradients {
  View<T, 4> d_q{}, d_k{}, d_v{};
  View<T, 3> d_decay{};
  View<T, 4> d_initial_state{};
  View<T, 3> d_beta{};
};

// What a forward pass writes. final_state may be absent.
template <class T>
struct LinearOutputs {
  View<T, 4> out{};
  View<T, 4> final_state{};
  // [B, H, N], where normalised: the sums that outputs were divided by. Whoever will call the backward pass keeps them for it.
  View<T, 3> sums{};
};

// What a backward pass reads: the cotangents of out and of the final state (absent: 0) and, where normalised, the forward
// pass's own results.
template <class T>
struct LinearCotangents {
  View<const T, 4> d_out{};
  View<const T, 4> d_final_state{};
  View<const T, 4> out{};
  View<const T, 3> sums{};
};

// Work is cut by sequence and head and, where those are fewer than twice the threads, by chunks of 64 steps; results have the
// same bits for any number of threads. The workspace grows as needed: some 0.4 MB for each thread (float, D and Dv of 64), and
// backward a state for every 64 steps of the longest sequence. Cut by chunks, one for every 64 steps of all sequences and
// heads, backward two. T: float, double. Throws InvalidArgument, which names the argument and what was expected, before
// anything is written.
template <class T>
void LinearAttentionForward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearOutputs<T>& outputs,
                            Workspace& workspace, Executor& executor);

// The gradients of sum(out * d_out) + sum(final_state * d_final_state). Those that are present are overwritten.
template <class T>
void LinearAttentionBackward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearCotangents<T>& cotangents,
                             const LinearGradients<T>& gradients, Workspace& workspace, Executor& executor);

// One step for decoding: q, k [B, H, D], v [B, H, Dv], decay [B, H] or absent, beta likewise and for the gated delta rule
// alone.
template <class T>
struct LinearStep {
  View<const T, 3> q{}, k{}, v{};
  View<const T, 2> decay{}, beta{};
};

// Updates the state [B, H, D, Dv] (Dv + 1 where normalised; its columns neighbours in memory) in place and writes its output
// [B, H, Dv]: what a forward pass over one step computes, to rounding.
template <class T>
void LinearAttentionStep(const LinearStep<T>& step, View<T, 4> state, View<T, 3> out, Executor& executor,
                         bool normalise = false);

}  // namespace heed

#endif  // HEED_LINEAR_ATTENTION_H_
