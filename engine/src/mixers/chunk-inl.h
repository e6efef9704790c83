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

#include "heed/portable_math.h"
#include "hwy/highway.h"
#include "mixers/call.h"
#include "simd/lane_sums-inl.h"
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
    const double of_all = !one_ ? 0 : decay_.present() ? portable::Exp(static_cast<double>(decay_(0, chunk.head, 0))) : 1;
    double start = 1;
    for (int64_t t = 0; t < chunk.rows; ++t) {
      const double step = one_ ? of_all : portable::Exp(static_cast<double>(decay_(chunk.row, chunk.head, chunk.first + t)));
      start = Kept(start * step);
      scratch_.from_start[t] = static_cast<T>(start);
      T* row = scratch_.weights + t * mixers::kChunk;
      for (int64_t s = 0; s < t; ++s) {
        running_[s] = Kept(running_[s] * step);
        row[s] = static_cast<T>(running_[s]);
      }
      row[t] = running_[t] = 1;
      std::fill(row + t + 1, row + (t / mixers::kBlock + 1) * mixers::kBlock, T{0});
    }
    total_ = static_cast<T>(start);
    for (int64_t s = 0; s < chunk.rows; ++s) scratch_.to_end[s] = static_cast<T>(running_[s]);
  }

 private:
  // Weights below are 0: they are far below rounding, and products with denormal numbers would cost a hundred times the time.
  static constexpr double kSmallest = double{std::numeric_limits<T>::min()} / double{std::numeric_limits<T>::epsilon()};
  static double Kept(double weight) { return weight < kSmallest ? 0 : weight; }

  const View<const T, 3> decay_;
  const bool one_;
  const mixers::Scratch<T>& scratch_;
  std::optional<mixers::Chunk> filled_;
  T total_ = 1;
  double running_[mixers::kChunk];
};

// The tiles of a chunk, and what both mixers make of them: `added` is the tile of what steps add to the state for their keys.
template <class T>
class ChunkWork {
 protected:
  using Tag = hn::CappedTag<T, mixers::kQuantum>;
  static constexpr int64_t kChunk = mixers::kChunk, kBlock = mixers::kBlock;

  ChunkWork(const mixers::Call<T>& call, const mixers::Scratch<T>& scratch)
      : call_(call),
        scratch_(scratch),
        dim_(call.sizes.dim),
        columns_(call.sizes.columns),
        keys_(call.sizes.key_stride()),
        width_(call.sizes.value_stride()),
        state_(call.sizes.state()),
        decay_(call, scratch) {}

  int64_t values() const { return call_.in.v.extent[3]; }

  // The tiles and decays of a chunk; false where they are those at hand.
  bool LoadChunk(const mixers::Chunk& chunk) {
    if (chunk_ == chunk) return false;
    chunk_ = chunk;
    finite_ = true;
    LoadRows(call_.in.q, scratch_.q, keys_);
    LoadRows(call_.in.k, scratch_.k, keys_);
    LoadRows(call_.in.v, scratch_.v, width_);
    if (call_.backward) LoadRows(call_.from.d_out, scratch_.d_out, width_);
    Transpose(scratch_.k, keys_, chunk.rows, dim_, T{1}, scratch_.k_t, kChunk);
    decay_.Fill(chunk);
    return true;
  }

  static void Copy(const T* from, int64_t from_step, int64_t count, T* to, int64_t to_step) {
    if (from_step == 1 && to_step == 1) {
      std::copy_n(from, count, to);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
    }
  }
  // Rows of an array as a tile. Notes whether all of their numbers are finite.
  void LoadRows(const View<const T, 4>& from, T* to, int64_t stride) {
    for (int64_t r = 0; r < chunk_.rows && from.present(); ++r)
      Copy(&from(chunk_.row, chunk_.head, chunk_.first + r, 0), from.stride[3], from.extent[3], to + r * stride, 1);
    NoteFinite(to, stride);
  }
  void NoteFinite(const T* tile, int64_t stride) {
    const Tag d;
    auto check = hn::Zero(d);
    for (int64_t i = 0; i < chunk_.rows * stride; i += static_cast<int64_t>(hn::Lanes(d)))
      check = hn::MulAdd(hn::Load(d, tile + i), hn::Zero(d), check);
    finite_ = finite_ && hn::AllTrue(d, hn::Eq(check, hn::Zero(d)));
  }
  void StoreRows(const T* from, int64_t stride, const View<T, 4>& to) const {
    for (int64_t r = 0; r < chunk_.rows && to.present(); ++r)
      Copy(from + r * stride, 1, to.extent[3], &to(chunk_.row, chunk_.head, chunk_.first + r, 0), to.stride[3]);
  }

