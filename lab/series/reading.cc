#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/file.h"
#include "lab/series/columns.h"
#include "lab/series/csv_sequences.h"
#include "lab/series/data.h"
#include "lab/series/npy_file.h"

namespace heed::lab {
namespace {

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
    if (whole && part != last && row != rows.front())
      refuse(before + "a sequence is in one part, unless its steps have targets or it is forecast");
    last = part, ++counts[part];
  }
  return {counts[0], counts[0] + counts[1]};
}

// Of "a,b", which is the name of no column, "a" and "b"; else the target.
std::vector<std::string> TargetsOf(const CsvTable& table, const SeriesColumns& columns) {
  const auto& names = table.columns();
  if (columns.target.find(',') == std::string::npos || std::ranges::find(names, columns.target) != names.end())
    return {columns.target};
  std::vector<std::string> several;
  for (const auto name : std::views::split(std::string_view(columns.target), ','))
    several.emplace_back(Trimmed(std::string(name.begin(), name.end())));
  return several;
}

// Where the roles stand in the table; -1: there is none.
struct Roles {
  int64_t target, sequence, time, part;
  std::vector<int64_t> categories;

  Roles(const CsvTable& table, const SeriesColumns& columns) {
    const auto place = [&](const char* option, const std::string& name) {
      return name.empty() ? -1 : table.Column(option, name);
    };
    if (const std::vector<std::string> several = TargetsOf(table, columns); several.size() > 1)
      throw InvalidArgument("target: '" + ShownName(columns.target) +
                            "' is no column, and only heed study with --goal forecast takes several targets; give --target " +
                            ShownName(several.front()) +
                            " in one study and the next column in another, where the others are features");
    target = table.Column("target", columns.target), sequence = place("sequence", columns.sequence);
    time = place("time", columns.time), part = place("part", columns.part);
    std::set<int64_t> told;
    for (const int64_t column : {target, sequence, time, part}) {
      if (column >= 0 && !told.insert(column).second)
        throw InvalidArgument("target, sequence, time and part: expected different columns");
    }
    categories.reserve(columns.categories.size());
    for (const std::string& name : columns.categories) categories.push_back(table.Column("categories", name));
  }

  std::string Of(int64_t column) const {
    return column == target     ? "target"
           : column == sequence ? "sequence"
           : column == time     ? "time"
           : column == part     ? "part"
                                : "";
  }
  bool Names(int64_t column) const { return std::ranges::find(categories, column) != categories.end(); }
};

// Whether it is what pandas writes for an index, and again for one that it read as a column.
bool IsIndex(const CsvTable& table, int64_t column) {
  return column == 0 && (table.columns()[0].empty() || table.columns()[0] == "Unnamed: 0");
}

// The columns that were asked for; else all that have no role, hold something and are no index, and of a forecast the target.
std::vector<int64_t> FeatureColumns(const CsvTable& table, const SeriesColumns& columns, const Roles& roles, bool forecast) {
  std::vector<int64_t> chosen;
  chosen.reserve(columns.features.size());
  for (const std::string& name : columns.features) chosen.push_back(table.Column("features", name));
  if (!chosen.empty()) {
    std::set<int64_t> seen(chosen.begin(), chosen.end());
    if (seen.size() != chosen.size()) throw InvalidArgument("features: a column is given twice");
    if (!forecast && seen.contains(roles.target)) {
      throw InvalidArgument("features: '" + ShownName(columns.target) + "' is the target; only a forecast may look at it");
    }
    return chosen;
  }
  for (int64_t i = 0; i < std::ssize(table.columns()); ++i) {
    if (i == roles.target && forecast) chosen.push_back(i);
    if (!roles.Of(i).empty() || IsIndex(table, i)) continue;
    bool empty = true;
    for (int64_t row = 0; row < table.rows() && empty; ++row) empty = table.Missing(row, i);
    if (!empty) chosen.push_back(i);
  }
  if (chosen.empty()) throw InvalidArgument("features: " + table.name() + " has no column beside sequence, time and target");
  return chosen;
}

bool IsWhole(double value) { return value == std::round(value); }

// Throws InvalidArgument where it is none.
std::string KnownGoal(const std::string& name) {
  if (name == "classification" || name == "regression" || name == "forecast") return name;
  throw InvalidArgument("goal: '" + ShownName(name) + "' is unknown; choose classification, regression or forecast");
}

