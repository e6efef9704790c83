// Dense arrays whose extents are those of [B, Hq, Nq, Nk] or 1.
#ifndef HEED_REFERENCE_DENSE_H_
#define HEED_REFERENCE_DENSE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "heed/attention.h"
#include "reference/formulas.h"

namespace heed::reference {

// Which extents of a dense array are 1: bit 0 the batch, 1 heads, 2 queries, 3 keys. kNoDense: no such array.
constexpr int kNoDense = -1;
// Of an array that a test at any length may hold: one that tells both queries and keys apart is the caller's own n^2.
constexpr int kDenseOfKeys = 0b0100;

inline std::array<int64_t, 4> DenseExtent(const Shape& shape, int ones) {
  std::array<int64_t, 4> extent{shape.batch, shape.q_heads, shape.q_len, shape.kv_len};
  for (std::size_t r = 0; r < 4; ++r)
    if (ones >> r & 1) extent[r] = 1;
  return extent;
}

// The indices of a pair's entry; an extent of 1 serves all.
inline std::array<int64_t, 4> DenseIndex(const std::array<int64_t, 4>& extent, const Pair& pair) {
  std::array<int64_t, 4> at{pair.b, pair.h, pair.i, pair.j};
  for (std::size_t r = 0; r < 4; ++r)
    if (extent[r] == 1) at[r] = 0;
  return at;
}

template <class T>
T Broadcast(const View<const T, 4>& view, const Pair& pair) {
  const auto [b, h, i, j] = DenseIndex(view.extent, pair);
  return view(b, h, i, j);
}

}  // namespace heed::reference

#endif  // HEED_REFERENCE_DENSE_H_
