#include "mixers/call.h"

#include <cmath>
#include <string>

#include "core/arrays.h"
#include "core/refuse.h"
#include "core/regions.h"

namespace heed::mixers {
namespace {

using core::CheckDistinct;
using core::CheckPresent;
using core::CheckShape;
using core::Refuse;
using core::Regions;

template <class Array>
void CheckInput(const char* name, const Array& array, const decltype(core::ExtentsOf(array).extent)& shape,
                const char* meaning) {
  CheckPresent(name, array);
  CheckShape(name, array, shape, meaning);
}

// Not given, unlike an array without elements.
template <class Array>
bool IsAbsent(const Array& array) {
  return !array.present() && array.extent == Array().extent;
}

template <class Array>
void CheckOutput(const char* name, const Array& array, const decltype(core::ExtentsOf(array).extent)& shape,
                 const char* meaning) {
  CheckInput(name, array, shape, meaning);
  CheckDistinct(name, array);
}

void CheckOffsets(const View<const int64_t, 1>& offsets, int64_t batch, int64_t steps) {
  CheckPresent("offsets", offsets);
  if (batch != 1) Refuse("q", "packed sequences lie in arrays [1, H, T, D], got a batch of " + std::to_string(batch));
  const int64_t count = offsets.extent[0];
  if (count < 1 || offsets(0) != 0) Refuse("offsets", "expected cumulative lengths [B + 1] that begin with 0");
  for (int64_t b = 0; b + 1 < count; ++b)
    if (offsets(b + 1) < offsets(b)) Refuse("offsets", "expected ascending numbers, got " + std::to_string(offsets(b + 1)));
  if (offsets(count - 1) != steps)
    Refuse("offsets",
           "expected to end at the " + std::to_string(steps) + " steps of q, got " + std::to_string(offsets(count - 1)));
}

void CheckLengths(const View<const int64_t, 2>& lengths, int64_t batch, int64_t steps) {
  CheckInput("lengths", lengths, {batch, 1}, "[B, 1]");
  for (int64_t b = 0; b < batch; ++b)
    if (lengths(b, 0) < 0 || lengths(b, 0) > steps)
      Refuse("lengths", "expected values in 0.." + std::to_string(steps) + ", got " + std::to_string(lengths(b, 0)) +
                            " in batch row " + std::to_string(b));
}

template <class T>
void CheckDecay(T decay, const std::string& place) {
  if (!(decay <= 0)) Refuse("decay", "expected log decays of at most 0, got " + std::to_string(decay) + place);
}

// Numbers of a step that counts.
template <class T, class Check>
void ForEachStep(const Call<T>& call, const View<const T, 3>& numbers, const Check& check) {
  const bool one = numbers.extent[2] != call.steps || numbers.extent[0] != call.in.q.extent[0];
  for (int64_t h = 0; h < call.heads; ++h) {
    if (one) check(numbers(0, h, 0), " for head " + std::to_string(h));
    for (int64_t b = 0; b < call.sequences.count() && !one; ++b)
      for (int64_t c = 0; c < call.sequences.Chunks(b); ++c) {
        const Chunk chunk = call.sequences.At(b, h, c);
        const T* at = &numbers(chunk.row, h, chunk.first);
        for (int64_t t = 0; t < chunk.rows; ++t)
          if (!(at[t * numbers.stride[2]] <= 0 && at[t * numbers.stride[2]] >= -1))  // most are fine: texts take time
            check(at[t * numbers.stride[2]], " at step " + std::to_string(chunk.first + t) + " of head " + std::to_string(h));
      }
  }
}

template <class T>
void CheckFiniteState(const char* name, const View<const T, 4>& state) {
  const auto& [batch, heads, dim, columns] = state.extent;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < dim; ++i)
        for (int64_t j = 0; j < columns; ++j)
          if (!std::isfinite(state(b, h, i, j)))
            Refuse(name, "expected finite numbers, got " + std::to_string(state(b, h, i, j)) + " in the state of head " +
                             std::to_string(h));
}

template <class T>
std::array<int64_t, 4> StateShape(const Call<T>& call) {
  return {call.sequences.count(), call.heads, call.sizes.dim, call.sizes.columns};
}
const char* MeaningOfState(bool normalise) { return normalise ? "[B, H, D, Dv + 1]" : "[B, H, D, Dv]"; }

// What a call reads in either direction.
template <class T>
Call<T> CheckedInputs(const LinearOptions& options, const LinearInputs<T>& in, bool delta, Regions& regions) {
  CheckPresent("q", in.q);
  const auto [batch, heads, steps, dim] = in.q.extent;
  CheckInput("k", in.k, in.q.extent, "the shape of q");
  CheckPresent("v", in.v);
  CheckShape("v", in.v, {batch, heads, steps, in.v.extent[3]}, "[B, H, N, Dv]");
  if (options.lengths.present() && options.offsets.present()) Refuse("lengths", "cannot be combined with offsets");
  if (options.offsets.present()) CheckOffsets(options.offsets, batch, steps);
  if (options.lengths.present()) CheckLengths(options.lengths.values, batch, steps);
  if (delta && options.normalise) Refuse("normalise", "the gated delta rule has no normaliser");
  if (!delta && !IsAbsent(in.beta)) Refuse("beta", "linear attention has none; it belongs to the gated delta rule");

  Call<T> call{};
  call.in = in;
  call.sequences = Sequences(options, batch, steps);
  call.heads = heads;
  call.steps = steps;
  call.normalise = options.normalise;
  call.sizes = {dim, in.v.extent[3] + (options.normalise ? 1 : 0)};
  if (in.decay.present()) {
    CheckPresent("decay", in.decay);
    if (call.one_decay()) CheckShape("decay", in.decay, {1, heads, 1}, "[B, H, N], or [1, H, 1] for a decay a head,");
    CheckShape("decay", in.decay, {in.decay.extent[0], heads, in.decay.extent[2]}, "[B, H, N]");
    ForEachStep(call, in.decay, CheckDecay<T>);
  }
  if (delta) {
    if (IsAbsent(in.beta)) Refuse("beta", "the gated delta rule needs it, [B, H, N]");
    CheckInput("beta", in.beta, {batch, heads, steps}, "[B, H, N]");
    ForEachStep(call, in.beta, [](T beta, const std::string& place) {
      if (!std::isfinite(beta)) Refuse("beta", "expected finite numbers, got " + std::to_string(beta) + place);
    });
  }
  core::CheckExtents<4>("v", {call.sequences.count(), heads, Padded(dim), Padded(call.sizes.columns)});
  if (in.initial_state.present()) {
    CheckInput("initial_state", in.initial_state, StateShape(call), MeaningOfState(call.normalise));
    CheckFiniteState("initial_state", in.initial_state);
  }
  regions.Read("q", in.q);
  regions.Read("k", in.k);
  regions.Read("v", in.v);
  regions.Read("decay", in.decay);
  regions.Read("beta", in.beta);
  regions.Read("initial_state", in.initial_state);
  regions.Read("lengths", options.lengths.values);
  regions.Read("offsets", options.offsets);
  return call;
}

template <class T, int Rank>
void CheckGradient(Regions& regions, const char* name, const View<T, Rank>& gradient, const View<const T, Rank>& of,
                   const char* meaning) {
  if (IsAbsent(gradient)) return;
  if (IsAbsent(of)) Refuse(name, "there is nothing it could be the gradient of");
  CheckOutput(name, gradient, core::ExtentsOf(of).extent, meaning);
  regions.Write(name, gradient);
}

}  // namespace