// What the target's cells say where the user does not. Text among numbers is a missing value more often than a class.
std::string GoalOf(const CsvTable& table, int64_t target) {
  int64_t text_row = -1;
  bool numbers = false, whole = true;
  for (int64_t row = 0; row < table.rows(); ++row) {
    if (table.Missing(row, target)) {
      const std::string& cell = table.Cell(row, target);
      const std::string what = cell.empty() ? "the value is missing" : "'" + cell + "' stands for a missing value";
      throw FileError(table.Place(row, target) + what +
                      "; fill it in, remove the row, or give --goal forecast, which fills it with the last value" +
                      (cell.empty() ? "" : ", or --goal classification where it is a class"));
    }
    if (const std::optional<double> value = table.TryNumber(row, target)) {
      numbers = true, whole = whole && IsWhole(*value);
    } else if (text_row < 0) {
      text_row = row;
    }
  }
  if (numbers && text_row >= 0) {
    throw FileError(table.Place(text_row, target) + "'" + ShownName(table.Cell(text_row, target)) +
                    "' stands among numbers; fill it in, or give --goal classification where it is a class");
  }
  return whole ? "classification" : "regression";
}

// One target a sequence where it never changes within one, except for a forecast.
void JoinTargets(SeriesData& data) {
  data.each_step = data.Forecasts();
  for (const SeriesSequence& sequence : data.sequences) {
    const auto differs = [&](double value) { return value != sequence.targets.front(); };
    data.each_step = data.each_step || std::any_of(sequence.targets.begin(), sequence.targets.end(), differs);
  }
  if (data.each_step) return;
  for (SeriesSequence& sequence : data.sequences) sequence.targets.resize(1);
}

// Where the target changes within a sequence: a mistyped cell does that as well as a target of each step.
std::string NoteOnSteps(const SeriesData& data) {
  std::string first;
  int64_t changing = 0;
  for (const SeriesSequence& sequence : data.sequences) {
    const auto at = std::ranges::adjacent_find(sequence.targets, std::not_equal_to());
    if (at == sequence.targets.end() || changing++ > 0) continue;
    const auto cell = [&](int64_t step) {
      const double value = sequence.targets[step];
      return fmt::format("{} in row {}",
                         data.classes.empty() ? fmt::format("{:g}", value)
                                              : "'" + ShownName(data.classes[static_cast<std::size_t>(value)]) + "'",
                         sequence.rows[step]);
    };
    const int64_t step = at - sequence.targets.begin();
    first = fmt::format("'{}' ({}, {})", ShownName(sequence.id), cell(step), cell(step + 1));
  }
  const std::string target = ShownName(data.target);
  return fmt::format(
      "'{}' changes within {} of {} sequences, first in {}: models answer each step, not each sequence. If a "
      "sequence has one '{}', mend these rows.",
      target, changing, data.sequences.size(), first, target);
}

// The columns of the table, what they hold and which are features, into the data.
SequenceColumns Understand(const CsvTable& table, const SeriesColumns& columns, const Roles& roles, SeriesData& data) {
  const bool forecast = data.Forecasts();
  SequenceColumns places{.sequence = roles.sequence, .time = roles.time, .target = roles.target};
  std::map<int64_t, SeriesColumn> seen;
  for (const int64_t column : FeatureColumns(table, columns, roles, forecast)) {
    SeriesColumn& feature = seen[column] = FeatureOf(table, column, roles.Names(column));
    const std::string& name = table.columns()[column];
    if (feature.holds == "nothing")
      throw FileError(table.name() + ": column '" + ShownName(name) + "' holds no value; leave it out by --features");
    if (column == roles.target) feature.role = "target";
    if (feature.holds == "texts" && column == roles.target) {
      int64_t row = 0;
      while (table.Missing(row, column)) ++row;
      throw FileError(table.Place(row, column) + "'" + ShownName(table.Cell(row, column)) +
                      "' is no number to predict; write it as " + (table.form().decimal_comma ? "1234,5" : "1234.5") +
                      ", or give --goal classification where it is a class");
    }
    if (feature.holds == "texts") {
      places.texts.push_back(column);
      for (const std::string& text : feature.texts)
        data.marks.category_columns.push_back(name), data.marks.category_names.push_back(text);
      continue;
    }
    places.features.push_back(column), data.features.push_back(name);
    if (feature.missing > 0) data.marks.gaps.push_back(name);
  }
  for (int64_t i = 0; i < std::ssize(table.columns()); ++i) {
    const std::string role = roles.Of(i);
    if (!seen.contains(i)) {
      const bool names = i == roles.sequence || i == roles.part || data.Classifies();
      seen[i] = LookAt(table, i, !role.empty() && i != roles.time && names).column;
      seen[i].role = !role.empty() ? role : IsIndex(table, i) ? "index" : "not read";
    }
    data.file_columns.push_back(seen[i]);
  }
  return places;
}

