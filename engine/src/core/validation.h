// What is checked of the options of a call, and of dense arrays over pairs.
#ifndef HEED_CORE_VALIDATION_H_
#define HEED_CORE_VALIDATION_H_

#include <array>
#include <cstdint>
#include <string>

#include "core/refuse.h"
#include "heed/attention.h"

namespace heed::core {

// "[2, 4, 16, 64]"
template <std::size_t Rank>
std::string ShapeText(const std::array<int64_t, Rank>& extent) {
  std::string text = "[";
  for (std::size_t r = 0; r < Rank; ++r) text += (r ? ", " : "") + std::to_string(extent[r]);
  return text + "]";
}

// The options that belong to a shape, but for those of positional schemes; throws InvalidArgument.
void CheckOptions(const Attention& attention, const Shape& shape);

// The probability and the sign of the batch offset.
void CheckDropout(const Dropout& dropout);
// Also that the generator tells `count` elements of an array apart from each other and from those of other batch offsets.
void CheckElementCounters(const Dropout& dropout, int64_t count);
// Lengths [B, 1], or [B, Nq] with q_len queries, each from 0 to limit; or none. Throws InvalidArgument, as does what follows.
void CheckLengths(const char* name, const Lengths& lengths, int64_t batch, int64_t q_len, int64_t limit);
// Returns the tokens of all sequences, of their cumulative lengths; raises `longest` to those of the longest sequence.
int64_t CheckOffsets(const char* name, const View<const int64_t, 1>& offsets, int64_t& longest);
// How many queries and keys the arrays hold in all, and the longest sequence of each. Throws InvalidArgument.
struct PackedSize {
  int64_t queries = 0, keys = 0, longest_queries = 0, longest_keys = 0, batch = 0;
};
PackedSize CheckPacked(const Packed& packed);

// Of dense arrays over pairs of queries and keys, whose extents are those of [B, Hq, Nq, Nk], or 1, which serves all: the
// element for a pair.
template <class T>
const T& Broadcast(const View<const T, 4>& view, int64_t b, int64_t h, int64_t i, int64_t j) {
  const auto fit = [&](int r, int64_t index) { return view.extent[r] == 1 ? 0 : index; };
  return view(fit(0, b), fit(1, h), fit(2, i), fit(3, j));
}

// Throws InvalidArgument.
template <class Array>
void CheckBroadcast(const char* name, const Array& array, const Shape& shape) {
  const std::array<int64_t, 4> full{shape.batch, shape.q_heads, shape.q_len, shape.kv_len};
  const auto& extent = array.extent;
  for (std::size_t r = 0; r < 4; ++r)
    if (extent[r] != full[r] && extent[r] != 1)
      Refuse(name, "expected extents of [B, Hq, Nq, Nk] = " + ShapeText(full) + " or 1, got " + ShapeText(extent));
}

}  // namespace heed::core

#endif  // HEED_CORE_VALIDATION_H_
