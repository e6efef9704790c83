// Linear attention of one sequence and head, chunk by chunk. With the state S that enters a chunk, its tiles q, k, v, the
// decays W within, a from its start and z to its end:
//
//   y = a (q S) + (W o q k^T) v          S <- (a of the last step) S + (z k)^T v
//
// Backward the cotangent R of the state runs the other way, and with P = W o q k^T, E = W o (dy v^T):
//
//   dq = a (dy S^T) + E k     dk = z (v R^T) + E^T q     dv = z (k R) + P^T dy     R <- (a of the last step) R + (a q)^T dy
#if defined(HEED_MIXERS_LINEAR_ATTENTION_WORK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_MIXERS_LINEAR_ATTENTION_WORK_INL_H_
#undef HEED_MIXERS_LINEAR_ATTENTION_WORK_INL_H_
#else
#define HEED_MIXERS_LINEAR_ATTENTION_WORK_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "mixers/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class LinearWork : ChunkWork<T> {
  using Base = ChunkWork<T>;
  using Base::call_, Base::scratch_, Base::chunk_, Base::width_;

 public:
  LinearWork(const mixers::Call<T>& call, const mixers::Scratch<T>& scratch) : Base(call, scratch) {}

  // All of a sequence and head.
  void Whole(int64_t b, int64_t h) {
    const int64_t chunks = call_.sequences.Chunks(b);
    this->Begin(b, h);
    for (int64_t c = 0; c < chunks; ++c) {
      T* slot = call_.backward ? scratch_.slots + c * call_.sizes.slot() : scratch_.own;
      Load(call_.sequences.At(b, h, c));
      this->SumForward(scratch_.v, slot);
      this->Pass(slot, scratch_.carry);
      if (!call_.backward) Output(slot);
    }
    for (int64_t c = chunks - 1; call_.backward && c >= 0; --c) {
      Load(call_.sequences.At(b, h, c));
      this->SumBack(scratch_.d_own);
      this->Pass(scratch_.d_own, scratch_.d_carry);
      Gradients(scratch_.slots + c * call_.sizes.slot(), scratch_.d_own, call_.SlotIndex(b, h, c));
    }
    this->End(b, h);
  }

  // The same in three steps, the first and the last of one chunk.
  void Sum(int64_t b, int64_t h, int64_t c) {
    Load(call_.sequences.At(b, h, c));
    this->SumForward(scratch_.v, Slot(call_.states, b, h, c));
    if (call_.backward) this->SumBack(Slot(call_.d_states, b, h, c));
  }
  void Carry(int64_t b, int64_t h) {
    const int64_t chunks = call_.sequences.Chunks(b);
    this->Begin(b, h);
    for (int64_t c = 0; c < chunks; ++c) this->Pass(Slot(call_.states, b, h, c), scratch_.carry);
    for (int64_t c = chunks - 1; call_.backward && c >= 0; --c) this->Pass(Slot(call_.d_states, b, h, c), scratch_.d_carry);
    this->End(b, h);
  }
  void Finish(int64_t b, int64_t h, int64_t c) {
    Load(call_.sequences.At(b, h, c));
    const T* entering = Slot(call_.states, b, h, c);
    if (!call_.backward) return Output(entering);
    Gradients(entering, Slot(call_.d_states, b, h, c), call_.SlotIndex(b, h, c));
  }

 private:
  T* Slot(T* states, int64_t b, int64_t h, int64_t c) const { return states + call_.SlotIndex(b, h, c) * call_.sizes.slot(); }

  void Load(const mixers::Chunk& chunk) {
    if (!this->LoadChunk(chunk) || !call_.normalise) return;
    for (int64_t r = 0; r < chunk.rows; ++r) scratch_.v[r * width_ + this->values()] = 1;
    if (call_.backward) DivideCotangents();
  }

  // y = n / m: dn = dy / m, dm = -(dy . y) / m, which stands beside dn.
  void DivideCotangents() {
    this->LoadRows(call_.from.out, scratch_.held, width_);
    for (int64_t r = 0; r < chunk_.rows; ++r) {
      T *d_out = scratch_.d_out + r * width_, *out = scratch_.held + r * width_;
      d_out[this->values()] = out[this->values()] = 0;
      const T sum = call_.from.sums(chunk_.row, chunk_.head, chunk_.first + r);
      d_out[this->values()] = static_cast<T>(-Base::Dot(d_out, out, width_));
      for (int64_t c = 0; c <= this->values(); ++c) d_out[c] = sum == 0 ? T{0} : d_out[c] / sum;
    }
  }

  void Output(const T* state) const {
    Base::Output(state, scratch_.v);
    for (int64_t r = 0; r < chunk_.rows && call_.normalise; ++r) {
      T* row = scratch_.out + r * width_;
      const T sum = row[this->values()];
      for (int64_t c = 0; c < this->values(); ++c) row[c] = sum == 0 ? T{0} : row[c] / sum;
      if (call_.to.sums.present()) call_.to.sums(chunk_.row, chunk_.head, chunk_.first + r) = sum;
    }
    this->StoreRows(scratch_.out, width_, call_.to.out);
  }

  void Gradients(const T* state, const T* d_state, int64_t index) const {
    this->OfPairs(scratch_.v);
    if (call_.gradients.d_v.present()) {
      this->OfAdded(d_state, scratch_.out);
      this->StoreRows(scratch_.out, width_, call_.gradients.d_v);
    }
    if (call_.gradients.d_q.present() || call_.wants_decay()) this->OfQueries(state);
    if (call_.gradients.d_k.present() || call_.wants_decay()) this->OfKeys(d_state, scratch_.v);
    this->StoreRows(scratch_.d_k, this->keys_, call_.gradients.d_k);
    this->OfDecay(state, d_state, index);
  }
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
