#include "lab/positions/table.h"

#include <cstddef>

#include "heed/positions.h"

namespace heed::lab {

std::vector<float> EmittedSinusoidal(const PositionsOptions& options) {
  std::vector<float> table(static_cast<std::size_t>(options.steps * options.width));
  SinusoidalTable({}, 0, View<float, 2>::Contiguous(table.data(), {options.steps, options.width}));
  return table;
}

std::vector<float> EmittedAlibi(const PositionsOptions& options) {
  const int64_t offsets = 2 * options.steps - 1;
  std::vector<float> table(static_cast<std::size_t>(options.width * offsets));
  AlibiTable(AlibiSlopes(options.width), options.steps - 1, View<float, 2>::Contiguous(table.data(), {options.width, offsets}));
  return table;
}

}  // namespace heed::lab
