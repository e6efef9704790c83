// What mixers do with the tiles of a chunk: decays between its steps, products above and below the diagonal, sums by rows.
#if defined(HEED_MIXERS_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_MIXERS_CHUNK_INL_H_
#undef HEED_MIXERS_CHUNK_INL_H_
#else
#define HEED_MIXERS_CHUNK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "hwy/highway.h"
#include "mixers/call.h"
#include "mixers/scratch.h"
#include "simd/tile-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Decays between the steps of a chunk, as running products in double: weights[t, s] from step s to t (0 above the diagonal, up
// to the end of a block), from_start[t] from before the chunk to t, to_end[s] from s to the last step.
template <class T>
class ChunkDecay {
 public:
  ChunkDecay(const mixers::Call<T>& call, const mixers::Scratch<T>& scratch)
      : decay_(call.in.decay), one_(!decay_.present() || call.one_decay()), scratch_(scratch) {}

  T total() const { return total_; }

  void Fill(const mixers::Chunk& chunk) {
    // A decay for all steps makes the same numbers in each chunk of its length.
    const mixers::Chunk like = one_ ? mixers::Chunk{0, chunk.head, 0, chunk.rows} : chunk;
    if (filled_ == like) return;
    filled_ = like;
    const double of_all = !one_ ? 0 : decay_.present() ? std::exp(static_cast<double>(decay_(0, chunk.head, 0))) : 1;
    double start = 1;
    for (int64_t t = 0; t < chunk.rows; ++t) {
      const double step = one_ ? of_all : std::exp(static_cast<double>(decay_(chunk.row, chunk.head, chunk.first + t)));
      start = Kept(start * step);
      scratch_.from_start[t] = static_cast<T>(start);
      AddRow(t, step);
    }
    total_ = static_cast<T>(start);
    for (int64_t s = 0; s < chunk.rows; ++s) scratch_.to_end[s] = static_cast<T>(running_[s]);
  }

 private:
  // Weights below are 0: they are far below rounding, and products with denormal numbers would cost a hundred times the time.
  static constexpr double kSmallest = double{std::numeric_limits<T>::min()} / double{std::numeric_limits<T>::epsilon()};
  static double Kept(double weight) { return weight < kSmallest ? 0 : weight; }

  void AddRow(int64_t t, double step) {
    T* row = scratch_.weights + t * mixers::kChunk;
    for (int64_t s = 0; s < t; ++s) {
      running_[s] = Kept(running_[s] * step);
      row[s] = static_cast<T>(running_[s]);
    }
    running_[t] = 1;
    row[t] = 1;
    std::fill(row + t + 1, row + (t / mixers::kBlock + 1) * mixers::kBlock, T{0});
  }

  const View<const T, 3> decay_;
  const bool one_;
  const mixers::Scratch<T>& scratch_;
  std::optional<mixers::Chunk> filled_;
  T total_ = 1;
  double running_[mixers::kChunk];
};

template <class T>
class ChunkWork {
 protected:
  using Tag = hn::CappedTag<T, mixers::kQuantum>;
  using Sizes = mixers::Sizes;
  static constexpr int64_t kChunk = mixers::kChunk, kBlock = mixers::kBlock;

  ChunkWork(const mixers::Call<T>& call, const mixers::Scratch<T>& scratch)
      : call_(call), sizes_(call.sizes), scratch_(scratch), decay_(call, scratch) {}

  int64_t values() const { return call_.in.v.extent[3]; }

  // The tiles and decays of a chunk; false where they are those at hand.
  bool LoadChunk(const mixers::Chunk& chunk) {
    if (chunk_ == chunk) return false;
    chunk_ = chunk;
    finite_ = true;
    LoadRows(call_.in.q, sizes_.dim, scratch_.q, sizes_.key_stride());
    LoadRows(call_.in.k, sizes_.dim, scratch_.k, sizes_.key_stride());
    LoadRows(call_.in.v, values(), scratch_.v, sizes_.value_stride());
    if (call_.backward) LoadRows(call_.from.d_out, values(), scratch_.d_out, sizes_.value_stride());
    Transpose(scratch_.k, sizes_.key_stride(), chunk.rows, sizes_.dim, T{1}, scratch_.k_t, kChunk);
    decay_.Fill(chunk);
    return true;
  }

  // Rows of an array as a tile. Notes whether all of their numbers are finite.
  void LoadRows(const View<const T, 4>& from, int64_t width, T* to, int64_t stride) {
    for (int64_t r = 0; r < chunk_.rows; ++r, to += stride) {
      const T* row = &from(chunk_.row, chunk_.head, chunk_.first + r, 0);
      if (from.stride[3] == 1) {
        std::copy_n(row, width, to);
      } else {
        for (int64_t c = 0; c < width; ++c) to[c] = row[c * from.stride[3]];
      }
    }
    finite_ = finite_ && IsFinite(to - chunk_.rows * stride, stride);
  }

