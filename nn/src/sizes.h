// Sizes that tables are made of, checked before there is memory for one.
#ifndef HEED_NN_SRC_SIZES_H_
#define HEED_NN_SRC_SIZES_H_

#include <cstdint>

#include "refuse.h"

namespace heed::nn {

constexpr int64_t kMostSize = int64_t{1} << 24;     // of heads, a width, a distance: beyond any model, and products fit
constexpr int64_t kMostNumbers = int64_t{1} << 31;  // of one table, 8 GiB in float32

inline void CheckSize(const char* module, const char* name, int64_t size) {
  if (size > kMostSize) Refuse(module, ": ", name, ": expected at most 2^24, got ", size);
}

// The sizes of the table are checked already; what: that of them which makes it large.
inline void CheckTable(const char* module, const char* what, int64_t rows, int64_t width) {
  if (width > 0 && rows > kMostNumbers / width) {
    Refuse(module, ": ", what, ": expected a table of at most 2^31 numbers, got one of ", rows, " x ", width);
  }
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_SIZES_H_
