#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>

#include "book/positions/figures.h"
#include "heed/positions.h"

namespace heed::lab {
namespace {

constexpr char kScore[] = "Score of a constant query and key against their distance";

// Of pairs of ones, `distance` positions apart: the product of each pair of columns, sines cancelling, and their sum, the
// score.
std::pair<HeatMap, LinePlot> PairsOfOnes(const std::string& rows, int64_t distances, int64_t pairs,
                                         const std::function<double(int64_t distance, int64_t pair)>& product) {
  HeatMap products{"Pair of columns", rows, distances, pairs, {}};
  Series score = CurveOf("", 0, distances, [&](int64_t distance) {
    double sum = 0;
    for (int64_t pair = 0; pair < pairs; ++pair) sum += 2 * products.values.emplace_back(product(distance, pair));
    return sum;
  });
  LinePlot plot{"Distance (positions)", "Dot product before scaling", false, false, {std::move(score)}};
  return {std::move(products), std::move(plot)};
}

}  // namespace

std::vector<Figure> RotaryFigures(const PositionsOptions& options, const SchemeTable&, const Words&) {
  // Su et al. 2021, section 3.2.2: the frequencies are those of the sinusoidal encoding.
  const std::vector<double> frequencies = SinusoidalFrequencies(options.width);
  auto [cosines, score] = PairsOfOnes("Position", options.steps, std::ssize(frequencies), [&](int64_t position, int64_t pair) {
    return std::cos(static_cast<double>(position) * frequencies[static_cast<std::size_t>(pair)]);
  });
  return {Drawn("rotary-heat-map", "How far rotary positions turn each pair of columns", std::move(cosines)),
          Drawn("rotary-similarity", kScore, std::move(score))};
}

std::vector<Figure> FadingFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  auto [products, score] = PairsOfOnes("Distance (positions)", table.columns, table.rows, [&](int64_t distance, int64_t pair) {
    return table.values[static_cast<std::size_t>(pair * table.columns + distance)];
  });
  return {Drawn("xpos-heat-map", "What is left of each pair of columns at a distance", std::move(products)),
          Drawn("xpos-similarity", kScore, std::move(score))};
}

}  // namespace heed::lab