  // The states at the begin of a walk, as rows of whole vectors, and what is left at its end.
  void Begin(int64_t b, int64_t h) const {
    const auto load = [&](const View<const T, 4>& from, T* to) {
      std::fill_n(to, state_, T{0});
      for (int64_t i = 0; i < dim_ && from.present(); ++i)
        Copy(&from(b, h, i, 0), from.stride[3], columns_, to + i * width_, 1);
    };
    load(call_.in.initial_state, scratch_.carry);
    if (call_.backward) load(call_.from.d_final_state, scratch_.d_carry);
  }
  void End(int64_t b, int64_t h) const {
    const auto store = [&](const T* from, const View<T, 4>& to) {
      for (int64_t i = 0; i < dim_ && to.present(); ++i) Copy(from + i * width_, 1, columns_, &to(b, h, i, 0), to.stride[3]);
    };
    store(scratch_.carry, call_.to.final_state);
    store(scratch_.d_carry, call_.gradients.d_initial_state);
    ClearPadding(b, h);
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

  // slot = what the chunk adds to the state that leaves it, or to the cotangent of the state that enters it; and its decay.
  void SumForward(const T* added, T* slot) const { SumRows(scratch_.to_end, added, scratch_.k, slot); }
  void SumBack(T* slot) const { SumRows(scratch_.from_start, scratch_.d_out, scratch_.q, slot); }
  void SumRows(const T* factors, const T* tile, const T* keys, T* slot) const {
    ScaleRows(factors, tile, width_, scratch_.scaled);
    Multiply({keys, 1, keys_}, {scratch_.scaled, width_}, {dim_, chunk_.rows, width_}, slot);
    slot[state_] = decay_.total();
  }
  // Afterwards slot holds the state that enters the chunk, and carry the one that leaves it (of cotangents the other way).
  void Pass(T* slot, T* carry) const {
    const Tag d;
    const auto decay = hn::Set(d, slot[state_]);
    for (int64_t i = 0; i < state_; i += static_cast<int64_t>(hn::Lanes(d))) {
      const auto entering = hn::Load(d, carry + i);
      hn::Store(hn::MulAdd(decay, entering, hn::Load(d, slot + i)), d, carry + i);
      hn::Store(entering, d, slot + i);
    }
  }

  // to[t, s] = a[t] . b[s] for s <= t and on to the end of a block.
  void PairProducts(const T* a, int64_t stride, int64_t steps, const T* b_t, T* to) const {
    for (int64_t t = 0; t < chunk_.rows; t += kBlock)
      Product<Tag, T>(Tag(), {a + t * stride, stride, 1}, {b_t, kChunk}, {std::min(kBlock, chunk_.rows - t), steps, t + kBlock},
                      Fresh(to + t * kChunk, kChunk));
  }
  // Calls change(place, lanes s < t + diagonal, t) for the vectors of a square. Lanes that do not count are of pairs above the
  // diagonal, and hold anything.
  template <class Change>
  HWY_INLINE void ForEachPair(int64_t diagonal, const Change& change) const {
    const Tag d;
    for (int64_t t = 0; t < chunk_.rows; ++t)
      for (int64_t s = 0; s < (t / kBlock + 1) * kBlock; s += static_cast<int64_t>(hn::Lanes(d)))
        change(t * kChunk + s, hn::FirstN(d, static_cast<std::size_t>(std::max<int64_t>(0, t + diagonal - s))), t);
  }
  // to[t, :] += sum over s <= t of a[t, s] b[s, :]. A row is not multiplied with what follows it where that is not finite, by 0
  // neither; else blocks of rows are.
  void AddLower(const T* a, const T* b, int64_t width, T* to) const {
    const int64_t block = finite_ ? kBlock : 1;
    for (int64_t t = 0; t < chunk_.rows; t += block) {
      const int64_t rows = std::min(block, chunk_.rows - t);
      AddProduct({a + t * kChunk, kChunk, 1}, {b, width}, {rows, t + rows, width}, to + t * width);
    }
  }
  // to[s, :] += sum over t >= s of a[t, s] b[t, :]
  void AddUpper(const T* a, const T* b, int64_t width, T* to) const {
    const int64_t block = finite_ ? kBlock : 1;
    for (int64_t s = 0; s < chunk_.rows; s += block)
      AddProduct({a + s * kChunk + s, 1, kChunk}, {b + s * width, width},
                 {std::min(block, chunk_.rows - s), chunk_.rows - s, width}, to + s * width);
  }

  // out = a (q S) + (W o q k^T) added
  void Output(const T* state, const T* added) const {
    const Tag d;
    PairProducts(scratch_.q, keys_, dim_, scratch_.k_t, scratch_.scores);
    ForEachPair(1, [&](int64_t at, auto counts, int64_t) HWY_ATTR {
      const auto weighted = hn::Mul(hn::Load(d, scratch_.scores + at), hn::Load(d, scratch_.weights + at));
      hn::Store(hn::IfThenElseZero(counts, weighted), d, scratch_.scores + at);
    });
    Multiply({scratch_.q, keys_, 1}, {state, width_}, {chunk_.rows, dim_, width_}, scratch_.out);
    ScaleRows(scratch_.from_start, scratch_.out, width_, scratch_.out);
    AddLower(scratch_.scores, added, width_, scratch_.out);
  }

  // scores = P = W o q k^T, d_scores = E = W o (dy added^T), pairs = what each of them adds to the gradient of its decays.
  void OfPairs(const T* added) const {
    const Tag d;
    PairProducts(scratch_.q, keys_, dim_, scratch_.k_t, scratch_.scores);
    Transpose(added, width_, chunk_.rows, columns_, T{1}, scratch_.v_t, kChunk);
    PairProducts(scratch_.d_out, width_, columns_, scratch_.v_t, scratch_.d_scores);
    ForEachPair(1, [&](int64_t at, auto counts, int64_t) HWY_ATTR {
      const auto weight = hn::Load(d, scratch_.weights + at);
      const auto weighted = hn::IfThenElseZero(counts, hn::Mul(hn::Load(d, scratch_.scores + at), weight));
      const auto cotangent = hn::IfThenElseZero(counts, hn::Load(d, scratch_.d_scores + at));
      hn::Store(weighted, d, scratch_.scores + at);
      hn::Store(hn::Mul(cotangent, weight), d, scratch_.d_scores + at);
      hn::Store(hn::Mul(cotangent, weighted), d, scratch_.pairs + at);
    });
  }
  // to = z (k R) + P^T dy, the cotangent of added.
  void OfAdded(const T* d_state, T* to) const {
    Multiply({scratch_.k, keys_, 1}, {d_state, width_}, {chunk_.rows, dim_, width_}, to);
    ScaleRows(scratch_.to_end, to, width_, to);
    AddUpper(scratch_.scores, scratch_.d_out, width_, to);
  }
  // d_q = a (dy S^T) + E k
  void OfQueries(const T* state) const {
    KeysOf(scratch_.d_out, state, scratch_.from_start, scratch_.q, scratch_.suffix, scratch_.d_q);
    AddLower(scratch_.d_scores, scratch_.k, keys_, scratch_.d_q);
    StoreRows(scratch_.d_q, keys_, call_.gradients.d_q);
  }
  // d_k = z (added R^T) + E^T q
  void OfKeys(const T* d_state, const T* added) const {
    KeysOf(added, d_state, scratch_.to_end, scratch_.k, scratch_.prefix, scratch_.d_k);
    AddUpper(scratch_.d_scores, scratch_.q, keys_, scratch_.d_k);
  }
  // to = factors (tile state^T), sums = its products with keys by rows.
  void KeysOf(const T* tile, const T* state, const T* factors, const T* keys, double* sums, T* to) const {
    Transpose(state, width_, dim_, columns_, T{1}, scratch_.state_t, keys_);
    Multiply({tile, width_, 1}, {scratch_.state_t, keys_}, {chunk_.rows, columns_, keys_}, to);
    ScaleRows(factors, to, keys_, to);
    for (int64_t r = 0; r < chunk_.rows; ++r) sums[r] = Dot(keys + r * keys_, to + r * keys_, keys_);
  }
  static double Dot(const T* a, const T* b, int64_t count) {
    const Tag d;
    LaneSums<Tag> sums;
    sums.ForEach(0, count,
                 [&](int64_t c, auto& sum) HWY_ATTR { sum = hn::MulAdd(hn::Load(d, a + c), hn::Load(d, b + c), sum); });
    return static_cast<double>(sums.Total());
  }

  // The gradient of the decay of step r, of which every weight from s < r to t >= r has it as a factor:
  //   sum of pairs[t, s], of suffix[t], which came from before the chunk, of prefix[s], which goes beyond it, and a S . R.
  // Sums of what belongs to r alone, and no differences of long sums: a step that forgets all has exactly 0.
  void OfDecay(const T* state, const T* d_state, int64_t index) const {
    if (!call_.wants_decay()) return;
    const Tag d;
    std::fill_n(scratch_.row, kChunk, T{0});  // sums of the columns of pairs, from row t on
    double later = static_cast<double>(decay_.total()) * Dot(state, d_state, state_);
    for (int64_t t = chunk_.rows - 1; t >= 0; --t) {
      LaneSums<Tag> sums;
      sums.ForEach(0, (t / kBlock + 1) * kBlock, [&](int64_t s, auto& sum) HWY_ATTR {
        const auto column = hn::Add(hn::Load(d, scratch_.row + s), hn::Load(d, scratch_.pairs + t * kChunk + s));
        hn::Store(column, d, scratch_.row + s);
        const auto before = hn::FirstN(d, static_cast<std::size_t>(std::max<int64_t>(0, t - s)));
        sum = hn::Add(sum, hn::IfThenElseZero(before, column));
      });
      later += scratch_.suffix[t];
      scratch_.gradient[t] = later + static_cast<double>(sums.Total());
    }
    double earlier = 0, all = 0;
    for (int64_t t = 0; t < chunk_.rows; ++t) {
      const double gradient = scratch_.gradient[t] + earlier;
      earlier += scratch_.prefix[t];
      all += gradient;
      if (!call_.decay_parts) call_.gradients.d_decay(chunk_.row, chunk_.head, chunk_.first + t) = static_cast<T>(gradient);
    }
    if (call_.decay_parts) call_.decay_parts[index] = all;
  }

  // Steps that do not count have outputs and gradients of 0.
  void ClearPadding(int64_t b, int64_t h) const {
    const auto rows = [](const View<T, 3>& of) {
      return View<T, 4>{of.data, {of.extent[0], of.extent[1], of.extent[2], 1}, {of.stride[0], of.stride[1], of.stride[2], 0}};
    };
    const LinearGradients<T>& to = call_.gradients;
    for (const View<T, 4>& view : {call_.to.out, rows(call_.to.sums), to.d_q, to.d_k, to.d_v, rows(to.d_beta),
                                   rows(call_.decay_parts ? View<T, 3>{} : to.d_decay)})
      for (int64_t t = call_.sequences.Length(b); t < call_.steps && view.present() && !call_.sequences.packed(); ++t)
        for (int64_t c = 0; c < view.extent[3]; ++c) view(b, h, t, c) = 0;
  }

  const mixers::Call<T>& call_;
  const mixers::Scratch<T>& scratch_;
  const int64_t dim_, columns_, keys_, width_, state_;  // keys_ and width_: of rows of keys and values in tiles
  ChunkDecay<T> decay_;
  mixers::Chunk chunk_{-1, 0, 0, 0};
  bool finite_ = true;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
