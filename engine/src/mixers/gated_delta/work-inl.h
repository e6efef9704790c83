// The gated delta rule of one sequence and head, chunk by chunk. What step t adds to the state is k[t] u[t]^T, where u[t]
// depends on all steps before. With the state S that enters a chunk, the decays W within, a from its start and z to its end:
//
//   u + beta (W o k k^T below the diagonal) u = beta (v - a (k S))      a triangular system, solved by substitution
//   y = a (q S) + (W o q k^T) u              S <- (a of the last step) S + (z k)^T u
//
// Backward, with the cotangent R of the state that leaves, P = W o q k^T and E = W o (dy u^T):
//
//   dq = a (dy S^T) + E k     du = z (k R) + P^T dy     dk = z (u R^T) + E^T q + ...
//   w = du solved by the transposed system              dv = beta w       x = -beta a w, the cotangent of k S
//   N = -beta W o (w u^T) below the diagonal            dk += x S^T + N k + N^T k
//   R <- (a of the last step) R + (a q)^T dy + k^T x
#if defined(HEED_MIXERS_GATED_DELTA_WORK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_MIXERS_GATED_DELTA_WORK_INL_H_
#undef HEED_MIXERS_GATED_DELTA_WORK_INL_H_
#else
#define HEED_MIXERS_GATED_DELTA_WORK_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"
#include "mixers/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class DeltaWork : ChunkWork<T> {
  using Base = ChunkWork<T>;
  using Base::call_, Base::scratch_, Base::decay_, Base::chunk_, Base::dim_, Base::columns_, Base::keys_, Base::width_;
  using Base::kChunk, Base::kBlock;
  using typename Base::Tag;

 public:
  DeltaWork(const mixers::Call<T>& call, const mixers::Scratch<T>& scratch) : Base(call, scratch) {}

  // All of a sequence and head.
  void Whole(int64_t b, int64_t h) {
    const int64_t chunks = call_.sequences.Chunks(b);
    this->Begin(b, h);
    for (int64_t c = 0; c < chunks; ++c) {
      T* slot = call_.backward ? scratch_.slots + c * call_.sizes.slot() : scratch_.own;
      Load(call_.sequences.At(b, h, c));
      Solve(scratch_.carry);
      if (!call_.backward) {
        this->Output(scratch_.carry, scratch_.u);
        this->StoreRows(scratch_.out, width_, call_.to.out);
      }
      this->SumForward(scratch_.u, slot);
      this->Pass(slot, scratch_.carry);
    }
    for (int64_t c = chunks - 1; call_.backward && c >= 0; --c) {
      Load(call_.sequences.At(b, h, c));
      Gradients(scratch_.slots + c * call_.sizes.slot(), scratch_.d_carry, call_.SlotIndex(b, h, c));
      this->Pass(scratch_.d_own, scratch_.d_carry);
    }
    this->End(b, h);
  }

 private:
  void Load(const mixers::Chunk& chunk) {
    if (!this->LoadChunk(chunk)) return;
    for (int64_t r = 0; r < chunk.rows; ++r) scratch_.beta[r] = call_.in.beta(chunk.row, chunk.head, chunk.first + r);
  }

  // held = k S, products = W o k k^T, system = -beta products, and u.
  void Solve(const T* state) {
    const Tag d;
    this->PairProducts(scratch_.k, keys_, dim_, scratch_.k_t, scratch_.products);
    this->ForEachPair(0, [&](int64_t at, auto, int64_t t) HWY_ATTR {
      const auto product = hn::Mul(hn::Load(d, scratch_.products + at), hn::Load(d, scratch_.weights + at));
      hn::Store(product, d, scratch_.products + at);
      hn::Store(hn::Mul(hn::Set(d, -scratch_.beta[t]), product), d, scratch_.system + at);
    });
    this->Multiply({scratch_.k, keys_, 1}, {state, width_}, {chunk_.rows, dim_, width_}, scratch_.held);
    for (int64_t t = 0; t < chunk_.rows; ++t) {
      const auto beta = hn::Set(d, scratch_.beta[t]), decay = hn::Set(d, scratch_.from_start[t]);
      for (int64_t i = t * width_; i < (t + 1) * width_; i += static_cast<int64_t>(hn::Lanes(d))) {
        const auto rest = hn::NegMulAdd(decay, hn::Load(d, scratch_.held + i), hn::Load(d, scratch_.v + i));
        hn::Store(hn::Mul(beta, rest), d, scratch_.u + i);
      }
    }
    Substitute(scratch_.u);
    this->NoteFinite(scratch_.u, width_);
  }

  // x[t] += sum over s < t of system[t, s] x[s], in the order of t: blocks of steps by all before them, then each by its block.
  void Substitute(T* x) const {
    const T* system = scratch_.system;
    for (int64_t begin = 0; begin < chunk_.rows; begin += kBlock) {
      const int64_t end = std::min(begin + kBlock, chunk_.rows);
      this->AddProduct({system + begin * kChunk, kChunk, 1}, {x, width_}, {end - begin, begin, width_}, x + begin * width_);
      for (int64_t t = begin + 1; t < end; ++t)
        this->AddProduct({system + t * kChunk + begin, kChunk, 1}, {x + begin * width_, width_}, {1, t - begin, width_},
                         x + t * width_);
    }
  }
  // x[s] += sum over t > s of system[t, s] x[t], from the last on.
  void SubstituteBack(T* x) const {
    const T* system = scratch_.system;
    for (int64_t begin = (chunk_.rows - 1) / kBlock * kBlock; begin >= 0; begin -= kBlock) {
      const int64_t end = std::min(begin + kBlock, chunk_.rows);
      this->AddProduct({system + end * kChunk + begin, 1, kChunk}, {x + end * width_, width_},
                       {end - begin, chunk_.rows - end, width_}, x + begin * width_);
      for (int64_t s = end - 2; s >= begin; --s)
        this->AddProduct({system + (s + 1) * kChunk + s, 1, kChunk}, {x + (s + 1) * width_, width_}, {1, end - 1 - s, width_},
                         x + s * width_);
    }
  }

  // d_state: the cotangent R of the state that leaves. d_own becomes what the chunk adds to that of the state that enters.
  void Gradients(const T* state, const T* d_state, int64_t index) {
    Solve(state);
    this->OfPairs(scratch_.u);
    this->OfQueries(state);
    this->OfKeys(d_state, scratch_.u);
    this->OfAdded(d_state, scratch_.d_u);
    SubstituteBack(scratch_.d_u);
    this->NoteFinite(scratch_.d_u, width_);
    OfValues();
    OfSystem();
    Transpose(state, width_, dim_, columns_, T{1}, scratch_.state_t, keys_);
    this->AddProduct({scratch_.u, width_, 1}, {scratch_.state_t, keys_}, {chunk_.rows, columns_, keys_}, scratch_.d_k);
    this->StoreRows(scratch_.d_k, keys_, call_.gradients.d_k);
    this->SumBack(scratch_.d_own);
    this->AddProduct({scratch_.k, 1, keys_}, {scratch_.u, width_}, {dim_, chunk_.rows, width_}, scratch_.d_own);
    this->OfDecay(state, d_state, index);
  }

  // With w, which d_u is now: d_v = beta w, and u becomes x. row = the part of d_beta that is not of pairs.
  void OfValues() const {
    const Tag d;
    T* d_v = scratch_.out;
    for (int64_t t = 0; t < chunk_.rows; ++t) {
      const auto beta = hn::Set(d, scratch_.beta[t]), decay = hn::Set(d, scratch_.from_start[t]);
      LaneSums<Tag> sums;
      sums.ForEach(t * width_, (t + 1) * width_, [&](int64_t i, auto& sum) HWY_ATTR {
        const auto w = hn::Load(d, scratch_.d_u + i), of_value = hn::Mul(beta, w);
        hn::Store(of_value, d, d_v + i);
        hn::Store(hn::Neg(hn::Mul(decay, of_value)), d, scratch_.u + i);
        sum = hn::MulAdd(w, hn::NegMulAdd(decay, hn::Load(d, scratch_.held + i), hn::Load(d, scratch_.v + i)), sum);
      });
      scratch_.row[t] = sums.Total();
      scratch_.suffix[t] += Base::Dot(scratch_.u + t * width_, scratch_.held + t * width_, width_);
    }
    this->StoreRows(d_v, width_, call_.gradients.d_v);
  }

  // system = N, what keys get from it, and d_beta.
  void OfSystem() const {
    const Tag d;
    this->PairProducts(scratch_.d_u, width_, columns_, scratch_.v_t, scratch_.system);
    for (int64_t t = 0; t < chunk_.rows; ++t) {
      const auto beta = hn::Set(d, -scratch_.beta[t]);
      LaneSums<Tag> sums;
      sums.ForEach(0, (t / kBlock + 1) * kBlock, [&](int64_t s, auto& sum) HWY_ATTR {
        const int64_t at = t * kChunk + s;
        const auto counts = hn::FirstN(d, static_cast<std::size_t>(std::max<int64_t>(0, t - s)));
        const auto cotangent = hn::IfThenElseZero(counts, hn::Load(d, scratch_.system + at));
        const auto of_beta = hn::IfThenElseZero(counts, hn::Mul(cotangent, hn::Load(d, scratch_.products + at)));
        sum = hn::Add(sum, of_beta);
        hn::Store(hn::MulAdd(beta, of_beta, hn::Load(d, scratch_.pairs + at)), d, scratch_.pairs + at);
        hn::Store(hn::Mul(beta, hn::Mul(cotangent, hn::Load(d, scratch_.weights + at))), d, scratch_.system + at);
      });
      scratch_.row[t] -= sums.Total();
    }
    for (int64_t t = 0; t < chunk_.rows && call_.gradients.d_beta.present(); ++t)
      call_.gradients.d_beta(chunk_.row, chunk_.head, chunk_.first + t) = scratch_.row[t];
    this->AddLower(scratch_.system, scratch_.k, keys_, scratch_.d_k);
    this->AddUpper(scratch_.system, scratch_.k, keys_, scratch_.d_k);
  }
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