// What times are, of a column of them.
void UnderstandTimes(const CsvTable& table, int64_t time, DateOrder told, SeriesData& data) {
  data.has_times = true;
  RequireNoDates(table, time, /*months=*/true);
  data.has_dates = !table.TryNumber(0, time);  // the first row tells for all
  if (!data.has_dates) return;
  const DateOrder order = OrderOfDates(table, time, told);
  data.date_order = ToString(order);
  const auto column = std::ranges::find(data.file_columns, "time", &SeriesColumn::role);
  column->holds = "dates";
  for (int64_t row = 0; row < table.rows(); ++row) {
    const double seconds = table.Date(row, time, order);
    column->low = row == 0 ? seconds : std::min(column->low, seconds);
    column->high = row == 0 ? seconds : std::max(column->high, seconds);
  }
}

std::vector<std::string> ClassesOf(const CsvTable& table, int64_t target) {
  RequireOneSpelling(table, target);
  std::set<std::string> names;
  for (int64_t row = 0; row < table.rows(); ++row) names.insert(table.Text(row, target));
  return ClassNames(table.name(), names);
}

// The same file cut into other sequences, with other times or read in another way is other data; no name holds a zero byte.
std::string FingerprintOf(const std::string& text, const SeriesColumns& columns) {
  std::string told = columns.sequence + '\0' + columns.time + (columns.part.empty() ? "" : '\0' + columns.part);
  const auto tell = [&](const char* option, const std::string& value) {
    if (!value.empty()) told += std::string(2, '\0') + option + '\0' + value;
  };
  for (const std::string& name : columns.categories) tell("category", name);
  tell("date_order", columns.date_order);
  tell("separator", columns.csv.separator), tell("decimal", columns.csv.decimal),
      tell("header", columns.csv.header ? "" : "none");
  return Fingerprint(text, told);
}

void Validate(const SeriesColumns& columns) {
  Validate(columns.csv);
  ParseDateOrder(columns.date_order);
}

// text: of the file.
SeriesData SeriesOf(const CsvTable& table, const std::string& text, const SeriesColumns& columns) {
  const Roles roles(table, columns);
  const auto name_of = [&](int64_t column) { return column < 0 ? std::string() : table.columns()[column]; };
  SeriesData data;
  data.name = table.name();
  data.fingerprint = FingerprintOf(text, columns);
  data.target = name_of(roles.target), data.time = name_of(roles.time), data.sequence = name_of(roles.sequence);
  data.goal = columns.goal.empty() ? GoalOf(table, roles.target) : KnownGoal(columns.goal);
  const SequenceColumns places = Understand(table, columns, roles, data);
  if (roles.sequence >= 0) RequireOneSpelling(table, roles.sequence);
  if (!data.Classifies()) RequireNoDates(table, roles.target);
  if (roles.time >= 0) UnderstandTimes(table, roles.time, ParseDateOrder(columns.date_order), data);
  if (data.Classifies()) data.classes = ClassesOf(table, roles.target);
  data.sequences = SequencesOf(table, places, data);
  JoinTargets(data);
  if (roles.part >= 0) {
    std::size_t s = 0;
    for (const auto& [id, rows] : Grouped(table, roles.sequence))
      data.sequences[s++].parts = PartsOf(table, rows, roles.part, /*whole=*/!data.each_step);
  }
  data.notes = NotesOn(table, data);
  std::ranges::move(NotesOnRareClasses(data), std::back_inserter(data.notes));
  if (!data.Forecasts() && data.each_step && roles.sequence >= 0) data.notes.push_back(NoteOnSteps(data));
  if (!data.Forecasts() && roles.part < 0 && CutsSequences(data))
    data.notes.push_back("Steps have targets of their own: models answer '" + ShownName(data.target) +
                         "' at each step from the other columns. --goal forecast predicts its next values instead.");
  return data;
}

}  // namespace

SeriesData ReadSeriesCsv(const std::filesystem::path& path, const SeriesColumns& columns) {
  Validate(columns);
  const std::string text = ReadInput(path);
  return SeriesOf(CsvTable(NameOfInput(path), text, columns.csv), text, columns);
}

