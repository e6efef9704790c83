#include "lab/series/csv_sequences.h"

#include <map>
#include <utility>

#include "heed/error.h"

namespace heed::lab {
namespace {

void CheckTimes(const CsvTable& table, const std::vector<int64_t>& rows, int64_t column, const std::vector<double>& times) {
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (times[i] > times[i - 1]) continue;
    throw FileError(table.Place(rows[i], column) + "times of a sequence must increase from row to row");
  }
}

}  // namespace

GroupedRows Grouped(const CsvTable& table, int64_t sequence_column) {
  GroupedRows groups;
  std::map<std::string, std::size_t> place;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::string id = sequence_column < 0 ? "all" : table.Text(row, sequence_column);
    const auto [found, fresh] = place.emplace(id, groups.size());
    if (fresh) groups.push_back({id, {}});
    groups[found->second].second.push_back(row);
  }
  return groups;
}

std::vector<SeriesSequence> SequencesOf(const CsvTable& table, const SequenceColumns& columns, bool has_dates,
                                        const std::function<double(int64_t row)>& target_of) {
  std::vector<SeriesSequence> sequences;
  for (const auto& [id, rows] : Grouped(table, columns.sequence)) {
    SeriesSequence one{id, std::ssize(rows), {}, {}, {}};
    for (const int64_t row : rows) {
      one.rows.push_back(table.Line(row));
      for (const int64_t column : columns.features) one.features.push_back(table.Number(row, column));
      if (columns.time >= 0) one.times.push_back(has_dates ? table.Date(row, columns.time) : table.Number(row, columns.time));
      if (target_of) one.targets.push_back(target_of(row));
    }
    CheckTimes(table, rows, columns.time, one.times);
    sequences.push_back(std::move(one));
  }
  return sequences;
}

}  // namespace heed::lab