  bool IsFinite(const T* tile, int64_t width) const {
    const Tag d;
    auto check = hn::Zero(d);
    for (int64_t i = 0; i < chunk_.rows * width; i += static_cast<int64_t>(hn::Lanes(d)))
      check = hn::MulAdd(hn::Load(d, tile + i), hn::Zero(d), check);
    return hn::AllTrue(d, hn::Eq(check, hn::Zero(d)));
  }

  void StoreRows(const T* from, int64_t stride, int64_t width, const View<T, 4>& to) const {
    if (!to.present()) return;
    for (int64_t r = 0; r < chunk_.rows; ++r, from += stride) {
      T* row = &to(chunk_.row, chunk_.head, chunk_.first + r, 0);
      if (to.stride[3] == 1) {
        std::copy_n(from, width, row);
      } else {
        for (int64_t c = 0; c < width; ++c) row[c * to.stride[3]] = from[c];
      }
    }
  }

  // A state as rows of whole vectors, and back.
  void LoadState(const View<const T, 4>& from, int64_t b, int64_t h, T* to) const {
    std::fill_n(to, sizes_.state(), T{0});
    for (int64_t i = 0; i < sizes_.dim && from.present(); ++i)
      for (int64_t j = 0; j < sizes_.columns; ++j) to[i * sizes_.value_stride() + j] = from(b, h, i, j);
  }
  void StoreState(const T* from, const View<T, 4>& to, int64_t b, int64_t h) const {
    for (int64_t i = 0; i < sizes_.dim && to.present(); ++i)
      for (int64_t j = 0; j < sizes_.columns; ++j) to(b, h, i, j) = from[i * sizes_.value_stride() + j];
  }

  // The states at the begin of a walk, and what is left at its end.
  void Begin(int64_t b, int64_t h) const {
    LoadState(call_.in.initial_state, b, h, scratch_.carry);
    if (call_.backward) LoadState(call_.from.d_final_state, b, h, scratch_.d_carry);
  }
  void End(int64_t b, int64_t h) const {
    StoreState(scratch_.carry, call_.to.final_state, b, h);
    StoreState(scratch_.d_carry, call_.gradients.d_initial_state, b, h);
    ClearPadding(b, h);
  }

  // slot: what a chunk adds to the state, and its decay. Afterwards it holds the state that enters the chunk, and carry the one
  // that leaves it.
  void Pass(T* slot, T* carry) const {
    const Tag d;
    const auto decay = hn::Set(d, slot[sizes_.state()]);
    for (int64_t i = 0; i < sizes_.state(); i += static_cast<int64_t>(hn::Lanes(d))) {
      const auto entering = hn::Load(d, carry + i);
      hn::Store(hn::MulAdd(decay, entering, hn::Load(d, slot + i)), d, carry + i);
      hn::Store(entering, d, slot + i);
    }
  }

  static void Multiply(Scalars<T> a, VectorRows<const T> b, ProductSize size, T* to) {
    Product<Tag, T>(Tag(), a, b, size, Fresh(to, size.width));
  }
  static void AddProduct(Scalars<T> a, VectorRows<const T> b, ProductSize size, T* to) {
    Product<Tag, T>(Tag(), a, b, size, AddedTo(to, size.width));
  }

  // to[r, :] = factors[r] * from[r, :]
  void ScaleRows(const T* factors, const T* from, int64_t width, T* to) const {
    const Tag d;
    for (int64_t r = 0; r < chunk_.rows; ++r) {
      const auto factor = hn::Set(d, factors[r]);
      for (int64_t c = r * width; c < (r + 1) * width; c += static_cast<int64_t>(hn::Lanes(d)))
        hn::Store(hn::Mul(factor, hn::Load(d, from + c)), d, to + c);
    }
  }

  // to[t, s] = a[t] . b[s] for s <= t and on to the end of a block.
  void PairProducts(const T* a, int64_t stride, int64_t steps, const T* b_t, T* to) const {
    for (int64_t t = 0; t < chunk_.rows; t += kBlock)
      Product<Tag, T>(Tag(), {a + t * stride, stride, 1}, {b_t, kChunk}, {std::min(kBlock, chunk_.rows - t), steps, t + kBlock},
                      Fresh(to + t * kChunk, kChunk));
  }

  // Calls change(t, s, lanes that count) for the vectors of a square; lanes above the diagonal do not count.
  template <class Change>
  HWY_INLINE void ForEachPair(const Change& change) const {
    const Tag d;
    for (int64_t t = 0; t < chunk_.rows; ++t)
      for (int64_t s = 0; s < (t / kBlock + 1) * kBlock; s += static_cast<int64_t>(hn::Lanes(d)))
        change(t * kChunk + s, hn::FirstN(d, static_cast<std::size_t>(std::max<int64_t>(0, t + 1 - s))));
  }

