// The running softmax of a panel: a reference close to the largest score, the sum of weights and the output, per lane.
// Everything is vertical: one query per lane, no shuffles, no horizontal reductions, and what a lane holds has the bits that it
// would have alone, whatever its neighbours do.
//
// Invariants: a lane that has seen no key has sum 0 and reference 0. After its first key the sum is at least 2^-8, because the
// reference is never more than 8 (in powers of two) below the largest score seen. States of different keys merge: split keys
// and processes that hold different keys combine theirs. Milakov and Gimelshein 2018; the lazy rescaling after Dao 2023.
#if defined(HEED_ATTENTION_SOFTMAX_STATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_SOFTMAX_STATE_INL_H_
#undef HEED_ATTENTION_SOFTMAX_STATE_INL_H_
#else
#define HEED_ATTENTION_SOFTMAX_STATE_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <numbers>

#include "attention/sight-inl.h"
#include "heed/log_sum_exp.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "simd/exp2-inl.h"
#include "simd/lane_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Weights may grow to 2^8 before the reference follows: far from overflow, and rescaling becomes rare.
constexpr double kSlackLog2 = 8.0;

template <class T>
struct SoftmaxState {
  T* minus_max;  // [width], the reference, negated
  T* sum;        // [width]
  T* output;     // [rows, width]
  int64_t width, rows;
  // For statistics, else null: the largest score (-inf without keys), and the sum of weight times score from the reference.
  T *largest, *weighted;  // [width]
  // Where asked for, the key of the largest score, the first of equal ones: key_high * kKeysOfHigh + key_low, because a float
  // holds no whole number beyond 2^24. kNoKey: there is none, or it has no value.
  T *key_high = nullptr, *key_low = nullptr;  // [width]
  // How far the reference may fall behind. Where weights are rounded it follows at once, so that the largest weights are near 1
  // and what stands out alone is not rounded at all.
  T slack = static_cast<T>(kSlackLog2);

  static constexpr int64_t kNoKey = -1, kKeysOfHigh = int64_t{1} << 20;
  int64_t LargestKey(int64_t w) const {
    return static_cast<int64_t>(key_high[w]) * kKeysOfHigh + static_cast<int64_t>(key_low[w]);
  }

  // Output is left as it is: nothing reads it before the first keys of any lane are taken, and whoever adds their values clears
  // it.
  void Reset() const {
    std::fill_n(minus_max, width, T{0});
    std::fill_n(sum, width, T{0});
    if (!largest) return;
    std::fill_n(largest, width, -std::numeric_limits<T>::infinity());
    std::fill_n(weighted, width, T{0});
    if (key_low) SetKey(0, width, kNoKey);
  }

  // Whether no lane has seen a key.
  bool empty() const {
    return std::all_of(sum, sum + width, [](T total) { return total == 0; });
  }

