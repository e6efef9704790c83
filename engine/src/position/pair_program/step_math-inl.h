// Functions of programs on vectors, with the values of the C library where numbers end: NaN stays NaN, infinities and zeros are
// what they are there.
#if defined(HEED_POSITION_PAIR_PROGRAM_STEP_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_PAIR_PROGRAM_STEP_MATH_INL_H_
#undef HEED_POSITION_PAIR_PROGRAM_STEP_MATH_INL_H_
#else
#define HEED_POSITION_PAIR_PROGRAM_STEP_MATH_INL_H_
#endif

#include <cmath>
#include <limits>
#include <numbers>

#include "heed/portable_math.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "program/operation.h"
#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One, or 0, for each lane.
template <class D>
HWY_INLINE hn::Vec<D> Truths(D d, hn::Mask<D> mask) {
  return hn::IfThenElseZero(mask, hn::Set(d, hn::TFromD<D>{1}));
}
template <class D>
HWY_INLINE hn::Mask<D> Holds(D d, hn::Vec<D> truth) {
  return hn::Ne(truth, hn::Zero(d));
}

template <class D>
HWY_INLINE hn::Vec<D> Infinity(D d) {
  return hn::Set(d, std::numeric_limits<hn::TFromD<D>>::infinity());
}
// x where it is NaN, else y.
template <class D>
HWY_INLINE hn::Vec<D> KeepNan(D, hn::Vec<D> x, hn::Vec<D> y) {
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

template <class D>
HWY_INLINE hn::Vec<D> ExpOf(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  // Beyond, e^x is infinite and rounds to 0.
  const auto most = hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 88.72284 : 709.782712893384));
  const auto least = hn::Set(d, static_cast<T>(sizeof(T) == 4 ? -104.0 : -745.2));
  const auto inside = hn::Exp(d, hn::Min(hn::Max(x, least), most));
  const auto above = hn::IfThenElse(hn::Gt(x, most), Infinity(d), inside);
  return KeepNan(d, x, hn::IfThenZeroElse(hn::Lt(x, least), above));
}

// f is log or log1p, `zero` the number whose logarithm is -inf.
template <class D, class F>
HWY_INLINE hn::Vec<D> LogOf(D d, hn::Vec<D> x, hn::TFromD<D> zero, const F& f) {
  using T = hn::TFromD<D>;
  const auto edge = hn::Set(d, zero), infinity = Infinity(d);
  auto y = hn::IfThenElse(hn::Eq(x, infinity), infinity, f(x));
  y = hn::IfThenElse(hn::Eq(x, edge), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, edge), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), y);
  return KeepNan(d, x, y);
}

template <class D>
HWY_INLINE hn::Vec<D> SigmoidOf(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, hn::TFromD<D>{1});
  return hn::Div(one, hn::Add(one, ExpOf(d, hn::Neg(x))));
}

// A function without vectors, lane by lane.
template <class D, class F>
HWY_INLINE hn::Vec<D> LaneByLane(D d, hn::Vec<D> x, hn::Vec<D> y, const F& f) {
  HWY_ALIGN hn::TFromD<D> a[hn::MaxLanes(D())], b[hn::MaxLanes(D())];
  hn::Store(x, d, a);
  hn::Store(y, d, b);
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) a[lane] = f(a[lane], b[lane]);
  return hn::Load(d, a);
}

// The quotient rounded down, and what is left; exact where both are whole and their product is exact. Where an operand is
// infinite or b is 0, what single numbers have.
template <class D>
HWY_INLINE hn::Vec<D> FloorQuotientOf(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D>* rest) {
  const auto zero = hn::Zero(d), one = hn::Set(d, hn::TFromD<D>{1});
  auto quotient = hn::Floor(hn::Div(a, b));
  auto left = hn::NegMulAdd(quotient, b, a);
  const auto below = hn::And(hn::Ne(left, zero), hn::Ne(Truths(d, hn::Lt(left, zero)), Truths(d, hn::Lt(b, zero))));
  quotient = hn::IfThenElse(below, hn::Sub(quotient, one), quotient);
  left = hn::IfThenElse(below, hn::Add(left, b), left);
  const auto above = hn::AndNot(hn::Eq(quotient, hn::Neg(one)), hn::Ge(hn::Abs(left), hn::Abs(b)));
  *rest = hn::IfThenElse(above, hn::Sub(left, b), left);
  quotient = hn::IfThenElse(above, hn::Add(quotient, one), quotient);
  const auto ended = hn::Or(hn::Eq(b, zero), hn::Eq(hn::Max(hn::Abs(a), hn::Abs(b)), Infinity(d)));
  if (hn::AllFalse(d, ended)) return quotient;
  using T = hn::TFromD<D>;
  const auto at_end = [&](double (*f)(double, double))
                          HWY_ATTR { return LaneByLane(d, a, b, [f](T x, T y) { return static_cast<T>(f(x, y)); }); };
  *rest = hn::IfThenElse(ended, at_end(program::FloorRemainder), *rest);
  return hn::IfThenElse(ended, at_end(program::FloorQuotient), quotient);
}

// f: the vector function, which holds up to `limit`; g: the one of the C library. A lane keeps its bits whatever its neighbours
// hold.
template <class D, class F, class G>
HWY_INLINE hn::Vec<D> Within(D d, hn::TFromD<D> limit, hn::Vec<D> x, const F& f, const G& g) {
  const auto near = hn::Le(hn::Abs(x), hn::Set(d, limit));
  const auto y = f(x);
  if (hn::AllTrue(d, near)) return y;
  return hn::IfThenElse(near, y, LaneByLane(d, x, x, [&](auto a, auto) { return g(a); }));
}

template <class D>
HWY_INLINE hn::Vec<D> Exp2Of(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  return Within(
      d, T{96}, x, [d](hn::Vec<D> a) HWY_ATTR { return PowerOfTwo(d, a); },
      [](T a) { return static_cast<T>(portable::Exp2(double{a})); });
}

template <class D>
HWY_INLINE hn::Vec<D> SinOf(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  return Within(
      d, T{30000}, x, [d](hn::Vec<D> a) HWY_ATTR { return hn::Sin(d, a); },
      [](T a) { return static_cast<T>(portable::Sin(double{a})); });
}
template <class D>
HWY_INLINE hn::Vec<D> CosOf(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  return Within(
      d, T{30000}, x, [d](hn::Vec<D> a) HWY_ATTR { return hn::Cos(d, a); },
      [](T a) { return static_cast<T>(portable::Cos(double{a})); });
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
