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

#include "hwy/highway.h"
#include "mixers/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class DeltaWork : ChunkWork<T> {
  using Base = ChunkWork<T>;
  using Base::call_, Base::sizes_, Base::scratch_, Base::decay_, Base::chunk_, Base::finite_, Base::kChunk, Base::kBlock;
  using typename Base::Tag;

 public:
  DeltaWork(const mixers::Call<T>& call, const mixers::Scratch<T>& scratch)
      : Base(call, scratch), width_(sizes_.value_stride()), key_stride_(sizes_.key_stride()) {}

  // All of a sequence and head.
  void Whole(int64_t b, int64_t h) {
    const int64_t chunks = call_.sequences.Chunks(b);
    this->Begin(b, h);
    for (int64_t c = 0; c < chunks; ++c) {
      T* slot = call_.backward ? scratch_.slots + c * sizes_.slot() : scratch_.own;
      Load(call_.sequences.At(b, h, c));
      Solve(scratch_.carry);
      if (!call_.backward) Output();
      this->ScaleRows(scratch_.to_end, scratch_.u, width_, scratch_.scaled);
      this->Multiply({scratch_.k, 1, key_stride_}, {scratch_.scaled, width_}, {sizes_.dim, chunk_.rows, width_}, slot);
      slot[sizes_.state()] = decay_.total();
      this->Pass(slot, scratch_.carry);
    }
    for (int64_t c = chunks - 1; call_.backward && c >= 0; --c) {
      Load(call_.sequences.At(b, h, c));
      Gradients(scratch_.slots + c * sizes_.slot(), scratch_.d_carry, call_.SlotIndex(b, h, c));
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
    this->PairProducts(scratch_.k, key_stride_, sizes_.dim, scratch_.k_t, scratch_.products);
    this->ForEachPair([&](int64_t at, auto) HWY_ATTR {
      const auto product = hn::Mul(hn::Load(d, scratch_.products + at), hn::Load(d, scratch_.weights + at));
      hn::Store(product, d, scratch_.products + at);
      hn::Store(hn::Mul(hn::Set(d, -scratch_.beta[at / kChunk]), product), d, scratch_.system + at);
    });
    this->Multiply({scratch_.k, key_stride_, 1}, {state, width_}, {chunk_.rows, sizes_.dim, width_}, scratch_.held);
    for (int64_t t = 0; t < chunk_.rows; ++t) {
      const auto beta = hn::Set(d, scratch_.beta[t]), decay = hn::Set(d, scratch_.from_start[t]);
      for (int64_t i = t * width_; i < (t + 1) * width_; i += static_cast<int64_t>(hn::Lanes(d))) {
        const auto rest = hn::NegMulAdd(decay, hn::Load(d, scratch_.held + i), hn::Load(d, scratch_.v + i));
        hn::Store(hn::Mul(beta, rest), d, scratch_.u + i);
      }
    }
    Substitute(scratch_.u);
    finite_ = finite_ && this->IsFinite(scratch_.u, width_);
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

  void Output() const {
    const Tag d;
    this->PairProducts(scratch_.q, key_stride_, sizes_.dim, scratch_.k_t, scratch_.scores);
    this->ForEachPair([&](int64_t at, auto counts) HWY_ATTR {
      const auto weighted = hn::Mul(hn::Load(d, scratch_.scores + at), hn::Load(d, scratch_.weights + at));
      hn::Store(hn::IfThenElseZero(counts, weighted), d, scratch_.scores + at);
    });
    this->Multiply({scratch_.q, key_stride_, 1}, {scratch_.carry, width_}, {chunk_.rows, sizes_.dim, width_}, scratch_.out);
    this->ScaleRows(scratch_.from_start, scratch_.out, width_, scratch_.out);
    this->AddLower(scratch_.scores, scratch_.u, width_, scratch_.out, finite_);
    this->StoreRows(scratch_.out, width_, this->values(), call_.to.out);
  }

  // d_state: the cotangent of the state that leaves. d_own becomes what the chunk adds to that of the state that enters.
  void Gradients(const T* state, const T* d_state, int64_t index) {
    Solve(state);
    OfPairs();
    OfQueries(state);
    OfAdded(d_state);
    SubstituteBack(scratch_.d_u);
    finite_ = finite_ && this->IsFinite(scratch_.d_u, width_);
    OfValues();
    OfKeys(state);
    this->ScaleRows(scratch_.from_start, scratch_.d_out, width_, scratch_.u);
    this->Multiply({scratch_.q, 1, key_stride_}, {scratch_.u, width_}, {sizes_.dim, chunk_.rows, width_}, scratch_.d_own);
    this->AddProduct({scratch_.k, 1, key_stride_}, {scratch_.scaled, width_}, {sizes_.dim, chunk_.rows, width_},
                     scratch_.d_own);
    scratch_.d_own[sizes_.state()] = decay_.total();
    if (!call_.wants_decay()) return;
    this->DecayGradient(static_cast<double>(decay_.total()) * Base::Dot(state, d_state, sizes_.state()));
    this->StoreDecayGradient(index);
  }

  // scores = P, d_scores = E and their pairs, as those of linear attention with u for v.
  void OfPairs() const {
    const Tag d;
    this->PairProducts(scratch_.q, key_stride_, sizes_.dim, scratch_.k_t, scratch_.scores);
    Transpose(scratch_.u, width_, chunk_.rows, sizes_.columns, T{1}, scratch_.v_t, kChunk);
    this->PairProducts(scratch_.d_out, width_, sizes_.columns, scratch_.v_t, scratch_.d_scores);
    this->ForEachPair([&](int64_t at, auto counts) HWY_ATTR {
      const auto weight = hn::Load(d, scratch_.weights + at);
      const auto weighted = hn::IfThenElseZero(counts, hn::Mul(hn::Load(d, scratch_.scores + at), weight));
      const auto cotangent = hn::IfThenElseZero(counts, hn::Load(d, scratch_.d_scores + at));
      hn::Store(weighted, d, scratch_.scores + at);
      hn::Store(hn::Mul(cotangent, weight), d, scratch_.d_scores + at);
      hn::Store(hn::Mul(cotangent, weighted), d, scratch_.pairs + at);
    });
  }

  void OfQueries(const T* state) const {
    T* d_q = scratch_.d_q;
    Transpose(state, width_, sizes_.dim, sizes_.columns, T{1}, scratch_.state_t, key_stride_);
    this->Multiply({scratch_.d_out, width_, 1}, {scratch_.state_t, key_stride_}, {chunk_.rows, sizes_.columns, key_stride_},
                   d_q);
    this->ScaleRows(scratch_.from_start, d_q, key_stride_, d_q);
    std::fill_n(scratch_.suffix, chunk_.rows, 0.0);
    this->AddRowDots(scratch_.q, d_q, key_stride_, scratch_.suffix);
    this->AddLower(scratch_.d_scores, scratch_.k, key_stride_, d_q, finite_);
    this->StoreRows(d_q, key_stride_, sizes_.dim, call_.gradients.d_q);
  }

  // d_u, and what keys get from outputs and from the state that leaves.
  void OfAdded(const T* d_state) const {
    this->Multiply({scratch_.k, key_stride_, 1}, {d_state, width_}, {chunk_.rows, sizes_.dim, width_}, scratch_.d_u);
    this->ScaleRows(scratch_.to_end, scratch_.d_u, width_, scratch_.d_u);
    this->AddUpper(scratch_.scores, scratch_.d_out, width_, scratch_.d_u, finite_);
    T* d_k = scratch_.d_k;
    Transpose(d_state, width_, sizes_.dim, sizes_.columns, T{1}, scratch_.state_t, key_stride_);
    this->Multiply({scratch_.u, width_, 1}, {scratch_.state_t, key_stride_}, {chunk_.rows, sizes_.columns, key_stride_}, d_k);
    this->ScaleRows(scratch_.to_end, d_k, key_stride_, d_k);
    std::fill_n(scratch_.prefix, chunk_.rows, 0.0);
    this->AddRowDots(scratch_.k, d_k, key_stride_, scratch_.prefix);
    this->AddUpper(scratch_.d_scores, scratch_.q, key_stride_, d_k, finite_);
  }

  // d_u is w now. scaled = x; what is stored for values, and the part of beta that is not of pairs.
  void OfValues() const {
    const Tag d;
    T* d_v = scratch_.out;
    for (int64_t t = 0; t < chunk_.rows; ++t) {
      const auto beta = hn::Set(d, scratch_.beta[t]), decay = hn::Set(d, scratch_.from_start[t]);
      auto sum = hn::Zero(d);
      for (int64_t i = t * width_; i < (t + 1) * width_; i += static_cast<int64_t>(hn::Lanes(d))) {
        const auto w = hn::Load(d, scratch_.d_u + i), of_value = hn::Mul(beta, w);
        hn::Store(of_value, d, d_v + i);
        hn::Store(hn::Neg(hn::Mul(decay, of_value)), d, scratch_.scaled + i);
        sum = hn::MulAdd(w, hn::NegMulAdd(decay, hn::Load(d, scratch_.held + i), hn::Load(d, scratch_.v + i)), sum);
      }
      scratch_.row[t] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
    this->StoreRows(d_v, width_, this->values(), call_.gradients.d_v);
    this->AddRowDots(scratch_.scaled, scratch_.held, width_, scratch_.suffix);
  }

  // system = N; what keys get from the system, and beta from its pairs.
  void OfKeys(const T* state) const {
    const Tag d;
    this->PairProducts(scratch_.d_u, width_, sizes_.columns, scratch_.v_t, scratch_.system);
    for (int64_t t = 0; t < chunk_.rows; ++t) {
      const auto beta = hn::Set(d, -scratch_.beta[t]);
      auto sum = hn::Zero(d);
      for (int64_t s = 0; s < (t / kBlock + 1) * kBlock; s += static_cast<int64_t>(hn::Lanes(d))) {
        const int64_t at = t * kChunk + s;
        const auto before = hn::FirstN(d, static_cast<std::size_t>(std::max<int64_t>(0, t - s)));
        const auto cotangent = hn::IfThenElseZero(before, hn::Load(d, scratch_.system + at));
        const auto of_beta = hn::IfThenElseZero(before, hn::Mul(cotangent, hn::Load(d, scratch_.products + at)));
        sum = hn::Add(sum, of_beta);
        hn::Store(hn::MulAdd(beta, of_beta, hn::Load(d, scratch_.pairs + at)), d, scratch_.pairs + at);
        hn::Store(hn::Mul(beta, hn::Mul(cotangent, hn::Load(d, scratch_.weights + at))), d, scratch_.system + at);
      }
      const T of_beta = scratch_.row[t] - hn::GetLane(hn::SumOfLanes(d, sum));
      if (call_.gradients.d_beta.present()) call_.gradients.d_beta(chunk_.row, chunk_.head, chunk_.first + t) = of_beta;
    }
    T* d_k = scratch_.d_k;
    Transpose(state, width_, sizes_.dim, sizes_.columns, T{1}, scratch_.state_t, key_stride_);
    this->AddProduct({scratch_.scaled, width_, 1}, {scratch_.state_t, key_stride_}, {chunk_.rows, sizes_.columns, key_stride_},
                     d_k);
    this->AddLower(scratch_.system, scratch_.k, key_stride_, d_k, finite_);
    this->AddUpper(scratch_.system, scratch_.k, key_stride_, d_k, finite_);
    this->StoreRows(d_k, key_stride_, sizes_.dim, call_.gradients.d_k);
  }

  const int64_t width_, key_stride_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
