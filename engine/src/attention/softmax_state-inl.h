// The running softmax of a panel: a reference close to the largest score, the sum of weights and the output, per lane.
// Everything is vertical: one query per lane, no shuffles, no horizontal reductions.
//
// Invariants: a lane that has seen no key has sum 0 and reference 0. After its first key the sum is at least 2^-8, because the
// reference is never more than 8 (in powers of two) below the largest score seen. Milakov and Gimelshein 2018; the lazy
// rescaling after Dao 2023.
#if defined(HEED_ATTENTION_SOFTMAX_STATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_SOFTMAX_STATE_INL_H_
#undef HEED_ATTENTION_SOFTMAX_STATE_INL_H_
#else
#define HEED_ATTENTION_SOFTMAX_STATE_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <numbers>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Weights may grow to 2^8 before the reference follows: far from overflow, and rescaling becomes rare.
constexpr double kSlackLog2 = 8.0;

template <class T>
struct SoftmaxState {
  T* minus_max;  // [width], what the scores start from
  T* sum;        // [width]
  T* output;     // [rows, width]
  int64_t width, rows;

  void Reset() const {
    std::fill_n(minus_max, width, T{0});
    std::fill_n(sum, width, T{0});
    std::fill_n(output, rows * width, T{0});
  }

  // Takes scores [keys, width] relative to the reference (masked: -inf) and leaves the weights in their place, for the lanes
  // from lane_begin to lane_end.
  template <class D>
  void Update(D d, T* scores, int64_t keys, int64_t lane_begin, int64_t lane_end) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t w = lane_begin; w < lane_end; w += lanes) {
      const hn::Vec<D> rise = Raise(d, w, Largest(d, scores + w, keys));
      Exponentiate(d, scores + w, keys, rise, w);
    }
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
  // Four chains: the latency of a maximum is four cycles on the machines measured.
  template <class D>
  hn::Vec<D> Largest(D d, const T* column, int64_t keys) const {
    hn::Vec<D> m0 = hn::Set(d, -std::numeric_limits<T>::infinity()), m1 = m0, m2 = m0, m3 = m0;
    int64_t j = 0;
    for (; j + 4 <= keys; j += 4) {
      m0 = hn::Max(m0, hn::Load(d, column + j * width));
      m1 = hn::Max(m1, hn::Load(d, column + (j + 1) * width));
      m2 = hn::Max(m2, hn::Load(d, column + (j + 2) * width));
      m3 = hn::Max(m3, hn::Load(d, column + (j + 3) * width));
    }
    for (; j < keys; ++j) m0 = hn::Max(m0, hn::Load(d, column + j * width));
    return hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
  }

  // Moves the reference of the lanes that need it; returns by how much. Each lane decides for itself, so that a query's
  // result does not depend on its neighbours.
  template <class D>
  hn::Vec<D> Raise(D d, int64_t w, hn::Vec<D> largest) const {
    const hn::Vec<D> old_sum = hn::Load(d, sum + w);
    const hn::Mask<D> fresh = hn::Eq(old_sum, hn::Zero(d));
    const hn::Vec<D> limit =
        hn::IfThenElse(fresh, hn::Set(d, -std::numeric_limits<T>::infinity()), hn::Set(d, static_cast<T>(kSlackLog2)));
    const hn::Mask<D> rises = hn::Gt(largest, limit);
    if (hn::AllFalse(d, rises)) return hn::Zero(d);
    const hn::Vec<D> rise = hn::IfThenElseZero(rises, largest);
    const hn::Vec<D> shrink = Exp2(d, hn::Neg(hn::IfThenZeroElse(fresh, rise)));
    hn::Store(hn::Sub(hn::Load(d, minus_max + w), rise), d, minus_max + w);
    hn::Store(hn::Mul(old_sum, shrink), d, sum + w);
    for (int64_t r = 0; r < rows; ++r) {
      T* at = output + r * width + w;
      hn::Store(hn::Mul(hn::Load(d, at), shrink), d, at);
    }
    return rise;
  }

  // Two rows of weights at a time hide the latency of the polynomial.
  template <class D>
  void Exponentiate(D d, T* column, int64_t keys, hn::Vec<D> rise, int64_t w) const {
    hn::Vec<D> sum0 = hn::Load(d, sum + w), sum1 = hn::Zero(d);
    int64_t j = 0;
    for (; j + 2 <= keys; j += 2) {
      const hn::Vec<D> p0 = Exp2(d, hn::Sub(hn::Load(d, column + j * width), rise));
      const hn::Vec<D> p1 = Exp2(d, hn::Sub(hn::Load(d, column + (j + 1) * width), rise));
      hn::Store(p0, d, column + j * width);
      hn::Store(p1, d, column + (j + 1) * width);
      sum0 = hn::Add(sum0, p0);
      sum1 = hn::Add(sum1, p1);
    }
    if (j < keys) {
      const hn::Vec<D> p = Exp2(d, hn::Sub(hn::Load(d, column + j * width), rise));
      hn::Store(p, d, column + j * width);
      sum0 = hn::Add(sum0, p);
    }
    hn::Store(hn::Add(sum0, sum1), d, sum + w);
  }
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
