#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "book/positions/figures.h"

namespace heed::lab {

std::vector<Figure> MultiplierFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words) {
  const int64_t first = options.first_column, last = std::min(options.last_column, table.rows);
  LinePlot factors{"Score before", "Score after", false, false, {}};
  LinePlot flat{"Distance (positions)", "Factor of the score", false, false, {}};
  for (int64_t head = first; head < last; ++head) {
    const double factor = table.values[static_cast<std::size_t>(head)];
    const std::string name = "Head " + std::to_string(head);
    factors.series.push_back({name, {-4, 0, 4}, {-4 * factor, 0, 4 * factor}, {}, {}});
    Series level{name, {}, {}, {}, {}};
    for (int64_t distance = 0; distance < options.steps; ++distance) {
      level.x.push_back(static_cast<double>(distance));
      level.y.push_back(factor);
    }
    flat.series.push_back(std::move(level));
  }
  Figure picture;
  picture.name = FigureName(table.scheme, "heads");
  picture.title = words.subject + StartNote(table, words);
  picture.caption = CaptionOf(table, words) + " It is the same wherever query and key stand.";
  picture.content = std::move(factors);
  picture.height = 320;
  Figure distance;
  distance.name = FigureName(table.scheme, "similarity");
  distance.title = "The factor of a score against the distance";
  distance.caption = "The line is level: this scheme does not depend on positions.";
  distance.content = std::move(flat);
  distance.height = 320;
  return {picture, distance};
}

}  // namespace heed::lab
