// Dense arrays over pairs of queries and keys: extents are those of [B, Hq, Nq, Nk], or 1, which serves all.
#ifndef HEED_CORE_BROADCAST_H_
#define HEED_CORE_BROADCAST_H_

#include <array>
#include <cstdint>

#include "core/refuse.h"
#include "core/validation.h"
#include "heed/attention.h"

namespace heed::core {

// The element for a pair.
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

#endif  // HEED_CORE_BROADCAST_H_
