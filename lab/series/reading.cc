#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/file.h"
#include "lab/report/fingerprint.h"
#include "lab/series/csv_sequences.h"
#include "lab/series/data.h"
#include "lab/series/date.h"
#include "lab/series/npy_file.h"

namespace heed::lab {
namespace {

constexpr std::size_t kMostClasses = 1000;

// Where the parts that a column names begin among a sequence's rows. `whole`: they are all in one.
StepParts PartsOf(const CsvTable& table, const std::vector<int64_t>& rows, int64_t column, bool whole) {
  static constexpr const char* kNames[] = {"training", "validation", "test"};
  int64_t counts[std::size(kNames)] = {}, last = 0;
  for (const int64_t row : rows) {
    const std::string& name = table.Text(row, column);
    const int64_t part = std::ranges::find(kNames, name) - std::begin(kNames);
    const auto refuse = [&](const std::string& why) {
      throw FileError(table.Place(row, column) + "'" + ShownName(name) + "' " + why);
    };
    if (part == std::ssize(kNames)) refuse("is no part; expected training, validation or test");
    const std::string before = "follows '" + std::string(kNames[last]) + "'; ";
    if (part < last) refuse(before + "in a sequence training comes first and the test last");
    if (whole && part != last && row != rows.front()) refuse(before + "a sequence is in one part, unless it is forecast");
    last = part, ++counts[part];
  }
  return {counts[0], counts[0] + counts[1]};
}

// taken: those of sequence and time, and of the target where it is no feature.
std::vector<int64_t> FeatureColumns(const CsvTable& table, const SeriesColumns& columns, const std::set<int64_t>& taken,
                                    bool forecast) {
  std::vector<int64_t> chosen;
  chosen.reserve(columns.features.size());
  for (const std::string& name : columns.features) chosen.push_back(table.Column("features", name));
  if (!chosen.empty()) {
    std::set<int64_t> seen(chosen.begin(), chosen.end());
    if (seen.size() != chosen.size()) throw InvalidArgument("features: a column is given twice");
    if (!forecast && seen.contains(table.Column("target", columns.target))) {
      throw InvalidArgument("features: '" + ShownName(columns.target) + "' is the target; only a forecast may look at it");
    }
    return chosen;
  }
  for (int64_t i = 0; i < std::ssize(table.columns()); ++i) {
    if (!taken.contains(i)) chosen.push_back(i);
  }
  if (chosen.empty()) throw InvalidArgument("features: " + table.name() + " has no column beside sequence, time and target");
  return chosen;
}

bool IsWhole(double value) { return value == std::round(value); }

// What the target's cells say where the user does not. Text among numbers is a missing value more often than a class.
SeriesGoal GoalOf(const CsvTable& table, int64_t target) {
  int64_t text_row = -1;
  bool numbers = false, whole = true;
  for (int64_t row = 0; row < table.rows(); ++row) {
    table.Text(row, target);
    if (const std::optional<double> value = table.TryNumber(row, target)) {
      numbers = true, whole = whole && IsWhole(*value);
    } else if (text_row < 0) {
      text_row = row;
    }
  }
  if (numbers && text_row >= 0) {
    throw FileError(table.Place(text_row, target) + "'" + ShownName(table.Cell(text_row, target)) +
                    "' stands among numbers; fill it in, or ask for the goal classification");
  }
  return whole ? SeriesGoal::kClassification : SeriesGoal::kRegression;
}

// Of a column that names sequences or classes: what is one number is one name, and has one spelling.
void RequireOneSpelling(const CsvTable& table, int64_t column) {
  std::map<double, int64_t> rows;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::optional<double> value = table.TryNumber(row, column);
    if (!value) continue;
    const int64_t first = rows.emplace(*value, row).first->second;
    if (table.Cell(first, column) == table.Cell(row, column)) continue;
    throw FileError(fmt::format("{}'{}' and '{}' in row {} are one number; spell it alike where it is one name",
                                table.Place(row, column), ShownName(table.Cell(row, column)),
                                ShownName(table.Cell(first, column)), table.Line(first)));
  }
}

// Days as 19580329 are 70 apart at the end of a month: a column that holds nothing else is no column of numbers.
void RequireNoDates(const CsvTable& table, int64_t column) {
  const auto dashed = [&](int64_t row) {
    const std::string& cell = table.Cell(row, column);
    return cell.size() == 8 ? cell.substr(0, 4) + "-" + cell.substr(4, 2) + "-" + cell.substr(6) : std::string();
  };
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::string date = dashed(row);
    if (date.empty() || date.front() < '1' || date.front() > '2' || !SecondsOfDate(date)) return;
  }
  throw FileError(table.Place(0, column) + "'" + table.Cell(0, column) + "' reads as a date; write it as " + dashed(0) +
                  " in a column for --time, or as " + table.Cell(0, column) + ".0 where it is a number");
}

