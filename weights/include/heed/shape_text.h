// Shapes as messages show them.
#ifndef HEED_SHAPE_TEXT_H_
#define HEED_SHAPE_TEXT_H_

#include <cstdint>
#include <string>

namespace heed {

// "[2, 4, 16]", of anything that lists its extents.
template <class Extents>
std::string ShapeText(const Extents& extents) {
  std::string text = "[";
  for (const int64_t extent : extents) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

}  // namespace heed

#endif  // HEED_SHAPE_TEXT_H_
