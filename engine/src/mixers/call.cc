#include "mixers/call.h"

#include <cmath>
#include <limits>
#include <string>

#include "core/arrays.h"
#include "core/refuse.h"
#include "core/regions.h"

namespace heed::mixers {
namespace {

using core::Refuse;
using core::Regions;

// Not given, unlike an array without elements.
template <class Array>
bool IsAbsent(const Array& array) {
  return !array.present() && array.extent == Array().extent;
}

template <class T, int Rank>
void CheckGradient(const char* name, const View<T, Rank>& gradient, const View<const T, Rank>& of, Regions& arrays) {
  if (IsAbsent(gradient)) return;
  if (IsAbsent(of)) Refuse(name, "expected none, because the array that it belongs to is not given");
  arrays.Write(name, gradient, of.extent, (std::string("the shape of ") + (name + 2)).c_str());
}

// Of the steps that count: numbers in low .. high.
template <class T>
void CheckSteps(const char* name, const View<const T, 3>& numbers, const Call<T>& call, double low, double high,
                const char* meaning) {
  for (int64_t b = 0; b < call.sequences.count(); ++b)
    for (int64_t c = 0; c < call.sequences.Chunks(b); ++c)
      for (int64_t h = 0; h < call.heads; ++h) {
        const Chunk chunk = call.sequences.At(b, h, c);
        const T* at = &numbers(chunk.row, h, chunk.first);
        for (int64_t t = 0; t < chunk.rows; ++t, at += numbers.stride[2])
          if (!(*at >= low && *at <= high))
            Refuse(name, meaning + std::to_string(*at) + " at step " + std::to_string(chunk.first + t) + " of head " +
                             std::to_string(h));
      }
}
constexpr const char* kExpectedDecays = "expected log decays of at most 0, got ";
template <class T>
void CheckDecay(T decay, int64_t head) {
  if (!(decay <= 0)) Refuse("decay", kExpectedDecays + std::to_string(decay) + " for head " + std::to_string(head));
}

template <class T>
void CheckFinite(const char* name, const View<const T, 4>& state) {
  const auto& [batch, heads, dim, columns] = state.extent;
  for (int64_t row = 0; row < batch * heads * dim && columns > 0; ++row) {
    const T* at = &state(row / dim / heads, row / dim % heads, row % dim, 0);
    int faults = 0;
    for (int64_t c = 0; c < columns; ++c) faults |= !(std::abs(at[c * state.stride[3]]) <= std::numeric_limits<T>::max());
    if (faults) Refuse(name, "expected finite numbers; those of head " + std::to_string(row / dim % heads) + " are not");
  }
}

template <class T>
std::array<int64_t, 4> StateShape(const Call<T>& call) {
  return {call.sequences.count(), call.heads, call.sizes.dim, call.sizes.columns};
}
const char* MeaningOfState(bool normalise) { return normalise ? "[B, H, D, Dv + 1]" : "[B, H, D, Dv]"; }

// The parts of a call that both directions read.
template <class T>
Call<T> CheckedInputs(const LinearOptions& options, const LinearInputs<T>& in, bool delta, Regions& arrays) {
  arrays.Read("q", in.q, in.q.extent, "");
  const auto [batch, heads, steps, dim] = in.q.extent;
  const std::array<int64_t, 3> numbers{batch, heads, steps};
  arrays.Read("k", in.k, in.q.extent, "the shape of q");
  arrays.Read("v", in.v, {batch, heads, steps, in.v.extent[3]}, "[B, H, N, Dv]");
  if (options.lengths.present() && options.offsets.present()) Refuse("lengths", "cannot be combined with offsets");
  if (options.lengths.present()) arrays.Read("lengths", options.lengths.values, {batch, 1}, "[B, 1]");
  core::CheckLengths("lengths", options.lengths, batch, 1, steps);
  if (options.offsets.present()) {
    arrays.Read("offsets", options.offsets, options.offsets.extent, "");
    if (batch != 1) Refuse("q", "packed sequences lie in arrays [1, H, T, D], got a batch of " + std::to_string(batch));
    int64_t longest = 0;
    const int64_t end = core::CheckOffsets("offsets", options.offsets, longest);
    if (end != steps)
      Refuse("offsets", "expected to end at the " + std::to_string(steps) + " steps of q, got " + std::to_string(end));
  }
  if (delta && options.normalise) Refuse("normalise", "the gated delta rule has no normaliser");
  if (delta && IsAbsent(in.beta)) Refuse("beta", "the gated delta rule needs it, [B, H, N]");
  if (!delta && !IsAbsent(in.beta)) Refuse("beta", "linear attention has none; it belongs to the gated delta rule");

  Call<T> call{};
  call.in = in;
  call.sequences = Sequences(options, batch, steps);
  call.heads = heads;
  call.steps = steps;
  call.normalise = options.normalise;
  call.delta = delta;
  call.sizes = {dim, in.v.extent[3] + (options.normalise ? 1 : 0)};
  if (call.one_decay()) {
    arrays.Read("decay", in.decay, {1, heads, 1}, "[B, H, N], or [1, H, 1] for a decay a head,");
    for (int64_t h = 0; h < heads; ++h) CheckDecay(in.decay(0, h, 0), h);
  } else if (!IsAbsent(in.decay)) {
    arrays.Read("decay", in.decay, numbers, "[B, H, N]");
    CheckSteps("decay", in.decay, call, -std::numeric_limits<double>::infinity(), 0, kExpectedDecays);
  }
  if (delta) {
    arrays.Read("beta", in.beta, numbers, "[B, H, N]");
    constexpr double kLargest = std::numeric_limits<T>::max();
    CheckSteps("beta", in.beta, call, -kLargest, kLargest, "expected finite numbers, got ");
  }
  if (!IsAbsent(in.initial_state)) {
    arrays.Read("initial_state", in.initial_state, StateShape(call), MeaningOfState(call.normalise));
    CheckFinite("initial_state", in.initial_state);
  }
  return call;
}

}  // namespace

template <class T>
Call<T> CheckedForward(const LinearOptions& options, const LinearInputs<T>& in, const LinearOutputs<T>& to, bool delta) {
  Regions arrays;
  Call<T> call = CheckedInputs(options, in, delta, arrays);
  arrays.Write("out", to.out, in.v.extent, "the shape of v");
  if (!IsAbsent(to.final_state)) arrays.Write("final_state", to.final_state, StateShape(call), MeaningOfState(call.normalise));
  if (!IsAbsent(to.sums)) {
    if (!options.normalise) Refuse("sums", "expected none without normalise");
    arrays.Write("sums", to.sums, {in.q.extent[0], call.heads, call.steps}, "[B, H, N]");
  }
  arrays.CheckApart();
  call.to = to;
  return call;
}

template <class T>
Call<T> CheckedBackward(const LinearOptions& options, const LinearInputs<T>& in, const LinearCotangents<T>& from,
                        const LinearGradients<T>& gradients, bool delta) {
  Regions arrays;
  Call<T> call = CheckedInputs(options, in, delta, arrays);
  arrays.Read("d_out", from.d_out, in.v.extent, "the shape of v");
  if (!IsAbsent(from.d_final_state))
    arrays.Read("d_final_state", from.d_final_state, StateShape(call), MeaningOfState(call.normalise));
  if (options.normalise) {
    arrays.Read("out", from.out, in.v.extent, "the shape of v");
    arrays.Read("sums", from.sums, {in.q.extent[0], call.heads, call.steps}, "[B, H, N]");
  }
  CheckGradient("d_q", gradients.d_q, in.q, arrays);
  CheckGradient("d_k", gradients.d_k, in.k, arrays);
  CheckGradient("d_v", gradients.d_v, in.v, arrays);
  CheckGradient("d_decay", gradients.d_decay, in.decay, arrays);
  CheckGradient("d_beta", gradients.d_beta, in.beta, arrays);
  CheckGradient("d_initial_state", gradients.d_initial_state, in.initial_state, arrays);
  arrays.CheckApart();
  call.from = from;
  call.gradients = gradients;
  call.backward = true;
  return call;
}

template <class T>
void CheckStep(const LinearStep<T>& step, const View<T, 4>& state, const View<T, 3>& out, bool delta, bool normalise) {
  Regions arrays;
  arrays.Read("q", step.q, step.q.extent, "");
  const auto [batch, heads, dim] = step.q.extent;
  const std::array<int64_t, 2> numbers{batch, heads};
  arrays.Read("k", step.k, step.q.extent, "the shape of q");
  arrays.Read("v", step.v, {batch, heads, step.v.extent[2]}, "[B, H, Dv]");
  if (delta == IsAbsent(step.beta))
    Refuse("beta", delta ? "the gated delta rule needs it, [B, H]" : "it belongs to the gated delta rule");
  if (delta) arrays.Read("beta", step.beta, numbers, "[B, H]");
  if (!IsAbsent(step.decay)) arrays.Read("decay", step.decay, numbers, "[B, H]");
  for (int64_t at = 0; at < batch * heads && step.decay.present(); ++at)
    CheckDecay(step.decay(at / heads, at % heads), at % heads);
  arrays.Write("state", state, {batch, heads, dim, step.v.extent[2] + (normalise ? 1 : 0)}, MeaningOfState(normalise));
  if (state.extent[3] > 1 && state.stride[3] != 1) Refuse("state", "expected columns that are neighbours in memory");
  CheckFinite<T>("state", state);
  arrays.Write("out", out, step.v.extent, "the shape of v");
  arrays.CheckApart();
}

template Call<float> CheckedForward(const LinearOptions&, const LinearInputs<float>&, const LinearOutputs<float>&, bool);
template Call<double> CheckedForward(const LinearOptions&, const LinearInputs<double>&, const LinearOutputs<double>&, bool);
template Call<float> CheckedBackward(const LinearOptions&, const LinearInputs<float>&, const LinearCotangents<float>&,
                                     const LinearGradients<float>&, bool);
template Call<double> CheckedBackward(const LinearOptions&, const LinearInputs<double>&, const LinearCotangents<double>&,
                                      const LinearGradients<double>&, bool);
template void CheckStep(const LinearStep<float>&, const View<float, 4>&, const View<float, 3>&, bool, bool);
template void CheckStep(const LinearStep<double>&, const View<double, 4>&, const View<double, 3>&, bool, bool);

}  // namespace heed::mixers