// Names of classes: numbers by value where all are, else by the alphabet.
std::vector<std::string> ClassNames(const std::string& file, const std::set<std::string>& names) {
  if (names.size() < 2) throw FileError(file + ": the target has one class only; there is nothing to tell apart");
  if (names.size() > kMostClasses) {
    throw FileError(file + ": the target has " + std::to_string(names.size()) + " classes, more than " +
                    std::to_string(kMostClasses) + "; is it a number to predict (--goal regression)?");
  }
  std::vector<std::string> sorted(names.begin(), names.end());
  const auto number = [](const std::string& text) {
    double value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && rest == text.data() + text.size() ? std::optional<double>(value) : std::nullopt;
  };
  if (std::all_of(sorted.begin(), sorted.end(), number)) {
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const std::string& a, const std::string& b) { return *number(a) < *number(b); });
  }
  return sorted;
}

// One target a sequence where it never changes within one, except for a forecast.
void JoinTargets(SeriesData& data) {
  data.each_step = data.goal == SeriesGoal::kForecast;
  for (const SeriesSequence& sequence : data.sequences) {
    const auto differs = [&](double value) { return value != sequence.targets.front(); };
    data.each_step = data.each_step || std::any_of(sequence.targets.begin(), sequence.targets.end(), differs);
  }
  if (data.each_step) return;
  for (SeriesSequence& sequence : data.sequences) sequence.targets.resize(1);
}

}  // namespace

SeriesData ReadSeriesCsv(const std::filesystem::path& path, const SeriesColumns& columns) {
  const std::string text = ReadInput(path);
  const CsvTable table(NameOfInput(path), text);
  const int64_t target = table.Column("target", columns.target);
  const int64_t sequence = columns.sequence.empty() ? -1 : table.Column("sequence", columns.sequence);
  const int64_t time = columns.time.empty() ? -1 : table.Column("time", columns.time);
  const int64_t part = columns.part.empty() ? -1 : table.Column("part", columns.part);
  std::set<int64_t> told;
  for (const int64_t column : {target, sequence, time, part}) {
    if (column >= 0 && !told.insert(column).second)
      throw InvalidArgument("target, sequence, time and part: expected different columns");
  }
  SeriesData data;
  data.name = table.name();
  // The same file cut into other sequences, or with other times, is other data; no column name holds a zero byte.
  data.fingerprint = Fingerprint(text, columns.sequence + '\0' + columns.time + (part < 0 ? "" : '\0' + columns.part));
  data.target = table.columns()[target], data.time = time < 0 ? "" : table.columns()[time];
  data.sequence = sequence < 0 ? "" : table.columns()[sequence];
  data.goal = columns.goal.empty() ? GoalOf(table, target) : ParseSeriesGoal(columns.goal);
  data.has_times = time >= 0;
  const bool forecast = data.goal == SeriesGoal::kForecast;
  const std::vector<int64_t> features =
      FeatureColumns(table, columns, {sequence, time, part, forecast ? -1 : target}, forecast);
  for (const int64_t column : features) data.features.push_back(table.columns()[column]);

  if (sequence >= 0) RequireOneSpelling(table, sequence);
  if (data.goal == SeriesGoal::kClassification) RequireOneSpelling(table, target);
  std::vector<int64_t> numbers = features;
  if (time >= 0) numbers.push_back(time);
  if (data.goal != SeriesGoal::kClassification) numbers.push_back(target);
  for (const int64_t column : numbers) RequireNoDates(table, column);

  data.has_dates = time >= 0 && !table.TryNumber(0, time);  // the first row tells for all

  std::map<std::string, double> class_index;
  if (data.goal == SeriesGoal::kClassification) {
    std::set<std::string> names;
    for (int64_t row = 0; row < table.rows(); ++row) names.insert(table.Text(row, target));
    data.classes = ClassNames(data.name, names);
    for (std::size_t i = 0; i < data.classes.size(); ++i) class_index[data.classes[i]] = static_cast<double>(i);
  }
  data.sequences = SequencesOf(table, {features, sequence, time}, data.has_dates, [&](int64_t row) {
    return class_index.empty() ? table.Number(row, target) : class_index.at(table.Cell(row, target));
  });
  if (part >= 0) {
    std::size_t s = 0;
    for (const auto& [id, rows] : Grouped(table, sequence))
      data.sequences[s++].parts = PartsOf(table, rows, part, /*whole=*/!forecast);
  }
  JoinTargets(data);
  return data;
}

