// Of schemes whose rows are added to the input.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include <ATen/ATen.h>

#include "book/positions/scores.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/random_fourier.h"
#include "tests/book/identities/trial.h"

namespace heed::lab {
namespace {

at::Tensor MatrixOf(const SchemeTable& table) {
  return at::tensor(table.values, at::kDouble).view({table.rows, table.columns});
}

// Double [width / 2], those of RandomFourierRows where seed and width are its options'.
at::Tensor RandomFourierFrequencies(int64_t width, uint64_t seed) {
  const SeededGenerator seeded(seed);
  return nn::RandomFourier(width, /*axes=*/1, kFourierScale)->frequencies[0].to(at::kDouble);
}

// Of the mean of cos(2 pi b d) over many frequencies b ~ N(0, scale^2), whose variance is (1 - exp(-(2 pi scale d)^2))^2 / 2.
Identity BellCurve(uint64_t seed) {
  constexpr int64_t kFrequencies = int64_t{1} << 16;
  constexpr double kStandardErrors = 6;  // one seed in some ten million is farther off at one of the distances
  const double width = 1 / (2 * std::numbers::pi * kFourierScale);
  const at::Tensor distances = at::arange(1, 17, at::kDouble) * (width / 4);
  const at::Tensor frequencies = RandomFourierFrequencies(2 * kFrequencies, seed);
  const at::Tensor means = (2 * std::numbers::pi * at::outer(distances, frequencies)).cos().mean(1);
  const at::Tensor kernel = (-2 * (std::numbers::pi * kFourierScale * distances).square()).exp();
  return {"the mean over 65536 frequencies approaches a bell curve: cos(2 pi b d), exp(-2 (pi scale d)^2)",
          (means - kernel).abs().max().item<double>(), kStandardErrors / std::sqrt(2.0 * static_cast<double>(kFrequencies))};
}

}  // namespace

Identities LearnedIdentities(const PositionsOptions&, const SchemeTable& table) {
  const at::NoGradGuard no_grad;
  const int64_t rows = table.rows;
  nn::LearnedPositions learned(table.columns, 0.0, rows, nn::LengthPolicy::kClamp);
  learned->to(at::kDouble);
  learned->eval();
  learned->weight.copy_(MatrixOf(table));
  const at::Tensor nothing = at::zeros({1, rows, table.columns}, at::kDouble);
  const at::Tensor tokens = RandomQueryAndKey(rows, table.columns, /*seed=*/1).query.unsqueeze(0);
  const at::Tensor order = at::arange(rows - 1, -1, -1, at::kLong);
  const auto exactly = [](const std::string& what, const at::Tensor& got, const at::Tensor& expected) {
    Identity identity = Compare(what, got, expected);
    identity.bound = 0;
    return identity;
  };
  return {exactly("a token receives the row of its position, and nothing else", learned->forward(nothing)[0], MatrixOf(table)),
          exactly("tokens in another order with their positions: the same vectors in that order",
                  learned->forward(tokens.index_select(1, order), 0, order), learned->forward(tokens).index_select(1, order)),
          exactly("behind the table, where it is told to clamp, the last row", learned->forward(nothing, rows)[0],
                  learned->weight[rows - 1].expand({rows, -1}))};
}

Identities RandomFourierIdentities(const PositionsOptions& options, const SchemeTable& table) {
  const at::Tensor rows = MatrixOf(table);
  const at::Tensor positions = at::arange(table.rows, at::kDouble).unsqueeze(1) / static_cast<double>(table.rows);
  const at::Tensor angles = 2 * std::numbers::pi * positions * RandomFourierFrequencies(table.columns, options.seed);
  // Up to nine rows, evenly spread, with all of those before them.
  const at::Tensor some = at::linspace(0, table.rows - 1, std::min<int64_t>(9, table.rows), at::kDouble).to(at::kLong);
  const at::Tensor products = rows.index_select(0, some).matmul(rows.t());  // [some, rows]
  const at::Tensor from_first = rows.matmul(rows[0]);
  const at::Tensor distances = (some.unsqueeze(1) - at::arange(table.rows, at::kLong)).abs();
  return {Compare("a row is the cosines and sines of its position's angles: cos(2 pi B x), sin(2 pi B x)", rows,
                  at::cat({angles.cos(), angles.sin()}, 1)),
          Compare("the product of two rows depends on the distance of their positions alone", products,
                  from_first.index_select(0, distances.flatten()).view(products.sizes())),
          BellCurve(options.seed)};
}

}  // namespace heed::lab
