#include "book/positions/table.h"

#include <cstddef>

#include "heed/positions.h"
#include "heed/rotary.h"

namespace heed::lab {

std::vector<float> EmittedSinusoidal(const PositionsOptions& options) {
  std::vector<float> table(static_cast<std::size_t>(options.steps * options.width));
  SinusoidalTable({}, 0, View<float, 2>::Contiguous(table.data(), {options.steps, options.width}));
  return table;
}

std::vector<float> EmittedRotary(const PositionsOptions& options) {
  const int64_t pairs = options.width / 2, count = options.steps * pairs;
  std::vector<float> cosines(count), sines(count), table(2 * count);
  const auto view = [&](std::vector<float>& values) {
    return View<float, 2>::Contiguous(values.data(), {options.steps, pairs});
  };
  RotaryTable(ComputeRotaryFrequencies({.rotary_dim = options.width}), 0, view(cosines), view(sines));
  for (int64_t i = 0; i < count; ++i) table[2 * i] = sines[i], table[2 * i + 1] = cosines[i];
  return table;
}

}  // namespace heed::lab
