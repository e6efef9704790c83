// The tiles that one worker computes with.
#ifndef HEED_MIXERS_SCRATCH_H_
#define HEED_MIXERS_SCRATCH_H_

#include <algorithm>
#include <cstring>

#include "core/arena.h"
#include "mixers/call.h"

namespace heed::mixers {

// Rows are kChunk steps; where the rows of a tile are columns of keys or values, its name ends with _t.
template <class T>
struct Scratch {
  // clear: with memory behind the arena.
  Scratch(core::Arena& arena, const Call<T>& call, bool clear) {
    const Sizes& s = call.sizes;
    const bool pads = s.key_stride() != s.dim || s.value_stride() != s.columns;
    const std::size_t begin = arena.used();
    for (T** tile : {&q, &k, &d_q, &d_k}) *tile = arena.Take<T>(kChunk, s.key_stride());
    for (T** tile : {&v, &out, &d_out, &scaled, &held, &u, &d_u}) *tile = arena.Take<T>(kChunk, s.value_stride());
    k_t = arena.Take<T>(s.dim, kChunk);
    v_t = arena.Take<T>(s.columns, kChunk);
    for (T** square : {&weights, &scores, &d_scores, &pairs, &products, &system}) *square = arena.Take<T>(kChunk, kChunk);
    for (T** state : {&carry, &d_carry}) *state = arena.Take<T>(s.state());
    for (T** slot : {&own, &d_own}) *slot = arena.Take<T>(s.slot());
    state_t = arena.Take<T>(s.columns, s.key_stride());
    for (T** row : {&from_start, &to_end, &row, &beta}) *row = arena.Take<T>(kChunk);
    for (double** numbers : {&suffix, &prefix, &gradient}) *numbers = arena.Take<double>(kChunk);
    // What pads rows is 0, and stays so.
    if (clear && pads) std::memset(reinterpret_cast<std::byte*>(q), 0, arena.used() - begin);
    if (call.backward && !call.apart) slots = arena.Take<T>(call.sequences.longest(), s.slot());
  }

  T *q, *k, *d_q, *d_k;
  T *v, *out, *d_out, *scaled, *held, *u, *d_u;
  T *k_t, *v_t;
  T *weights, *scores, *d_scores, *pairs, *products, *system;
  T *carry, *d_carry, *own, *d_own, *state_t;
  T *from_start, *to_end, *row, *beta;
  double *suffix, *prefix, *gradient;
  T* slots = nullptr;
};

}  // namespace heed::mixers

#endif  // HEED_MIXERS_SCRATCH_H_
