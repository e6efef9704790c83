// Elementary functions in double whose bits depend neither on the C library nor on the processor. They use sums, products,
// quotients and square roots of doubles, each rounded to nearest, in a fixed order. The C library's functions differ in their
// last bits between systems, and between processors of one system.
//
// Errors are below 0.7 units in the last place, those of Sin and Cos below 1.2, of Expm1 below 1, of Tanh and Erf below 2.5,
// and those of Pow below 0.6 + |y log x| / 16. Subnormal results are rounded twice: a quarter of a unit more. Zeros, infinities
// and NaN give the results of the C standard; errno and floating-point flags are unspecified. The rounding mode must be to
// nearest.
#ifndef HEED_PORTABLE_MATH_H_
#define HEED_PORTABLE_MATH_H_

namespace heed::portable {

double Exp(double x);
double Exp2(double x);   // exact where x is whole
double Expm1(double x);  // e^x - 1
double Log(double x);
double Log1p(double x);  // log(1 + x)
double Pow(double x, double y);
double Sin(double x);  // of any finite x, however large
double Cos(double x);
double Tanh(double x);
double Erf(double x);

// For layers, which call them for every number: errors below 0.52 units in the last place, in double with fewer terms.
float Exp(float x);
float Tanh(float x);
float Erf(float x);
inline float Logistic(float x) { return 1.0f / (1.0f + Exp(-x)); }

}  // namespace heed::portable

#endif  // HEED_PORTABLE_MATH_H_
