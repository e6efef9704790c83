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
  using Base::call_, Base::sizes_, Base::scratch_, Base::decay_, Base::chunk_, Base::finite_;
  using typename Base::Tag;

 public:
  LinearWork(const mixers::Call<T>& call, const mixers::Scratch<T>& scratch) : Base(call, scratch) {}

  // All of a sequence and head.
  void Whole(int64_t b, int64_t h) {
    const int64_t chunks = call_.sequences.Chunks(b);
    this->Begin(b, h);
    for (int64_t c = 0; c < chunks; ++c) {
      T* slot = call_.backward ? scratch_.slots + c * sizes_.slot() : scratch_.own;
      Local(call_.sequences.At(b, h, c), slot);
      this->Pass(slot, scratch_.carry);
      if (!call_.backward) Output(call_.sequences.At(b, h, c), slot);
    }
    for (int64_t c = chunks - 1; call_.backward && c >= 0; --c) {
      LocalReverse(call_.sequences.At(b, h, c), scratch_.d_own);
      this->Pass(scratch_.d_own, scratch_.d_carry);
      Gradients(call_.sequences.At(b, h, c), scratch_.slots + c * sizes_.slot(), scratch_.d_own, call_.SlotIndex(b, h, c));
    }
    this->End(b, h);
  }

  // The same in three steps, the first and the last of one chunk.
  void Sum(int64_t b, int64_t h, int64_t c) {
    Local(call_.sequences.At(b, h, c), Slot(call_.states, b, h, c));
    if (call_.backward) LocalReverse(call_.sequences.At(b, h, c), Slot(call_.d_states, b, h, c));
  }
  void Carry(int64_t b, int64_t h) {
    const int64_t chunks = call_.sequences.Chunks(b);
    this->Begin(b, h);
    for (int64_t c = 0; c < chunks; ++c) this->Pass(Slot(call_.states, b, h, c), scratch_.carry);
    for (int64_t c = chunks - 1; call_.backward && c >= 0; --c) this->Pass(Slot(call_.d_states, b, h, c), scratch_.d_carry);
    this->End(b, h);
  }
  void Finish(int64_t b, int64_t h, int64_t c) {
    const mixers::Chunk chunk = call_.sequences.At(b, h, c);
    const T* entering = Slot(call_.states, b, h, c);
    if (call_.backward) {
      Gradients(chunk, entering, Slot(call_.d_states, b, h, c), call_.SlotIndex(b, h, c));
    } else {
      Output(chunk, entering);
    }
  }

 private:
  T* Slot(T* states, int64_t b, int64_t h, int64_t c) const { return states + call_.SlotIndex(b, h, c) * sizes_.slot(); }
  void Load(const mixers::Chunk& chunk) {
    if (!this->LoadChunk(chunk) || !call_.normalise) return;
    for (int64_t r = 0; r < chunk.rows; ++r) {
      scratch_.v[r * sizes_.value_stride() + this->values()] = 1;
      if (call_.backward) DivideCotangent(r, scratch_.d_out + r * sizes_.value_stride());
    }
  }

  // y = n / m: dn = dy / m, dm = -(dy . y) / m.
  void DivideCotangent(int64_t r, T* d_out) const {
    const int64_t t = chunk_.first + r;
    const T sum = call_.from.sums(chunk_.row, chunk_.head, t), factor = sum == 0 ? T{0} : 1 / sum;
    T dot = 0;
    for (int64_t c = 0; c < this->values(); ++c) {
      dot += d_out[c] * call_.from.out(chunk_.row, chunk_.head, t, c);
      d_out[c] *= factor;
    }
    d_out[this->values()] = -dot * factor;
  }

  // What the chunk adds to the state behind it.
  void Local(const mixers::Chunk& chunk, T* slot) {
    Load(chunk);
    const int64_t width = sizes_.value_stride();
    this->ScaleRows(scratch_.to_end, scratch_.v, width, scratch_.scaled);
    this->Multiply({scratch_.k, 1, sizes_.key_stride()}, {scratch_.scaled, width}, {sizes_.dim, chunk.rows, width}, slot);
    slot[sizes_.state()] = decay_.total();
  }
  // And to the cotangent before it.
  void LocalReverse(const mixers::Chunk& chunk, T* slot) {
    Load(chunk);
    const int64_t width = sizes_.value_stride();
    this->ScaleRows(scratch_.from_start, scratch_.d_out, width, scratch_.scaled);
    this->Multiply({scratch_.q, 1, sizes_.key_stride()}, {scratch_.scaled, width}, {sizes_.dim, chunk.rows, width}, slot);
    slot[sizes_.state()] = decay_.total();
  }

  void Output(const mixers::Chunk& chunk, const T* state) {
    Load(chunk);
    const Tag d;
    const int64_t key_stride = sizes_.key_stride(), width = sizes_.value_stride();
    this->PairProducts(scratch_.q, key_stride, sizes_.dim, scratch_.k_t, scratch_.scores);
    this->ForEachPair([&](int64_t at, auto counts) HWY_ATTR {
      const auto weighted = hn::Mul(hn::Load(d, scratch_.scores + at), hn::Load(d, scratch_.weights + at));
      hn::Store(hn::IfThenElseZero(counts, weighted), d, scratch_.scores + at);
    });
    this->Multiply({scratch_.q, key_stride, 1}, {state, width}, {chunk.rows, sizes_.dim, width}, scratch_.out);
    this->ScaleRows(scratch_.from_start, scratch_.out, width, scratch_.out);
    this->AddLower(scratch_.scores, scratch_.v, width, scratch_.out, finite_);
    for (int64_t r = 0; r < chunk.rows && call_.normalise; ++r) {
      T* row = scratch_.out + r * width;
      const T sum = row[this->values()];
      for (int64_t c = 0; c < this->values(); ++c) row[c] = sum == 0 ? T{0} : row[c] / sum;
      if (call_.to.sums.present()) call_.to.sums(chunk.row, chunk.head, chunk.first + r) = sum;
    }
    this->StoreRows(scratch_.out, width, this->values(), call_.to.out);
  }

  void Gradients(const mixers::Chunk& chunk, const T* state, const T* d_state, int64_t index) {
    Load(chunk);
    const Tag d;
    const int64_t width = sizes_.value_stride();
    this->PairProducts(scratch_.q, sizes_.key_stride(), sizes_.dim, scratch_.k_t, scratch_.scores);
    Transpose(scratch_.v, width, chunk.rows, sizes_.columns, T{1}, scratch_.v_t, Base::kChunk);
    this->PairProducts(scratch_.d_out, width, sizes_.columns, scratch_.v_t, scratch_.d_scores);
    this->ForEachPair([&](int64_t at, auto counts) HWY_ATTR {
      const auto weight = hn::Load(d, scratch_.weights + at);
      const auto weighted = hn::IfThenElseZero(counts, hn::Mul(hn::Load(d, scratch_.scores + at), weight));
      const auto cotangent = hn::IfThenElseZero(counts, hn::Load(d, scratch_.d_scores + at));
      hn::Store(weighted, d, scratch_.scores + at);
      hn::Store(hn::Mul(cotangent, weight), d, scratch_.d_scores + at);
      hn::Store(hn::Mul(cotangent, weighted), d, scratch_.pairs + at);
    });
    OfValues(d_state);
    OfQueries(state);
    OfKeys(d_state);
    if (!call_.wants_decay()) return;
    this->DecayGradient(static_cast<double>(decay_.total()) * Base::Dot(state, d_state, sizes_.state()));
    this->StoreDecayGradient(index);
  }

  void OfValues(const T* d_state) const {
    if (!call_.gradients.d_v.present()) return;
    const int64_t width = sizes_.value_stride();
    T* d_v = scratch_.out;
    this->Multiply({scratch_.k, sizes_.key_stride(), 1}, {d_state, width}, {chunk_.rows, sizes_.dim, width}, d_v);
    this->ScaleRows(scratch_.to_end, d_v, width, d_v);
    this->AddUpper(scratch_.scores, scratch_.d_out, width, d_v, finite_);
    this->StoreRows(d_v, width, this->values(), call_.gradients.d_v);
  }

  void OfQueries(const T* state) const {
    if (!call_.gradients.d_q.present() && !call_.wants_decay()) return;
    const int64_t stride = sizes_.key_stride(), width = sizes_.value_stride();
    T* d_q = scratch_.d_q;
    Transpose(state, width, sizes_.dim, sizes_.columns, T{1}, scratch_.state_t, stride);
    this->Multiply({scratch_.d_out, width, 1}, {scratch_.state_t, stride}, {chunk_.rows, sizes_.columns, stride}, d_q);
    this->ScaleRows(scratch_.from_start, d_q, stride, d_q);
    std::fill_n(scratch_.suffix, chunk_.rows, 0.0);
    this->AddRowDots(scratch_.q, d_q, stride, scratch_.suffix);
    this->AddLower(scratch_.d_scores, scratch_.k, stride, d_q, finite_);
    this->StoreRows(d_q, stride, sizes_.dim, call_.gradients.d_q);
  }

  void OfKeys(const T* d_state) const {
    if (!call_.gradients.d_k.present() && !call_.wants_decay()) return;
    const int64_t stride = sizes_.key_stride(), width = sizes_.value_stride();
    T* d_k = scratch_.d_k;
    Transpose(d_state, width, sizes_.dim, sizes_.columns, T{1}, scratch_.state_t, stride);
    this->Multiply({scratch_.v, width, 1}, {scratch_.state_t, stride}, {chunk_.rows, sizes_.columns, stride}, d_k);
    this->ScaleRows(scratch_.to_end, d_k, stride, d_k);
    std::fill_n(scratch_.prefix, chunk_.rows, 0.0);
    this->AddRowDots(scratch_.k, d_k, stride, scratch_.prefix);
    this->AddUpper(scratch_.d_scores, scratch_.q, stride, d_k, finite_);
    this->StoreRows(d_k, stride, sizes_.dim, call_.gradients.d_k);
  }
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