  // Takes the scores [keys, width] of a tile (masked: -inf) and leaves the weights in their place, for the lanes from
  // lane_begin to lane_end. key: the first one of the tile.
  template <class D>
  void Update(D d, T* scores, int64_t keys, int64_t lane_begin, int64_t lane_end, int64_t key = 0) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t w = lane_begin; w < lane_end; w += lanes) {
      const auto shrink = [&](hn::Vec<D> factor) HWY_ATTR { Scale(d, factor, output + w, width, rows); };
      const hn::Vec<D> highest = LargestOf(d, scores + w, keys, width);
      if (largest) TakeLargest(d, w, highest, scores + w, keys, key);
      const hn::Vec<D> now = Follow(d, w, highest, shrink);
      if (largest) {
        Exponentiate<true>(d, scores + w, keys, now, w);
      } else {
        Exponentiate<false>(d, scores + w, keys, now, w);
      }
    }
  }

  // The same for one lane alone whose scores are neighbours, whole vectors of them. Its first `count` output elements stand in
  // `own`, the others where those of all lanes do.
  template <class D>
  void UpdateRow(D d, T* scores, int64_t keys, int64_t w, T* own, int64_t count, int64_t key = 0) const {
    const hn::CappedTag<T, 1> one;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto shrink = [&](hn::Vec<decltype(one)> factor) HWY_ATTR {
      Scale(one, factor, own, 1, count);
      Scale(one, factor, output + count * width + w, width, rows - count);
    };
    const T highest = hn::GetLane(hn::MaxOfLanes(d, LargestOf(d, scores, keys / lanes, lanes)));
    if (largest && highest > largest[w]) {
      largest[w] = highest;
      if (key_low) SetKey(w, 1, key + (std::find(scores, scores + keys, highest) - scores));
    }
    const hn::Vec<D> now = hn::Set(d, hn::GetLane(Follow(one, w, hn::Set(one, highest), shrink)));
    if (largest) {
      ExponentiateRow<true>(d, scores, keys, now, w);
    } else {
      ExponentiateRow<false>(d, scores, keys, now, w);
    }
  }

  // Takes in the state of other keys.
  template <class D>
  void Merge(D d, const SoftmaxState& other) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t w = 0; w < width; w += lanes) {
      const Share<D> a = ShareOf(d, *this, other, w), b = ShareOf(d, other, *this, w);
      const hn::Vec<D> own_sum = hn::Load(d, sum + w), other_sum = hn::Load(d, other.sum + w);
      if (largest) {
        hn::Store(hn::Add(Moved(d, a.scale, a.rise, own_sum, hn::Load(d, weighted + w)),
                          Moved(d, b.scale, b.rise, other_sum, hn::Load(d, other.weighted + w))),
                  d, weighted + w);
        MergeLargest(d, other, w);
      }
      hn::Store(hn::Neg(a.common), d, minus_max + w);
      hn::Store(hn::MulAdd(a.scale, own_sum, hn::Mul(b.scale, other_sum)), d, sum + w);
      for (int64_t r = 0; r < rows; ++r) {
        T* at = output + r * width + w;
        const hn::Vec<D> taken = hn::Mul(b.scale, hn::Load(d, other.output + r * width + w));
        hn::Store(hn::MulAdd(a.scale, hn::Load(d, at), taken), d, at);
      }
    }
  }

  // entropy, largest weight; before Finish. Rows without weights: 0.
  template <class D>
  void Statistics(D d, T* entropy, T* max_weight) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t w = 0; w < width; w += lanes) {
      const hn::Vec<D> total = hn::Load(d, sum + w);
      const hn::Mask<D> empty = hn::Eq(total, hn::Zero(d));
      const hn::Vec<D> bits = hn::Sub(hn::Log2(d, total), hn::Div(hn::Load(d, weighted + w), total));
      const hn::Vec<D> nats = hn::Mul(bits, hn::Set(d, std::numbers::ln2_v<T>));
      const hn::Vec<D> above = hn::Add(hn::Load(d, largest + w), hn::Load(d, minus_max + w));
      // Rounding may leave a row that looks at one key just below 0.
      hn::Store(hn::IfThenZeroElse(hn::Or(empty, hn::Lt(nats, hn::Zero(d))), nats), d, entropy + w);
      hn::Store(hn::IfThenZeroElse(empty, hn::Div(PowerOfTwo(d, above), total)), d, max_weight + w);
    }
  }

  // Copies of minus_max and sum, which Finish overwrites.
  void Keep(T* kept_minus_max, T* kept_sum) const {
    std::copy_n(minus_max, width, kept_minus_max);
    std::copy_n(sum, width, kept_sum);
  }

  // minus_max becomes the natural log-sum-exp (-inf where no key was seen), sum becomes `scale` over the sum (0 there).
  template <class D>
  void Finish(D d, T scale) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t w = 0; w < width; w += lanes) {
      const hn::Vec<D> total = hn::Load(d, sum + w);
      const hn::Mask<D> empty = hn::Eq(total, hn::Zero(d));
      const hn::Vec<D> log2 = hn::Sub(hn::Log2(d, total), hn::Load(d, minus_max + w));
      const hn::Vec<D> lse = hn::Mul(log2, hn::Set(d, std::numbers::ln2_v<T>));
      // The polynomial behind Log2 may turn NaN into a number.
      const hn::Vec<D> lse_or_nan = hn::IfThenElse(hn::Eq(total, total), lse, total);
      hn::Store(hn::IfThenElse(empty, hn::Set(d, -std::numeric_limits<T>::infinity()), lse_or_nan), d, minus_max + w);
      hn::Store(hn::IfThenZeroElse(empty, hn::Div(hn::Set(d, scale), total)), d, sum + w);
    }
  }

  // output[:, w] = output[:, w] * sum[w] where sum[w] is not 0, else 0 whatever the output holds.
  template <class D>
  void Normalise(D d) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t w = 0; w < width; w += lanes) {
      const hn::Vec<D> factor = hn::Load(d, sum + w);
      const hn::Mask<D> empty = hn::Eq(factor, hn::Zero(d));
      for (int64_t r = 0; r < rows; ++r) {
        T* at = output + r * width + w;
        hn::Store(hn::IfThenZeroElse(empty, hn::Mul(hn::Load(d, at), factor)), d, at);
      }
    }
  }

 private:
  // Of `count` vectors, `step` elements apart. Four chains: the latency of a maximum is four cycles on the machines measured.
  template <class D>
  static hn::Vec<D> LargestOf(D d, const T* at, int64_t count, int64_t step) {
    hn::Vec<D> m0 = hn::Set(d, -std::numeric_limits<T>::infinity()), m1 = m0, m2 = m0, m3 = m0;
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
      m0 = hn::Max(m0, hn::Load(d, at + j * step));
      m1 = hn::Max(m1, hn::Load(d, at + (j + 1) * step));
      m2 = hn::Max(m2, hn::Load(d, at + (j + 2) * step));
      m3 = hn::Max(m3, hn::Load(d, at + (j + 3) * step));
    }
    for (; j < count; ++j) m0 = hn::Max(m0, hn::Load(d, at + j * step));
    return hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
  }

  // `count` vectors, `step` elements apart, times a factor.
  template <class D>
  static void Scale(D d, hn::Vec<D> factor, T* at, int64_t step, int64_t count) {
    for (int64_t r = 0; r < count; ++r) hn::Store(hn::Mul(hn::Load(d, at + r * step), factor), d, at + r * step);
  }

  void SetKey(int64_t w, int64_t count, int64_t key) const {
    const int64_t high = key / kKeysOfHigh, low = key % kKeysOfHigh;
    std::fill_n(key_high + w, count, static_cast<T>(high));
    std::fill_n(key_low + w, count, static_cast<T>(low));
  }

  // Raises the largest scores of some lanes to the highest ones of a tile, whose first key is `first`.
  template <class D>
  void TakeLargest(D d, int64_t w, hn::Vec<D> highest, const T* column, int64_t keys, int64_t first) const {
    const hn::Vec<D> before = hn::Load(d, largest + w);
    hn::Store(hn::Max(before, highest), d, largest + w);
    const hn::Mask<D> rises = hn::Gt(highest, before);
    if (!key_low || hn::AllFalse(d, rises)) return;
    hn::Vec<D> at = hn::Zero(d);
    for (int64_t j = keys; j-- > 0;)
      at = hn::IfThenElse(hn::Eq(hn::Load(d, column + j * width), highest), hn::Set(d, static_cast<T>(j)), at);
    const int64_t first_high = first / kKeysOfHigh, first_low = first % kKeysOfHigh;
    const hn::Vec<D> high = hn::Set(d, static_cast<T>(first_high));
    const hn::Vec<D> low = hn::Add(hn::Set(d, static_cast<T>(first_low)), at);
    hn::Store(hn::IfThenElse(rises, high, hn::Load(d, key_high + w)), d, key_high + w);
    hn::Store(hn::IfThenElse(rises, low, hn::Load(d, key_low + w)), d, key_low + w);
  }

  template <class D>
  void MergeLargest(D d, const SoftmaxState& other, int64_t w) const {
    const hn::Vec<D> own = hn::Load(d, largest + w), theirs = hn::Load(d, other.largest + w);
    hn::Store(hn::Max(own, theirs), d, largest + w);
    if (!key_low) return;
    const hn::Mask<D> rises = hn::Gt(theirs, own);
    hn::Store(hn::IfThenElse(rises, hn::Load(d, other.key_high + w), hn::Load(d, key_high + w)), d, key_high + w);
    hn::Store(hn::IfThenElse(rises, hn::Load(d, other.key_low + w), hn::Load(d, key_low + w)), d, key_low + w);
  }

  // Moves the reference of the lanes that need it to their highest score, and what is counted from it along; returns the
  // reference of all, negated. shrink(factor): for the output.
  template <class D, class Shrink>
  hn::Vec<D> Follow(D d, int64_t w, hn::Vec<D> highest, const Shrink& shrink) const {
    const hn::Vec<D> old = hn::Load(d, minus_max + w), old_sum = hn::Load(d, sum + w);
    const hn::Vec<D> now = Raise(d, w, highest, shrink);
    if (!largest) return now;
    // The first keys of a lane may move its reference far down; there is nothing to rescale then.
    const hn::Vec<D> rise = hn::IfThenZeroElse(hn::Eq(old_sum, hn::Zero(d)), hn::Sub(old, now));
    hn::Store(Moved(d, PowerOrOne(d, hn::Neg(rise)), hn::Neg(rise), old_sum, hn::Load(d, weighted + w)), d, weighted + w);
    return now;
  }

  template <class D, class Shrink>
  hn::Vec<D> Raise(D d, int64_t w, hn::Vec<D> highest, const Shrink& shrink) const {
    const hn::Vec<D> old = hn::Load(d, minus_max + w), old_sum = hn::Load(d, sum + w);
    const hn::Mask<D> fresh = hn::Eq(old_sum, hn::Zero(d));
    const hn::Vec<D> limit = hn::IfThenElse(fresh, hn::Set(d, -std::numeric_limits<T>::infinity()), hn::Set(d, slack));
    const hn::Mask<D> rises = hn::Gt(hn::Add(highest, old), limit);
    if (hn::AllFalse(d, rises)) return old;
    const hn::Vec<D> now = hn::IfThenElse(rises, hn::Neg(highest), old);
    const hn::Vec<D> factor = PowerOrOne(d, hn::IfThenZeroElse(fresh, hn::Sub(now, old)));
    hn::Store(now, d, minus_max + w);
    hn::Store(hn::Mul(old_sum, factor), d, sum + w);
    if (!hn::AllTrue(d, fresh)) shrink(factor);
    return now;
  }

  // 2^x; where x is 0 nothing may change, so 1 does not come from a polynomial.
  template <class D>
  static hn::Vec<D> PowerOrOne(D d, hn::Vec<D> x) {
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, T{1}), PowerOfTwo(d, x));
  }

  // The sum of weight times score when the reference moves: scores grow by `rise`, weights by `scale`. What vanishes takes its
  // score along, which may have been as low as numbers go.
  template <class D>
  static hn::Vec<D> Moved(D d, hn::Vec<D> scale, hn::Vec<D> rise, hn::Vec<D> total, hn::Vec<D> product) {
    return hn::IfThenZeroElse(hn::Eq(scale, hn::Zero(d)), hn::Mul(scale, hn::MulAdd(rise, total, product)));
  }

  // What becomes of a state when it is merged: its reference falls behind the common one by -rise.
  template <class D>
  struct Share {
    hn::Vec<D> scale, rise, common;
  };
  template <class D>
  static Share<D> ShareOf(D d, const SoftmaxState& state, const SoftmaxState& other, int64_t w) {
    const hn::Vec<D> own = hn::Neg(hn::Load(d, state.minus_max + w)), theirs = hn::Neg(hn::Load(d, other.minus_max + w));
    const hn::Mask<D> empty = hn::Eq(hn::Load(d, state.sum + w), hn::Zero(d));
    const hn::Mask<D> alone = hn::Eq(hn::Load(d, other.sum + w), hn::Zero(d));
    const hn::Vec<D> common = hn::IfThenElse(empty, theirs, hn::IfThenElse(alone, own, hn::Max(own, theirs)));
    const hn::Vec<D> rise = hn::Sub(own, common);
    return {hn::IfThenZeroElse(empty, PowerOrOne(d, rise)), rise, common};
  }

  // Turns `count` vectors of scores, `step` elements apart, into weights; adds to their sum and to that of weight times score.
  // Two at a time hide the latency of the polynomial.
  template <bool kWeighted, class D>
  static void Powers(D d, T* at, int64_t count, int64_t step, hn::Vec<D> minus_reference, hn::Vec<D>& total,
                     hn::Vec<D>& product) {
    hn::Vec<D> sum0 = total, sum1 = hn::Zero(d);
    const auto power = [&](int64_t j, hn::Vec<D>& sum_of) HWY_ATTR {
      const hn::Vec<D> x = hn::Add(hn::Load(d, at + j * step), minus_reference), p = PowerOfTwo(d, x);
      hn::Store(p, d, at + j * step);
      sum_of = hn::Add(sum_of, p);
      // Where the weight is 0 the score may be -inf.
      if (kWeighted) product = hn::Add(product, hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d)), hn::Mul(p, x)));
    };
    int64_t j = 0;
    for (; j + 2 <= count; j += 2) {
      power(j, sum0);
      power(j + 1, sum1);
    }
    if (j < count) power(j, sum0);
    total = hn::Add(sum0, sum1);
  }

  template <bool kWeighted, class D>
  void Exponentiate(D d, T* column, int64_t keys, hn::Vec<D> minus_reference, int64_t w) const {
    hn::Vec<D> total = hn::Load(d, sum + w), product = hn::Zero(d);
    Powers<kWeighted>(d, column, keys, width, minus_reference, total, product);
    hn::Store(total, d, sum + w);
    if (kWeighted) hn::Store(hn::Add(hn::Load(d, weighted + w), product), d, weighted + w);
  }

  template <bool kWeighted, class D>
  void ExponentiateRow(D d, T* row, int64_t keys, hn::Vec<D> minus_reference, int64_t w) const {
    constexpr int64_t kStep = kSumLanes<D>;
    LaneSums<D> totals, products;
    for (int x = 0; x < kSumParts<D>; ++x)
      Powers<kWeighted>(d, row + x * static_cast<int64_t>(hn::MaxLanes(D())), keys / kStep, kStep, minus_reference,
                        totals.part(x), products.part(x));
    sum[w] += totals.Total();
    if (kWeighted) weighted[w] += products.Total();
  }
};

