// Everything that is checked before a call computes: shapes against each other, options, outputs that would overlap.
#ifndef HEED_CORE_VALIDATION_H_
#define HEED_CORE_VALIDATION_H_

#include <string>

#include "core/operand.h"
#include "heed/attention.h"

namespace heed::core {

// "[2, 4, 16, 64]"
template <std::size_t Rank>
std::string ShapeText(const std::array<int64_t, Rank>& extent) {
  std::string text = "[";
  for (std::size_t r = 0; r < Rank; ++r) text += (r ? ", " : "") + std::to_string(extent[r]);
  return text + "]";
}

// The options that belong to a shape; throws InvalidArgument. See core/options.cc.
void CheckOptions(const Attention& attention, const Shape& shape);

// The probability and the sign of the batch offset.
void CheckDropout(const Dropout& dropout);
// Also that the generator tells `count` elements of an array apart from each other and from those of other batch offsets.
void CheckElementCounters(const Dropout& dropout, int64_t count);
// A shape that a caller describes without arrays: extents that could be those of a call. Throws InvalidArgument.
void CheckDescribed(const Attention& attention, const Shape& shape);

// How many queries and keys the arrays hold in all, and the longest sequence of each. Throws InvalidArgument.
struct PackedSize {
  int64_t queries = 0, keys = 0, longest_queries = 0, longest_keys = 0, batch = 0;
};
PackedSize CheckPacked(const Packed& packed);

// The arrays of a call without their types. T is the type of lse, statistics and tables.
template <class T>
struct ForwardArrays {
  Input q, k, v;
  Output out;
  View<T, 3> lse;
  Statistics<T> statistics;
  Output remainder;
  View<T, 3> correction;
};

template <class T>
struct BackwardArrays {
  Input q, k, v, out;
  View<const T, 3> lse;
  Input d_out;
  View<const T, 3> d_lse;
  Input remainder;
  View<const T, 3> correction;
  Output d_q, d_k, d_v;
  BiasGradients<T> d_biases;
};

template <class T>
struct WeightsArrays {
  Input q, k;
  View<const T, 3> lse;
  View<const int64_t, 1> heads, rows;
  View<T, 4> weights;
};

// The shape of a call, after checking every argument: for packed sequences batch counts them and lengths are the longest.
// Throws InvalidArgument.
template <class T>
Shape CheckForward(const Attention& attention, const ForwardArrays<T>& arrays);
template <class T>
Shape CheckBackward(const Attention& attention, const BackwardArrays<T>& arrays);
template <class T>
Shape CheckWeights(const Attention& attention, const WeightsArrays<T>& arrays);

}  // namespace heed::core

#endif  // HEED_CORE_VALIDATION_H_
