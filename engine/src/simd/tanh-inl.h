// tanh x, for soft-caps and programs.
#if defined(HEED_SIMD_TANH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_TANH_INL_H_
#undef HEED_SIMD_TANH_INL_H_
#else
#define HEED_SIMD_TANH_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// c[0] + c[1] z + ..
template <class D, std::size_t kCount>
HWY_INLINE hn::Vec<D> PolynomialOf(D d, hn::Vec<D> z, const float (&c)[kCount]) {
  hn::Vec<D> sum = hn::Set(d, c[kCount - 1]);
  for (std::size_t x = kCount - 1; x-- > 0;) sum = hn::MulAdd(sum, z, hn::Set(d, c[x]));
  return sum;
}

// x P(x^2) / Q(x^2) up to where tanh rounds to 1; P and Q minimise the largest relative error there, 6.8e-9, by reweighted
// least squares. NaN stays NaN, and the result is never beyond 1.
template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<D> TanhOf(D d, hn::Vec<D> x) {
  constexpr float kNumerator[] = {1.0f,
                                  0.13083156943321228f,
                                  0.00310300150886178f,
                                  1.1144257769046817e-05f,
                                  -2.0183975379950425e-08f,
                                  5.25778240390018e-11f,
                                  -8.436054453738948e-14f};
  constexpr float kDenominator[] = {1.0f, 0.4641648530960083f, 0.024491380900144577f, 0.00025447513326071203f};
  const auto one = hn::Set(d, 1.0f), size = hn::Abs(x), z = hn::Mul(x, x);
  const auto ratio = hn::Div(hn::Mul(size, PolynomialOf(d, z, kNumerator)), PolynomialOf(d, z, kDenominator));
  const auto full = hn::Or(hn::Gt(size, hn::Set(d, 9.02f)), hn::Gt(ratio, one));
  return hn::CopySign(hn::IfThenElse(full, one, ratio), x);
}

template <class D>
  requires(sizeof(hn::TFromD<D>) == 8)
HWY_INLINE hn::Vec<D> TanhOf(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::Eq(x, x), hn::Tanh(d, x), x);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
