// Shapes and numbers as messages show them.
#ifndef HEED_SHAPE_TEXT_H_
#define HEED_SHAPE_TEXT_H_

#include <charconv>
#include <cstdint>
#include <iterator>
#include <string>

namespace heed {

// "[2, 4, 16]", of anything that lists its extents.
template <class Extents>
std::string ShapeText(const Extents& extents) {
  std::string text = "[";
  for (const int64_t extent : extents) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

// The fewest digits that tell a number from its neighbours: "0", "1.5", "1e+101".
inline std::string NumberText(double number) {
  char text[32] = {};
  const char* const end = std::to_chars(std::begin(text), std::end(text), number).ptr;
  return std::string(static_cast<const char*>(text), end);
}

}  // namespace heed

#endif  // HEED_SHAPE_TEXT_H_