template <class T>
Call<T> CheckedForward(const LinearOptions& options, const LinearInputs<T>& in, const LinearOutputs<T>& to, bool delta) {
  Regions regions;
  Call<T> call = CheckedInputs(options, in, delta, regions);
  const auto [batch, heads, steps, dim] = in.q.extent;
  CheckOutput("out", to.out, core::ExtentsOf(in.v).extent, "the shape of v");
  regions.Write("out", to.out);
  if (to.final_state.present()) {
    CheckOutput("final_state", to.final_state, StateShape(call), MeaningOfState(call.normalise));
    regions.Write("final_state", to.final_state);
  }
  if (to.sums.present()) {
    if (!options.normalise) Refuse("sums", "expected none without normalise");
    CheckOutput("sums", to.sums, {batch, heads, steps}, "[B, H, N]");
    regions.Write("sums", to.sums);
  }
  regions.CheckApart();
  call.to = to;
  return call;
}

template <class T>
Call<T> CheckedBackward(const LinearOptions& options, const LinearInputs<T>& in, const LinearCotangents<T>& from,
                        const LinearGradients<T>& gradients, bool delta) {
  Regions regions;
  Call<T> call = CheckedInputs(options, in, delta, regions);
  const auto [batch, heads, steps, dim] = in.q.extent;
  CheckInput("d_out", from.d_out, core::ExtentsOf(in.v).extent, "the shape of v");
  regions.Read("d_out", from.d_out);
  if (from.d_final_state.present()) {
    CheckInput("d_final_state", from.d_final_state, StateShape(call), MeaningOfState(call.normalise));
    regions.Read("d_final_state", from.d_final_state);
  }
  if (options.normalise) {
    CheckInput("out", from.out, core::ExtentsOf(in.v).extent, "the shape of v");
    CheckInput("sums", from.sums, {batch, heads, steps}, "[B, H, N]");
    regions.Read("out", from.out);
    regions.Read("sums", from.sums);
  }
  CheckGradient(regions, "d_q", gradients.d_q, in.q, "the shape of q");
  CheckGradient(regions, "d_k", gradients.d_k, in.k, "the shape of k");
  CheckGradient(regions, "d_v", gradients.d_v, in.v, "the shape of v");
  CheckGradient(regions, "d_decay", gradients.d_decay, in.decay, "the shape of decay");
  CheckGradient(regions, "d_beta", gradients.d_beta, in.beta, "the shape of beta");
  CheckGradient(regions, "d_initial_state", gradients.d_initial_state, in.initial_state, "the shape of initial_state");
  regions.CheckApart();
  call.from = from;
  call.gradients = gradients;
  call.backward = true;
  return call;
}