SeriesData ReadSeriesNpy(const std::filesystem::path& features, const std::filesystem::path& targets, const std::string& goal) {
  const NpyArray X = ReadNpy(features);
  const auto shape_of = [](const NpyArray& array) {
    std::string text;
    for (const int64_t extent : array.shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
    return "[" + text + "]";
  };
  if (X.shape.size() < 2 || X.shape.size() > 3 || X.values.empty()) {
    throw FileError(X.name + ": expected the shape [rows, steps, features] or [rows, steps], not empty, got " + shape_of(X));
  }
  const int64_t rows = X.shape[0], steps = X.shape[1], width = X.shape.size() == 3 ? X.shape[2] : 1;
  SeriesData data;
  data.name = X.name;
  for (int64_t i = 0; i < width; ++i) data.features.push_back("feature " + std::to_string(i));
  const auto bytes_of = [](const NpyArray& array) {
    return std::string_view(reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(double));
  };
  NpyArray y;
  if (targets.empty()) {
    if (goal != "forecast") throw InvalidArgument("target: expected the file of y, as X is " + data.name);
    data.goal = SeriesGoal::kForecast;
    data.target = data.features.back();
    data.fingerprint = Fingerprint(bytes_of(X));
  } else {
    if (goal == "forecast")
      throw InvalidArgument("target: a forecast of an array takes no file of y; its last feature is foretold");
    y = ReadNpy(targets);
    if (y.shape.empty() || y.shape.size() > 2 || y.shape[0] != rows || (y.shape.size() == 2 && y.shape[1] != steps)) {
      throw FileError(y.name + ": expected the shape [" + std::to_string(rows) + "] or [" + std::to_string(rows) + ", " +
                      std::to_string(steps) + "] as " + X.name + " has the shape " + shape_of(X) + ", got " + shape_of(y));
    }
    data.goal = !goal.empty() ? ParseSeriesGoal(goal) : y.whole ? SeriesGoal::kClassification : SeriesGoal::kRegression;
    data.target = y.name;
    data.fingerprint = Fingerprint(bytes_of(X), bytes_of(y));
  }
  std::map<double, double> class_index;
  if (data.goal == SeriesGoal::kClassification) {
    std::set<std::string> names;
    const auto name_of = [&](double value) {
      if (!IsWhole(value) || std::abs(value) > kLargestWhole) {
        throw FileError(y.name + fmt::format(": classes are whole numbers up to 2^53, got {}", value));
      }
      return std::to_string(static_cast<int64_t>(value));
    };
    for (const double value : y.values) names.insert(name_of(value));
    data.classes = ClassNames(y.name, names);
    for (std::size_t i = 0; i < data.classes.size(); ++i) class_index[std::stod(data.classes[i])] = static_cast<double>(i);
  }
  for (int64_t row = 0; row < rows; ++row) {
    SeriesSequence one{std::to_string(row), steps, {}, {}, {}};
    one.features.assign(X.values.begin() + row * steps * width, X.values.begin() + (row + 1) * steps * width);
    if (y.values.empty()) {
      for (int64_t step = 0; step < steps; ++step) one.targets.push_back(one.features[step * width + width - 1]);
    } else {
      const int64_t each = y.shape.size() == 2 ? steps : 1;
      for (int64_t i = 0; i < each; ++i) {
        const double value = y.values[row * each + i];
        one.targets.push_back(class_index.empty() ? value : class_index.at(value));
      }
    }
    data.sequences.push_back(std::move(one));
  }
  data.each_step = y.values.empty() || y.shape.size() == 2;
  return data;
}

}  // namespace heed::lab
