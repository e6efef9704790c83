#include "book/positions/input_rows.h"

#include <ATen/ATen.h>

#include "book/positions/scores.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/random_fourier.h"

namespace heed::lab {
namespace {

nn::RandomFourier StartingFourier(int64_t width, uint64_t seed) {
  const SeededGenerator seeded(seed);
  nn::RandomFourier fourier(width, /*axes=*/1, kFourierScale);
  fourier->to(at::kDouble);
  return fourier;
}

}  // namespace

SchemeTable LearnedRows(const PositionsOptions& options) {
  const SeededGenerator seeded(options.seed);
  return MatrixTable(options.scheme, nn::LearnedPositions(options.width, 0.0, options.steps)->weight);
}

SchemeTable RandomFourierRows(const PositionsOptions& options) {
  const at::Tensor positions = at::arange(options.steps, at::kDouble) / static_cast<double>(options.steps);
  const at::Tensor nothing = at::zeros({1, options.steps, options.width}, at::kDouble);
  return MatrixTable(options.scheme, StartingFourier(options.width, options.seed)->forward(nothing, positions)[0]);
}

}  // namespace heed::lab
