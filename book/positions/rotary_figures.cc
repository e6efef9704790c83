#include <cmath>
#include <cstddef>
#include <utility>

#include "book/positions/figures.h"
#include "heed/positions.h"

namespace heed::lab {
namespace {

LinePlot ScoreByDistance(Series score) {
  return {"Distance (positions)", "Dot product before scaling", false, false, {std::move(score)}};
}

}  // namespace

std::vector<Figure> RotaryFigures(const PositionsOptions& options, const SchemeTable&, const Words&) {
  // Su et al. 2021, section 3.2.2: the frequencies are those of the sinusoidal encoding.
  const std::vector<double> frequencies = SinusoidalFrequencies(options.width);
  const auto pairs = static_cast<int64_t>(frequencies.size());
  HeatMap cosines{"Pair of columns", "Position", options.steps, pairs, {}};
  Series score{"", {}, {}, {}, {}};
  for (int64_t position = 0; position < options.steps; ++position) {
    double sum = 0;
    for (const double frequency : frequencies) {
      const double cosine = std::cos(static_cast<double>(position) * frequency);
      cosines.values.push_back(cosine);
      sum += 2 * cosine;  // a pair of ones with a pair of ones turned by the angle
    }
    score.x.push_back(static_cast<double>(position));
    score.y.push_back(sum);
  }
  return {Drawn("rotary-heat-map", "How far rotary positions turn each pair of columns", std::move(cosines)),
          Drawn("rotary-similarity", "Score of a constant query and key against their distance",
                ScoreByDistance(std::move(score)))};
}

std::vector<Figure> FadingFigures(const PositionsOptions&, const SchemeTable& table, const Words&) {
  HeatMap products{"Pair of columns", "Distance (positions)", table.columns, table.rows, {}};
  Series score{"", {}, {}, {}, {}};
  for (int64_t distance = 0; distance < table.columns; ++distance) {
    double sum = 0;
    for (int64_t pair = 0; pair < table.rows; ++pair) {
      const double product = table.values[static_cast<std::size_t>(pair * table.columns + distance)];
      products.values.push_back(product);
      sum += 2 * product;  // a pair of ones with a pair of ones: sines cancel
    }
    score.x.push_back(static_cast<double>(distance));
    score.y.push_back(sum);
  }
  return {
      Drawn("xpos-heat-map", "What is left of each pair of columns at a distance", std::move(products)),
      Drawn("xpos-similarity", "Score of a constant query and key against their distance", ScoreByDistance(std::move(score)))};
}

}  // namespace heed::lab
