#include "position/contextual_position/scheme.h"

#include <cmath>
#include <sstream>
#include <string>

#include "core/refuse.h"

namespace heed::position {
namespace {

// Vectors of float hold the places of products, rows times lanes.
constexpr int64_t kMostRows = int64_t{1} << 18;
// Queries come times the scale, and products with rows are divided by it again: its inverse is a float.
constexpr double kLeastScale = 0x1p-100;

}  // namespace

void ContextualPositionScheme::Check(const Attention& attention, const Shape& shape) {
  constexpr const char* kName = "contextual_position.table";
  const auto extent = ExtentOf(attention.contextual_position->table);
  if (extent[0] < 1 || extent[1] != shape.head_dim)
    core::Refuse(kName, "expected [P, D] with P of 1 or more and D = " + std::to_string(shape.head_dim) + ", got " +
                            core::ShapeText(extent));
  if (extent[0] > kMostRows) core::Refuse(kName, "expected at most 2^18 positions, got " + std::to_string(extent[0]));
  const double scale = attention::ScaleOf(attention, shape);
  if (std::abs(scale) < kLeastScale) {
    std::ostringstream why;
    why << "expected a size of at least 2^-100 beside contextual_position, got " << scale;
    core::Refuse("scale", why.str());
  }
}

}  // namespace heed::position
