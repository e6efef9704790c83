#include "position/scheme.h"

#include <cmath>
#include <string>

#include "core/refuse.h"

namespace heed::position {
namespace {

void CheckWhole(const char* scheme, const char* name, const Positions& positions) {
  const auto* list = std::get_if<View<const double, 2>>(&positions.list);
  if (!list) return;
  for (int64_t b = 0; b < list->extent[0]; ++b)
    for (int64_t t = 0; t < list->extent[1]; ++t)
      if ((*list)(b, t) != std::floor((*list)(b, t)))
        core::Refuse(name, std::string(scheme) + " is a table by whole offsets, but position " + std::to_string(t) + " is " +
                               std::to_string((*list)(b, t)));
}

}  // namespace

void CheckOffsetRows(const char* name, int64_t rows, int64_t most) {
  if (rows > most)
    core::Refuse(name, "expected a table of at most " + std::to_string(most) + " offsets, got " + std::to_string(rows));
}

void CheckWholePositions(const char* scheme, const Attention& attention) {
  CheckWhole(scheme, "query_positions", attention.query_positions);
  CheckWhole(scheme, "key_positions", attention.key_positions);
}

}  // namespace heed::position
