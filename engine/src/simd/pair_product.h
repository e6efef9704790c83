// Products of bfloat16 numbers that are summed in float, two steps at a time: what the processor does where it has such an
// instruction, and the same to the bit elsewhere (simd/pair_product-inl.h).
//
// A pair is added as VDPBF16PS defines it: the product of the odd step first, then that of the even step, each a fused
// multiply-add that rounds to nearest and takes what is smaller than the smallest normal number for 0. Products of two bfloat16
// numbers are exact in float. A factor is taken in the same way.
#ifndef HEED_SIMD_PAIR_PRODUCT_H_
#define HEED_SIMD_PAIR_PRODUCT_H_

#include <atomic>
#include <cstdint>

#include "simd/ahead.h"

namespace heed::simd {

// Operands lie in pairs where calls use the processor's instruction, and elsewhere as floats, step by step: widened once, they
// are multiplied as all others are, in the order of pairs.

// A as scalars. In pairs: steps 2s and 2s + 1 of a row are the neighbours at data[row * row_stride + s * step_stride], 16 bits
// each. In floats: step s is at data[row * row_stride + s * step_stride].
struct PairScalars {
  const void* data;
  int64_t row_stride, step_stride;
};

// B as rows of vectors, `stride` columns apart, of 4 bytes each. In pairs: row s has steps 2s, in the lower half of a pair, and
// 2s + 1 of all columns; behind an odd number of steps the upper half is 0. In floats: row s has step s.
struct PairVectors {
  const void* data;
  int64_t stride;
};

// C = start + factor * A * B, where start is 0 or what C holds.
struct PairTarget {
  float* data;
  int64_t stride;
  bool accumulates;
  float factor = 1;
};

// C[rows, width] of `steps` steps. width: a multiple of 16.
struct PairSize {
  int64_t rows, steps, width;
};

// Whether this processor multiplies pairs.
bool HasPairProducts();
// Whether calls let it: as MachineInUse() says, unless told otherwise. Kernels ask for every product, so the answer is kept in
// two numbers: whether MachineInUse() was asked, and what it said.
extern std::atomic<bool> decided_on_pairs, pairs_in_use;
bool DecideOnPairs();
inline bool UsesPairProducts() {
  return decided_on_pairs.load(std::memory_order_acquire) ? pairs_in_use.load(std::memory_order_relaxed) : DecideOnPairs();
}
// For tests; not while other threads compute.
void UsePairProducts(bool use);

// What follows is only for processors that have it; kernels call simd/pair_product-inl.h.

// Behind an odd number of steps the second element of A's last pair is not read.
void MultiplyPairs(PairScalars a, PairVectors b, PairSize size, PairTarget c, Ahead& ahead);

// A tile of floats rounded to bfloat16, to nearest, ties to even, as pairs of its rows and as it is; numbers smaller than the
// smallest normal one become 0. One of both may be null. Rows are as far apart as those of the tile.
struct RoundedTile {
  uint32_t* pairs;  // [rows / 2 rounded up, width]; an odd number of rows is followed by one of zeros
  uint16_t* rows;   // [rows, width]
};
// width: a multiple of 16.
void RoundPairs(const float* tile, int64_t stride, int64_t rows, int64_t width, const RoundedTile& rounded);

}  // namespace heed::simd

#endif  // HEED_SIMD_PAIR_PRODUCT_H_
