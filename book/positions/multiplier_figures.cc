#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "book/positions/figures.h"

namespace heed::lab {

std::vector<Figure> MultiplierFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words) {
  using namespace fmt::literals;
  const int64_t first = options.first_column, last = std::min(options.last_column, table.rows);
  LinePlot factors{"Score before", "Score after", false, false, {}};
  LinePlot flat{"Distance (positions)", "Factor of the score", false, false, {}};
  for (int64_t head = first; head < last; ++head) {
    const double factor = table.values[static_cast<std::size_t>(head)];
    const std::string name = "Head " + std::to_string(head);
    factors.series.push_back({name, {-4, 0, 4}, {-4 * factor, 0, 4 * factor}, {}, {}});
    flat.series.push_back(CurveOf(name, 0, options.steps, [factor](int64_t) { return factor; }));
  }
  Figure distance = Drawn("temperature-similarity", "The factor of a score against the distance", std::move(flat));
  distance.name = FigureName(table.scheme, "similarity");
  return {{.name = FigureName(table.scheme, "heads"),
           .title = words.subject + StartNote(table, words),
           .caption = PositionTexts()("constant", "caption"_a = CaptionOf(table, words)),
           .command = {},
           .content = std::move(factors),
           .height = 320},
          std::move(distance)};
}

}  // namespace heed::lab
