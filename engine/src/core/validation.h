// What is checked of the options of a call, without its arrays.
#ifndef HEED_CORE_VALIDATION_H_
#define HEED_CORE_VALIDATION_H_

#include <array>
#include <cstdint>
#include <string>

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

}  // namespace heed::core

#endif  // HEED_CORE_VALIDATION_H_
