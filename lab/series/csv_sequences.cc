#include "lab/series/csv_sequences.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed::lab {
namespace {

void CheckTimes(const CsvTable& table, const std::vector<int64_t>& rows, int64_t column, const std::vector<double>& times) {
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (times[i] > times[i - 1]) continue;
    throw FileError(table.Place(rows[i], column) +
                    "times of a sequence must increase from row to row; sort the file by it. Where sequences are "
                    "mixed, heed study needs the column that tells them apart (--sequence)");
  }
}

// The numbers of rows, see heed::FillFeatures.
class NumbersOfRows {
 public:
  NumbersOfRows(const CsvTable& table, const SequenceColumns& columns, const SeriesData& data, LaterCells* later)
      : table_(table), columns_(columns), names_(data.marks.Categories()), known_(names_.size()), later_(later) {
    for (const std::string& feature : data.features) {
      const auto found = std::ranges::find(data.marks.gaps, feature);
      mark_.push_back(found == data.marks.gaps.end() ? -1 : found - data.marks.gaps.begin());
    }
    gaps_ = std::ssize(data.marks.gaps);
    for (std::size_t i = 0; i < data.marks.category_names.size(); ++i) {
      const auto column = std::ranges::find(names_, data.marks.category_columns[i]) - names_.begin();
      known_[column].emplace(data.marks.category_names[i], static_cast<double>(known_[column].size()));
    }
  }

  void Append(int64_t row, std::vector<double>& numbers) const {
    const std::size_t marks = numbers.size() + mark_.size();
    for (std::size_t f = 0; f < mark_.size(); ++f) numbers.push_back(Feature(row, f));
    numbers.resize(marks + gaps_, 0.0);
    for (std::size_t f = 0; f < mark_.size(); ++f) {
      if (mark_[f] >= 0) numbers[marks + mark_[f]] = std::isnan(numbers[marks - mark_.size() + f]) ? 1 : 0;
    }
    for (std::size_t c = 0; c < known_.size(); ++c) numbers.push_back(Category(row, c));
  }

 private:
  double Feature(int64_t row, std::size_t feature) const {
    const int64_t column = columns_.features[feature];
    if (!table_.Missing(row, column)) return table_.Number(row, column);
    if (mark_[feature] >= 0) return Gap(row, column, /*of_text=*/false);
    throw FileError(table_.Place(row, column) +
                    "the value is missing, which the model has not met in this column; fill it in, or train on data with gaps");
  }
  double Gap(int64_t row, int64_t column, bool of_text) const {
    if (later_ != nullptr) later_->AddGap(table_.columns()[column], table_.Line(row), of_text);
    return NAN;
  }
  double Category(int64_t row, std::size_t which) const {
    const int64_t column = columns_.texts[which];
    if (table_.Missing(row, column)) return Gap(row, column, /*of_text=*/true);
    const std::string& cell = table_.Cell(row, column);
    const auto found = known_[which].find(cell);
    if (found != known_[which].end()) return found->second;
    if (later_ != nullptr && later_->takes_new()) {
      later_->AddNew(names_[which], table_.Line(row), cell);
      return NAN;
    }
    std::vector<std::string> names;
    for (const auto& [name, index] : known_[which]) names.push_back(ShownName(name));
    throw FileError(
        fmt::format("{}'{}' is no category of the model, which knows {}; write one of them, or give --new-categories "
                    "as-missing, which counts it as an empty cell",
                    table_.Place(row, column), ShownName(cell), fmt::join(names, ", ")));
  }

  const CsvTable& table_;
  const SequenceColumns& columns_;
  std::vector<std::string> names_;
  std::vector<std::map<std::string, double>> known_;  // of each column of text
  std::vector<int64_t> mark_;                         // of each feature the place of its mark, or -1
  int64_t gaps_;
  LaterCells* later_;
};

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

std::vector<SeriesSequence> SequencesOf(const CsvTable& table, const SequenceColumns& columns, const SeriesData& data,
                                        const std::function<double(int64_t row)>& target_of, LaterCells* later) {
  const DateOrder order = ParseDateOrder(data.date_order);
  const NumbersOfRows numbers(table, columns, data, later);
  if (later != nullptr) later->AddRows(table.rows());
  std::vector<SeriesSequence> sequences;
  for (const auto& [id, rows] : Grouped(table, columns.sequence)) {
    SeriesSequence one{id, std::ssize(rows), {}, {}, {}};
    for (const int64_t row : rows) {
      one.rows.push_back(table.Line(row));
      numbers.Append(row, one.features);
      if (columns.time >= 0)
        one.times.push_back(data.has_dates ? table.Date(row, columns.time, order) : table.Number(row, columns.time));
      if (target_of) one.targets.push_back(target_of(row));
    }
    CheckTimes(table, rows, columns.time, one.times);
    data.CarryForward(one);
    sequences.push_back(std::move(one));
  }
  return sequences;
}

}  // namespace heed::lab
