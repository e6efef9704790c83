// Everything that is checked before a call computes: shapes against each other, lengths, outputs that would overlap.
#ifndef HEED_CORE_VALIDATION_H_
#define HEED_CORE_VALIDATION_H_

#include <string>

#include "heed/attention.h"

namespace heed::core {

// "[2, 4, 16, 64]"
template <int Rank>
std::string ShapeText(const std::array<int64_t, Rank>& extent) {
  std::string text = "[";
  for (int r = 0; r < Rank; ++r) text += (r ? ", " : "") + std::to_string(extent[r]);
  return text + "]";
}

// The product of two sizes; throws InvalidArgument naming `what` when it does not fit in 63 bits.
int64_t CheckedProduct(int64_t a, int64_t b, const char* what);

// The shape of a forward call, after checking every argument. Throws InvalidArgument.
template <class T>
Shape CheckForward(const Attention& attention, const View<const T, 4>& q, const View<const T, 4>& k, const View<const T, 4>& v,
                   const View<T, 4>& out, const View<T, 3>& lse);

// The arrays of a backward call, in the order of the public function.
template <class T>
struct BackwardViews {
  View<const T, 4> q, k, v, out;
  View<const T, 3> lse;
  View<const T, 4> d_out;
  View<T, 4> d_q, d_k, d_v;
  View<T, 2> d_relative_bias;
};

template <class T>
Shape CheckBackward(const Attention& attention, const BackwardViews<T>& views);

// The clipping distance M of a relative bias [Hq, 2M+1].
int64_t MaxDistance(const RelativeBias& bias);

}  // namespace heed::core

#endif  // HEED_CORE_VALIDATION_H_
