// The gated delta rule: linear attention (heed/linear_attention.h) whose state corrects its value for a key instead of adding
// to it.
//
//   S <- exp(g[t]) S
//   S <- S + beta[t] k[t] (v[t] - S^T k[t])^T
//   y[t] = S^T q[t]
//
// With keys of length 1, beta 1 replaces the state's value for k[t] by v[t], and beta 0 keeps it. Normalise keys before the
// call, else the state may grow without bound; the rule scales neither queries nor keys.
//
// Options, shapes, types, errors and memory are those of linear attention, without a normaliser; beta is [B, H, N] and finite.
// Within a chunk of 64 steps the corrections are one triangular system, solved by substitution. Each chunk needs the one
// before, so only sequences and heads run in parallel.
//
// Sources: Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule" (3.2: the system of a chunk); Yang, Kautz
// and Hatamizadeh 2025, "Gated Delta Networks" (3.3: with decay).
#ifndef HEED_GATED_DELTA_H_
#define HEED_GATED_DELTA_H_

#include "heed/linear_attention.h"

namespace heed {

template <class T>
void GatedDeltaForward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearOutputs<T>& outputs,
                       Workspace& workspace, Executor& executor);

// The gradients of sum(out * d_out) + sum(final_state * d_final_state).
template <class T>
void GatedDeltaBackward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearCotangents<T>& cotangents,
                        const LinearGradients<T>& gradients, Workspace& workspace, Executor& executor);

// One step for decoding, as LinearAttentionStep, with beta.
template <class T>
void GatedDeltaStep(const LinearStep<T>& step, View<T, 4> state, View<T, 3> out, Executor& executor);

}  // namespace heed

#endif  // HEED_GATED_DELTA_H_
