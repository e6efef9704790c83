// The operations of a layer's scalar, for plain numbers; counted.h has the same for scalars that count.
#ifndef HEED_BOOK_COMPARISON_SCALAR_H_
#define HEED_BOOK_COMPARISON_SCALAR_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "book/comparison/tally.h"

namespace heed::lab {

// A factor of an inner product: number (r, c) lies at first[r * row_stride + c * stride].
template <class Scalar>
struct Operand {
  explicit Operand(const Scalar* first_, int64_t stride_ = 1, int64_t row_stride_ = 0)
      : first(first_), stride(stride_), row_stride(row_stride_) {}

  const Scalar* first;
  int64_t stride, row_stride;
};

// The sum over all rows and columns of a * b: multiply-adds, and one reduction.
inline double Dot(Term, const Operand<double>& a, const Operand<double>& b, int64_t columns, int64_t rows = 1) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = a.first + r * a.row_stride, *y = b.first + r * b.row_stride;
    for (int64_t c = 0; c < columns; ++c) sum += x[c * a.stride] * y[c * b.stride];
  }
  return sum;
}
inline double MultiplyAdd(Term, double a, double b, double c) { return a * b + c; }
inline double Sum(std::span<const double> terms) {
  double sum = terms[0];
  for (double term : terms.subspan(1)) sum += term;
  return sum;
}
inline double Max(std::span<const double> terms) { return *std::max_element(terms.begin(), terms.end()); }
inline double Exp(double x) { return std::exp(x); }
inline double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double Tanh(double x) { return std::tanh(x); }
inline double Softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }  // as PyTorch's
inline double InverseRoot(double x) { return 1 / std::sqrt(x); }

// The value as (part of) what `position` holds from now on.
inline double NewState(double value, int64_t /*position*/) { return value; }

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_SCALAR_H_
