#include "lab/runs/show.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

namespace heed::lab {

std::string SpreadInWords(int64_t seeds) {
  return seeds == 1 ? "one seed" : fmt::format("mean (least–greatest) of {} seeds", seeds);
}

std::string SpreadNote(int64_t seeds, const std::string& mark) {
  return seeds == 1 ? "One seed." : fmt::format("{} from the least to the greatest of {} seeds.", mark, seeds);
}

Table ScoreTable(const std::string& caption, const Measurements& measured, const Models& models,
                 const std::vector<Heading>& headings) {
  Table table{caption, {"Model", "Parameters"}, {}};
  for (const Heading& heading : headings) table.header.push_back(heading.text);
  for (const SizedContender& model : models) {
    std::vector<std::string> row = {model.Label(), std::to_string(model.parameters)};
    for (const Heading& heading : headings) {
      const Column& column = heading.column;
      row.push_back(measured.Reaches(model, column) ? column.measure.Cell(measured.Over(model, column)) : "n/a");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Figure BarFigure(const Measurements& measured, const Column& column, const std::vector<Reference>& references) {
  const Measure& measure = column.measure;
  BarChart chart{.y_label = measure.label, .bars = {}};
  std::map<std::string, int> families;  // their colours do not depend on the ranks
  for (const Contender& model : measured.models()) families.emplace(model.Family(), static_cast<int>(families.size()));
  const auto add = [&](const std::string& name, const Spread& spread, int group) {
    chart.bars.push_back({name, spread.mean / measure.unit, spread.low / measure.unit, spread.high / measure.unit, group});
  };
  for (const SizedContender& model : measured.Ranked(column))
    add(model.Label(), measured.Over(model, column), families.at(model.Family()));
  for (const Reference& reference : references)
    add(reference.name, {reference.value, reference.value, reference.value}, /*group=*/-1);
  std::string caption = measure.more_is_better ? "Longer is better. " : "Shorter is better. ";
  if (!references.empty())
    caption += references.size() == 1 ? "The last bar needs no model. " : "The last bars need no model. ";
  const int height = std::max(200, 110 + 26 * static_cast<int>(chart.bars.size()));
  return {.name = measure.name,
          .title = measure.label,
          .caption = caption + SpreadNote(measured.seeds(), "The mark at a bar's end reaches"),
          .command = {},
          .content = std::move(chart),
          .width = 680,
          .height = height};
}

Series Curve(const Measurements& measured, const Contender& model, const std::string& measure, const std::string& name) {
  Series series{.name = name, .x = {}, .y = {}, .low = {}, .high = {}};
  for (const Column& column : measured.ColumnsOf(measure)) {
    if (!measured.Reaches(model, column)) continue;
    const Spread spread = measured.Over(model, column);
    series.x.push_back(static_cast<double>(column.at));
    series.y.push_back(spread.mean / column.measure.unit);
    series.low.push_back(spread.low / column.measure.unit);
    series.high.push_back(spread.high / column.measure.unit);
  }
  return series;
}

}  // namespace heed::lab
