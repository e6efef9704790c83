#include "position/slope_bias/scheme.h"

#include <string>

#include "core/refuse.h"

namespace heed::position {

void SlopeBiasScheme::Check(const Attention& attention, const Shape& shape) {
  const auto extent = ExtentOf(attention.slope_bias->slopes);
  if (extent[0] != shape.q_heads)
    core::Refuse("slope_bias", "expected one slope for each of " + std::to_string(shape.q_heads) + " query heads, got " +
                                   core::ShapeText(extent));
}

}  // namespace heed::position
