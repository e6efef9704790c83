// The product of any number of rows with one matrix, for linear layers.
#ifndef HEED_PACKED_MATRIX_H_
#define HEED_PACKED_MATRIX_H_

#include <cstdint>

#include "heed/executor.h"
#include "heed/view.h"
#include "heed/workspace.h"

namespace heed {

// A matrix W [out, in] of floats, copied once into panels of neighbouring rows of W side by side in SIMD lanes, the order in
// which the product reads it. Several threads may read it at once.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // w may have any strides and extents of 0. Throws InvalidArgument, naming w, before it allocates anything.
  explicit PackedMatrix(View<const float, 2> w);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

  // y[r, o] = bias[o] + sum over i of W[o, i] x[r, i]
  //   x     [rows, in], any strides
  //   bias  [out], or absent
  //   y     [rows, out], any strides; distinct elements, apart from x, bias and W
  // Sums run in the order of i, in float, so a row of y depends neither on other rows nor on the number of threads. Throws
  // InvalidArgument, naming the argument and both shapes, before it writes anything.
  void Multiply(View<const float, 2> x, View<const float, 1> bias, View<float, 2> y, Executor& executor) const;

 private:
  int64_t in_ = 0, out_ = 0;
  Workspace panels_;
};

}  // namespace heed

#endif  // HEED_PACKED_MATRIX_H_
