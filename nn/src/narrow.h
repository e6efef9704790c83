// Types that positions are never rounded to.
#ifndef HEED_NN_SRC_NARROW_H_
#define HEED_NN_SRC_NARROW_H_

#include <ATen/core/TensorBase.h>

namespace heed::nn {

// Floating types of fewer than 32 bits: a slope, frequency or angle that is rounded to one is another one at far positions.
inline bool IsNarrow(at::ScalarType type) { return at::isFloatingType(type) && c10::elementSize(type) < sizeof(float); }

// What of a table becomes where its module is cast: the type asked for, its own where that is narrow.
inline at::ScalarType TableType(const at::TensorBase& table, at::ScalarType type) {
  return IsNarrow(type) ? table.scalar_type() : type;
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_NARROW_H_