template <class T>
void CheckStep(const LinearStep<T>& step, const View<T, 4>& state, const View<T, 3>& out, bool delta, bool normalise) {
  CheckPresent("q", step.q);
  const auto [batch, heads, dim] = step.q.extent;
  CheckInput("k", step.k, core::ExtentsOf(step.q).extent, "the shape of q");
  CheckPresent("v", step.v);
  CheckShape("v", step.v, {batch, heads, step.v.extent[2]}, "[B, H, Dv]");
  CheckOutput("out", out, core::ExtentsOf(step.v).extent, "the shape of v");
  CheckOutput("state", state, {batch, heads, dim, step.v.extent[2] + (normalise ? 1 : 0)}, MeaningOfState(normalise));
  if (state.extent[3] > 1 && state.stride[3] != 1) Refuse("state", "expected columns that are neighbours in memory");
  if (delta != step.beta.present())
    Refuse("beta", delta ? "the gated delta rule needs it, [B, H]" : "it belongs to the gated delta rule");
  if (delta) CheckInput("beta", step.beta, {batch, heads}, "[B, H]");
  if (step.decay.present()) CheckInput("decay", step.decay, {batch, heads}, "[B, H]");
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads && step.decay.present(); ++h) CheckDecay(step.decay(b, h), " for head " + std::to_string(h));
  CheckFiniteState<T>("state", state);
  Regions regions;
  regions.Read("q", step.q);
  regions.Read("k", step.k);
  regions.Read("v", step.v);
  regions.Read("decay", step.decay);
  regions.Read("beta", step.beta);
  regions.Write("state", state);
  regions.Write("out", out);
  regions.CheckApart();
}

#define HEED_INSTANTIATE(T)                                                                                     \
  template Call<T> CheckedForward(const LinearOptions&, const LinearInputs<T>&, const LinearOutputs<T>&, bool); \
  template Call<T> CheckedBackward(const LinearOptions&, const LinearInputs<T>&, const LinearCotangents<T>&,    \
                                   const LinearGradients<T>&, bool);                                            \
  template void CheckStep(const LinearStep<T>&, const View<T, 4>&, const View<T, 3>&, bool, bool)
HEED_INSTANTIATE(float);
HEED_INSTANTIATE(double);
#undef HEED_INSTANTIATE

}  // namespace heed::mixers
