// 2^x for softmax: polynomial on [-1/2, 1/2], exponent by integer arithmetic. Body and tail of every loop use this one
// function. And tanh, for soft-caps and programs.
#if defined(HEED_SIMD_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_EXP2_INL_H_
#undef HEED_SIMD_EXP2_INL_H_
#else
#define HEED_SIMD_EXP2_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "simd/capabilities-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Polynomials of 2^f on [-1/2, 1/2] that are exactly 1 at 0, so that rescaling by 2^0 changes nothing; the rest of their
// coefficients minimises the largest error relative to 2^f (Remez algorithm in 40 digits): 1.0e-7 (float, degree 5) and 3.1e-18
// (double, degree 11). times: a power of two, by which all coefficients are multiplied.
template <int kTimes = 1, class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE hn::Vec<D> Exp2Polynomial(D d, hn::Vec<D> f) {
  hn::Vec<D> p = hn::Set(d, kTimes * 0.0013264729641377926f);
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 0.009671512991189957f));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 0.05550732836127281f));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 0.24022243916988373f));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 0.6931470036506653f));
  return hn::MulAdd(p, f, hn::Set(d, kTimes * 1.0f));
}

template <int kTimes = 1, class D>
  requires(sizeof(hn::TFromD<D>) == 8)
HWY_INLINE hn::Vec<D> Exp2Polynomial(D d, hn::Vec<D> f) {
  hn::Vec<D> p = hn::Set(d, kTimes * 4.4352809446103361611e-10);
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 7.0741056262456593708e-9));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 1.0178198033328527662e-7));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 1.3215433089594629037e-6));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 1.52527334899608046e-5));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 1.5403530462514613026e-4));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 0.0013333558146789950323));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 0.0096181291075883350833));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 0.055504108664819921483));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 0.24022650695910156205));
  p = hn::MulAdd(p, f, hn::Set(d, kTimes * 0.69314718055994533046));
  return hn::MulAdd(p, f, hn::Set(d, kTimes * 1.0));
}

// p * 2^round(x) given f = x - round(x). Adding `magic`, 1.5 * 2^(mantissa bits) plus the exponent's bias less 1, rounds x and
// leaves the exponent in the low bits, 1 too low. An even magic rounds halves to even numbers, as vrndscale does; the missing
// factor of 2 is exact. The power of two is multiplied, not added to the exponent, so that NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> Exp2Portable(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  constexpr int kMantissa = hwy::MantissaBits<T>();
  const hn::Vec<D> magic = hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 12582912.0 + 126 : 6755399441055744.0 + 1022));
  const hn::Vec<D> shifted = hn::Add(x, magic);
  const hn::Vec<D> f = hn::Sub(x, hn::Sub(shifted, magic));
  const hn::Vec<D> power = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::BitCast(du, shifted)));
  return hn::Mul(Exp2Polynomial<2>(d, f), power);
}

// Weights below this power of two become exactly 0: denormals would cost a hundred times the time, and next to the largest
// weight of a row (at least 2^-8 of the reference) they are far below rounding.
constexpr double kSmallestExponent = -100.0;

// 2^x for x <= about 100; exactly 1 for 0, 0 for x < -100, NaN for NaN.
template <class D>
HWY_INLINE hn::Vec<D> PowerOfTwo(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  const hn::Vec<D> smallest = hn::Set(d, static_cast<T>(kSmallestExponent));
#if HEED_SIMD_AVX512
  // vrndscale and vscalef do in two instructions what takes five portable ones; Highway wraps neither.
  if constexpr (sizeof(T) == 4 && hn::MaxLanes(D()) == 16) {
    const hn::Vec<D> whole{_mm512_roundscale_ps(x.raw, 0)};
    const hn::Vec<D> p = Exp2Polynomial(d, hn::Sub(x, whole));
    const __mmask16 large = _mm512_cmp_ps_mask(x.raw, smallest.raw, _CMP_NLT_UQ);
    return hn::Vec<D>{_mm512_maskz_scalef_ps(large, p.raw, whole.raw)};
  } else if constexpr (sizeof(T) == 8 && hn::MaxLanes(D()) == 8) {
    const hn::Vec<D> whole{_mm512_roundscale_pd(x.raw, 0)};
    const hn::Vec<D> p = Exp2Polynomial(d, hn::Sub(x, whole));
    const __mmask8 large = _mm512_cmp_pd_mask(x.raw, smallest.raw, _CMP_NLT_UQ);
    return hn::Vec<D>{_mm512_maskz_scalef_pd(large, p.raw, whole.raw)};
  } else {
    return hn::IfThenZeroElse(hn::Lt(x, smallest), Exp2Portable(d, x));
  }
#else
  return hn::IfThenZeroElse(hn::Lt(x, smallest), Exp2Portable(d, x));
#endif
}

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
