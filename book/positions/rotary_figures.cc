#include <cmath>
#include <cstddef>
#include <utility>

#include "book/positions/figures.h"
#include "heed/positions.h"

namespace heed::lab {

std::vector<Figure> RotaryFigures(const PositionsOptions& options, const SchemeTable&, const Words&) {
  // Su et al. 2021, section 3.2.2: the frequencies are those of the sinusoidal encoding.
  const std::vector<double> frequencies = SinusoidalFrequencies(options.width);
  const auto pairs = static_cast<int64_t>(frequencies.size());
  Figure map;
  map.name = "positions-rotary-heat-map";
  map.title = "How far rotary positions turn each pair of columns";
  map.caption =
      "The cosine of the angle by position and pair: 1 unturned, -1 turned half around. The first pairs turn by a "
      "radian a position, the last hardly at all.";
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
  map.content = std::move(cosines);
  map.width = 440;
  map.height = 480;
  Figure similarity;
  similarity.name = "positions-rotary-similarity";
  similarity.title = "Score of a constant query and key against their distance";
  similarity.caption =
      "The dot product of two vectors of ones, each turned by its position. It depends on the distance alone, and "
      "is the same for keys before and behind the query.";
  similarity.content = LinePlot{"Distance (positions)", "Dot product before scaling", false, false, {std::move(score)}};
  similarity.height = 320;
  return {map, similarity};
}

std::vector<Figure> FadingFigures(const PositionsOptions& options, const SchemeTable& table, const Words&) {
  Figure map;
  map.name = FigureName(options.scheme, "heat-map");
  map.title = "What is left of each pair of columns at a distance";
  map.caption =
      "The product of a pair of columns with the same pair so many positions before it: turned as rotary positions turn it, "
      "and "
      "faded, the fast pairs at the left soonest.";
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
  map.content = std::move(products);
  map.width = 440;
  map.height = 480;
  Figure similarity;
  similarity.name = FigureName(options.scheme, "similarity");
  similarity.title = "Score of a constant query and key against their distance";
  similarity.caption =
      "The dot product of two vectors of ones, each turned by its position, with a key before the query; towards keys behind "
      "it "
      "products would grow, and causality hides them.";
  similarity.content = LinePlot{"Distance (positions)", "Dot product before scaling", false, false, {std::move(score)}};
  similarity.height = 320;
  return {map, similarity};
}

}  // namespace heed::lab
