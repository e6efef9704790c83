#include "lab/series/csv_sequences.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "heed/shown_name.h"
#include "lab/series/columns.h"

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
      : table_(table),
        columns_(columns),
        data_(data),
        from_features_(data.TargetFeature() >= 0),
        names_(data.marks.Categories()),
        known_(names_.size()),
        later_(later) {
    for (std::size_t c = 0; c < data.classes.size(); ++c) classes_.emplace(data.classes[c], static_cast<double>(c));
    for (const std::string& feature : data.features) {
      const auto found = std::ranges::find(data.marks.gaps, feature);
      mark_.push_back(found == data.marks.gaps.end() ? -1 : found - data.marks.gaps.begin());
    }
    for (std::size_t i = 0; i < data.marks.category_names.size(); ++i) {
      const auto column = std::ranges::find(names_, data.marks.category_columns[i]) - names_.begin();
      known_[column].emplace(data.marks.category_names[i], static_cast<double>(known_[column].size()));
    }
  }

  void Append(int64_t row, std::vector<double>& numbers) const {
    const std::size_t marks = numbers.size() + mark_.size();
    for (std::size_t f = 0; f < mark_.size(); ++f) numbers.push_back(Feature(row, f));
    numbers.resize(marks + data_.marks.gaps.size(), 0.0);
    for (std::size_t f = 0; f < mark_.size(); ++f) {
      if (mark_[f] >= 0) numbers[marks + mark_[f]] = std::isnan(numbers[marks - mark_.size() + f]) ? 1 : 0;
    }
    for (std::size_t c = 0; c < known_.size(); ++c) numbers.push_back(Category(row, c));
  }

  double Target(int64_t row) const {
    const int64_t column = columns_.target;
    if (from_features_) return NAN;
    if (classes_.empty()) return table_.Number(row, column);
    const auto found = classes_.find(table_.Text(row, column));
    if (found != classes_.end()) return found->second;
    throw FileError(fmt::format("{}'{}' is no class of the model, which knows {}", table_.Place(row, column),
                                ShownName(table_.Text(row, column)), fmt::join(data_.classes, ", ")));
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
  const SeriesData& data_;
  bool from_features_;  // whether the target is one of them, whose values it then has
  std::vector<std::string> names_;
  std::vector<std::map<std::string, double>> known_;  // of each column of text
  std::vector<int64_t> mark_;                         // of each feature the place of its mark, or -1
  std::map<std::string, double> classes_;             // of the target
  LaterCells* later_;
};

constexpr int64_t kMostTexts = 6;  // that are named of a column

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
                                        LaterCells* later) {
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
      if (columns.target >= 0) one.targets.push_back(numbers.Target(row));
    }
    CheckTimes(table, rows, columns.time, one.times);
    data.CarryForward(one);
    sequences.push_back(std::move(one));
  }
  return sequences;
}

void FindGaps(const std::vector<double>& values, SeriesData& data) {
  const int64_t width = std::ssize(data.features), steps = std::ssize(values) / width;
  for (int64_t f = 0; f < width; ++f) {
    int64_t missing = 0;
    for (int64_t step = 0; step < steps; ++step) missing += std::isnan(values[step * width + f]) ? 1 : 0;
    if (missing == 0) continue;
    if (missing == steps) throw FileError(data.name + ": '" + data.features[f] + "' holds no value; leave it out of the array");
    data.marks.gaps.push_back(data.features[f]);
    data.notes.push_back(NoteOnGaps(data.features[f], missing, steps, /*foretold=*/f == data.TargetFeature()));
  }
}

SeriesSequence SequenceOf(const SeriesData& data, int64_t row, int64_t steps, const double* values, LaterCells* later) {
  const int64_t width = std::ssize(data.features);
  std::vector<int64_t> marked;  // places of the features that may lack values
  for (const std::string& name : data.marks.gaps)
    marked.push_back(std::ranges::find(data.features, name) - data.features.begin());
  SeriesSequence one{std::to_string(row), steps, {}, {}, {}};
  if (later != nullptr) later->AddRows(steps);
  for (int64_t step = 0; step < steps; ++step, values += width) {
    one.features.insert(one.features.end(), values, values + width);
    for (const int64_t f : marked) one.features.push_back(std::isnan(values[f]) ? 1 : 0);
    for (int64_t f = 0; f < width; ++f) {
      if (!std::isnan(values[f])) continue;
      if (std::ranges::find(marked, f) == marked.end())
        throw FileError(
            data.Place(one, step, data.features[f]) +
            "the value is missing, which the model has not met in this feature; fill it in, or train on data with gaps");
      if (later != nullptr) later->AddGap(data.features[f], row * steps + step, /*of_text=*/false);
    }
  }
  if (data.TargetFeature() >= 0) one.targets.resize(steps);
  data.CarryForward(one);
  return one;
}

void LaterCells::Add(Cells& cells, int64_t line) {
  if (cells.count == 0 || line < cells.first) cells.first = line;
  ++cells.count;
}

void LaterCells::AddGap(const std::string& column, int64_t line, bool of_text) {
  Cells& cells = gaps_[column];
  cells.of_text = of_text;
  Add(cells, line);
}

void LaterCells::AddNew(const std::string& column, int64_t line, const std::string& text) {
  Cells& cells = new_[column];
  const std::string shown = ShownName(text);
  if (std::ssize(cells.texts) <= kMostTexts && std::ranges::find(cells.texts, shown) == cells.texts.end())
    cells.texts.push_back(shown);
  Add(cells, line);
}

std::vector<std::string> LaterCells::Notes(int64_t steps) const {
  const auto place = [&](int64_t line) {
    return steps == 0 ? fmt::format("row {}", line) : fmt::format("sequence {}, step {}", line / steps, line % steps);
  };
  std::vector<std::string> notes;
  for (const auto& [name, cells] : gaps_)
    notes.push_back(
        fmt::format("'{}' lacks {} of {} values, the first in {}: {}.", ShownName(name), cells.count, rows_, place(cells.first),
                    cells.of_text ? "each counts as none of the categories" : "the last value before fills each gap"));
  for (const auto& [name, cells] : new_)
    notes.push_back(fmt::format(
        "'{}' holds texts that the model has not met in {} of {} rows, the first in row {}: {}{}. Each counts as a missing "
        "value, which is none of the categories.",
        ShownName(name), cells.count, rows_, cells.first, fmt::join(cells.texts | std::views::take(kMostTexts), ", "),
        std::ssize(cells.texts) > kMostTexts ? ", .." : ""));
  return notes;
}

}  // namespace heed::lab