  // to[t, :] += sum over s <= t of a[t, s] b[s, :]. A row is not multiplied with what follows it where that is not finite, by 0
  // neither; else blocks of rows are.
  void AddLower(const T* a, const T* b, int64_t width, T* to, bool finite) const {
    const int64_t block = finite ? kBlock : 1;
    for (int64_t t = 0; t < chunk_.rows; t += block) {
      const int64_t rows = std::min(block, chunk_.rows - t);
      AddProduct({a + t * kChunk, kChunk, 1}, {b, width}, {rows, t + rows, width}, to + t * width);
    }
  }
  // to[s, :] += sum over t >= s of a[t, s] b[t, :]
  void AddUpper(const T* a, const T* b, int64_t width, T* to, bool finite) const {
    const int64_t block = finite ? kBlock : 1;
    for (int64_t s = 0; s < chunk_.rows; s += block)
      AddProduct({a + s * kChunk + s, 1, kChunk}, {b + s * width, width},
                 {std::min(block, chunk_.rows - s), chunk_.rows - s, width}, to + s * width);
  }

  // sums[r] += a[r, :] . b[r, :]
  void AddRowDots(const T* a, const T* b, int64_t width, double* sums) const {
    for (int64_t r = 0; r < chunk_.rows; ++r) sums[r] += Dot(a + r * width, b + r * width, width);
  }
  static double Dot(const T* a, const T* b, int64_t count) {
    const Tag d;
    auto sum = hn::Zero(d);
    for (int64_t c = 0; c < count; c += static_cast<int64_t>(hn::Lanes(d)))
      sum = hn::MulAdd(hn::Load(d, a + c), hn::Load(d, b + c), sum);
    return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }

  // The gradient of the decay of step r, of which every weight from s < r to t >= r has it as a factor:
  //   sum of pairs[t, s], of suffix[t], which came from before the chunk, of prefix[s], which goes beyond it, and through.
  // Sums of what belongs to r alone, and no differences of long sums: a step that forgets all has exactly 0.
  void DecayGradient(double through) const {
    const Tag d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    std::fill_n(scratch_.row, kChunk, T{0});  // sums of the columns of pairs, from row t on
    double later = through;
    for (int64_t t = chunk_.rows - 1; t >= 0; --t) {
      auto sum = hn::Zero(d);
      for (int64_t s = 0; s < (t / kBlock + 1) * kBlock; s += lanes) {
        const auto column = hn::Add(hn::Load(d, scratch_.row + s), hn::Load(d, scratch_.pairs + t * kChunk + s));
        hn::Store(column, d, scratch_.row + s);
        const auto before = hn::FirstN(d, static_cast<std::size_t>(std::max<int64_t>(0, t - s)));
        sum = hn::Add(sum, hn::IfThenElseZero(before, column));
      }
      later += scratch_.suffix[t];
      scratch_.gradient[t] = later + static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
    }
    double earlier = 0;
    for (int64_t t = 0; t < chunk_.rows; ++t) {
      scratch_.gradient[t] += earlier;
      earlier += scratch_.prefix[t];
    }
  }

  // index: of the chunk's slot.
  void StoreDecayGradient(int64_t index) const {
    const View<T, 3>& to = call_.gradients.d_decay;
    double sum = 0;
    for (int64_t t = 0; t < chunk_.rows; ++t) {
      if (call_.decay_parts) {
        sum += scratch_.gradient[t];
      } else {
        to(chunk_.row, chunk_.head, chunk_.first + t) = static_cast<T>(scratch_.gradient[t]);
      }
    }
    if (call_.decay_parts) call_.decay_parts[index] = sum;
  }

  // Steps that do not count have outputs and gradients of 0.
  void ClearPadding(int64_t b, int64_t h) const {
    if (call_.sequences.packed()) return;
    const auto clear = [&](const auto& view) {
      for (int64_t t = call_.sequences.Length(b); t < call_.steps && view.present(); ++t) {
        if constexpr (std::is_same_v<decltype(view), const View<T, 3>&>) {
          view(b, h, t) = 0;
        } else {
          for (int64_t c = 0; c < view.extent[3]; ++c) view(b, h, t, c) = 0;
        }
      }
    };
    clear(call_.to.out);
    clear(call_.to.sums);
    clear(call_.gradients.d_q);
    clear(call_.gradients.d_k);
    clear(call_.gradients.d_v);
    clear(call_.gradients.d_beta);
    if (!call_.decay_parts) clear(call_.gradients.d_decay);
  }

  const mixers::Call<T>& call_;
  const Sizes sizes_;
  const mixers::Scratch<T>& scratch_;
  ChunkDecay<T> decay_;
  mixers::Chunk chunk_{-1, 0, 0, 0};
  bool finite_ = true;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