std::vector<SeriesData> ReadForecastsCsv(const std::filesystem::path& path, const SeriesColumns& columns) {
  Validate(columns);
  const std::string text = ReadInput(path);
  const CsvTable table(NameOfInput(path), text, columns.csv);
  const std::vector<std::string> targets = TargetsOf(table, columns);
  if (columns.goal != "forecast" || targets.size() == 1) return {SeriesOf(table, text, columns)};
  std::vector<SeriesData> each;
  for (const std::string& target : targets) {
    if (std::ranges::find(each, target, &SeriesData::target) != each.end())
      throw InvalidArgument("target: '" + ShownName(target) + "' is given twice");
    SeriesColumns own = columns;
    own.target = target;
    each.push_back(SeriesOf(table, text, own));
  }
  return each;
}

SeriesData ReadSeriesNpy(const std::filesystem::path& features, const std::filesystem::path& targets, const std::string& goal) {
  const NpyFile X(features, /*may_lack=*/true, MostDataBytes());
  const auto shape_of = [](const NpyFile& file) { return fmt::format("[{}]", fmt::join(file.shape(), ", ")); };
  const std::vector<int64_t>& shape = X.shape();
  if (shape.size() < 2 || shape.size() > 3 || std::ranges::find(shape, 0) != shape.end()) {
    throw FileError(X.name() + ": expected the shape [rows, steps, features] or [rows, steps], not empty, got " + shape_of(X));
  }
  const int64_t rows = shape[0], steps = shape[1], width = shape.size() == 3 ? shape[2] : 1;
  const std::vector<double> inputs = X.Values();
  SeriesData data;
  data.name = X.name();
  for (int64_t i = 0; i < width; ++i) data.features.push_back("feature " + std::to_string(i));
  const auto bytes_of = [](const std::vector<double>& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  };
  std::vector<double> answers;
  int64_t each = 0;  // targets of a row
  if (targets.empty()) {
    if (goal != "forecast") throw InvalidArgument("target: expected the file of y, as X is " + data.name);
    data.goal = "forecast", data.target = data.features.back(), data.each_step = true;
  } else {
    if (goal == "forecast")
      throw InvalidArgument("target: a forecast of an array takes no file of y; it predicts the last feature");
    const NpyFile y(targets, /*may_lack=*/false, MostDataBytes());
    if (y.shape().empty() || y.shape().size() > 2 || y.shape()[0] != rows || (y.shape().size() == 2 && y.shape()[1] != steps)) {
      throw FileError(y.name() + ": expected the shape [" + std::to_string(rows) + "] or [" + std::to_string(rows) + ", " +
                      std::to_string(steps) + "] as " + X.name() + " has the shape " + shape_of(X) + ", got " + shape_of(y));
    }
    data.each_step = y.shape().size() == 2, each = data.each_step ? steps : 1;
    answers = y.Values();
    data.goal = !goal.empty() ? KnownGoal(goal) : y.whole() ? "classification" : "regression";
    data.target = NameOfInput(targets.filename());
  }
  data.fingerprint = Fingerprint(bytes_of(inputs), shape_of(X) + std::string(bytes_of(answers)));
  std::map<double, double> class_index;
  if (data.Classifies()) {
    const std::string name = NameOfInput(targets);
    std::set<std::string> names;
    const auto name_of = [&](double value) {
      if (!IsWhole(value) || std::abs(value) > kLargestWhole) {
        throw FileError(name + fmt::format(": classes are whole numbers up to 2^53, got {}", value));
      }
      return std::to_string(static_cast<int64_t>(value));
    };
    for (const double value : answers) names.insert(name_of(value));
    data.classes = ClassNames(name, names);
    for (std::size_t i = 0; i < data.classes.size(); ++i) class_index[std::stod(data.classes[i])] = static_cast<double>(i);
  }
  FindGaps(inputs, data);
  for (int64_t row = 0; row < rows; ++row) {
    SeriesSequence one = SequenceOf(data, row, steps, &inputs[row * steps * width]);
    for (int64_t i = 0; i < each; ++i) {
      const double value = answers[row * each + i];
      one.targets.push_back(class_index.empty() ? value : class_index.at(value));
    }
    data.sequences.push_back(std::move(one));
  }
  std::ranges::move(NotesOnRareClasses(data), std::back_inserter(data.notes));
  return data;
}

}  // namespace heed::lab
