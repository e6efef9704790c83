// Sizes that tables are made of, checked before there is memory for one, and types that they are not rounded to.
#ifndef HEED_NN_SRC_SIZES_H_
#define HEED_NN_SRC_SIZES_H_

#include <cstdint>

#include <ATen/core/TensorBase.h>

#include "refuse.h"

namespace heed::nn {

constexpr int64_t kMostSize = int64_t{1} << 24;     // of heads, a width, a distance: beyond any model, and products fit
constexpr int64_t kMostNumbers = int64_t{1} << 31;  // of one table, 8 GiB in float32

inline void CheckSize(const char* module, const char* name, int64_t size, int64_t least = 1) {
  if (size < least) Refuse(module, ": ", name, ": expected at least ", least, ", got ", size);
  if (size > kMostSize) Refuse(module, ": ", name, ": expected at most 2^24, got ", size);
}

// The sizes of the table are checked already; what: that of them which makes it large.
inline void CheckTable(const char* module, const char* what, int64_t rows, int64_t width) {
  if (width > 0 && rows > kMostNumbers / width) {
    Refuse(module, ": ", what, ": expected a table of at most 2^31 numbers, got one of ", rows, " x ", width);
  }
}

// Floating types of fewer than 32 bits: a slope, frequency or angle that is rounded to one is another one at far positions.
inline bool IsNarrow(at::ScalarType type) { return at::isFloatingType(type) && c10::elementSize(type) < sizeof(float); }

// What of a table becomes where its module is cast: the type asked for, its own where that is narrow.
inline at::ScalarType TableType(const at::TensorBase& table, at::ScalarType type) {
  return IsNarrow(type) ? table.scalar_type() : type;
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_SIZES_H_