// Takes a tile of scores as a whole, however it was cut: a row's bits do not show how much of the tile its neighbours see.
// Lanes skip the strips before and behind all that they see.
template <class D, class T>
void TakeTile(D d, const SoftmaxState<T>& state, const TileSight& tile, T* scores) {
  const int64_t vector = static_cast<int64_t>(hn::Lanes(d));
  const TilePlace& any = tile.strips()[0].place;
  if (!tile.masked()) {
    state.Update(d, scores, any.keys, 0, attention::RoundUp(any.used_end(), vector), any.key);
    return;
  }
  const int64_t lane_end = std::min(tile.lane_end(), attention::RoundUp(any.used, vector));
  for (int64_t w = tile.lane_begin(); w < lane_end; w += attention::kLaneQuantum) {
    const TilePlace *first = nullptr, *last = nullptr;
    for (const StripSight& strip : tile.strips()) {
      if (w < strip.place.lane_begin || w >= strip.place.lane_end) continue;
      if (!first) first = &strip.place;
      last = &strip.place;
    }
    if (!first) continue;
    state.Update(d, RowsOfStrip(scores, *first), last->key + last->keys - first->key, w,
                 std::min(w + attention::kLaneQuantum, lane_end), first->key);
  }
}

// Takes in the key without a value, where the call has one; the state has taken all others of the panel. Lanes that have seen
// none stay as they are. room: [panel].
template <class T>
void TakeValuelessKey(const attention::Problem& problem, const Panel& panel, const attention::Lanes<T>& lanes,
                      const SoftmaxState<T>& state, T* room) {
  if (!problem.valueless_key.present()) return;
  const int64_t row = problem.plan.ArrayRow(panel.b), first = problem.plan.FirstQuery(panel.b);
  for (int64_t w = 0; w < panel.width; ++w) {
    const bool any = w < panel.used() && state.sum[w] != 0;
    room[w] = any ? InPowersOfTwo<T>(problem.valueless_key.score(row, lanes.head[w], first + lanes.query[w]))
                  : -std::numeric_limits<T>::infinity();
  }
  state.Update(hn::ScalableTag<T>(), room, 1, 0, panel.width, SoftmaxState<T>::kNoKey);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
