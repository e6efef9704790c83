#include "position/relative_bias/scheme.h"

#include <string>

#include "core/refuse.h"

namespace heed::position {

void RelativeBiasScheme::Check(const Attention& attention, const Shape& shape) {
  const auto extent = ExtentOf(attention.relative_bias->table);
  if (extent[0] != shape.q_heads || extent[1] % 2 != 1)
    core::Refuse("relative_bias",
                 "expected [Hq, 2M+1] with Hq = " + std::to_string(shape.q_heads) + ", got " + core::ShapeText(extent));
  CheckOffsetRows("relative_bias", extent[1], kMostOffsets);
  CheckWholePositions("relative_bias", attention);
}

}  // namespace heed::position
