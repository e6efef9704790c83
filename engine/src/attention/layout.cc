#include "attention/plan.h"
#include "simd/tuning.h"

namespace heed::attention {

bool HasFewQueries(const Shape& shape) {
  return shape.q_len <= simd::kFewQueries && HeadsOfKeyHead(shape) * shape.q_len <= simd::kFewQueries;
}

Layout LayoutOf(const Attention& attention, const Shape& shape, core::Element element, bool tangents) {
  if (tangents) return Layout::kLanes;
  if (HasFewQueries(shape)) return Layout::kRows;
  if (element != core::Element::kBFloat16) return Layout::kLanes;
  return attention.precision == Precision::kFused ? Layout::kRoundedPairs : Layout::kPairs;
}

}  // namespace heed::attention
