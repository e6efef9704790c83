// Labelled sequences of numbers, as they were read.
#ifndef HEED_LAB_SERIES_DATA_H_
#define HEED_LAB_SERIES_DATA_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "heed/series_form.h"
#include "lab/series/csv_form.h"
#include "lab/series/date.h"

namespace heed::lab {

// A sequence's first steps train, up to training_end; those up to validation_end validate, the rest test.
struct StepParts {
  int64_t training_end, validation_end;
};

struct SeriesSequence {
  std::string id;
  int64_t steps = 0;
  std::vector<double> features;  // [steps, numbers()] of the data, see heed::FillFeatures
  std::vector<double> times;     // [steps], increasing; empty where there are none
  // One for the sequence, or one a step. Classes are indices of the data's names.
  std::vector<double> targets;
  std::vector<int64_t> rows = {};       // [steps], of a CSV file, where 1 is the header; empty: it comes from an array
  std::optional<StepParts> parts = {};  // as the file tells them; then those of all sequences are told
  // Of a part of a file, see SeriesStream: steps at the front that were answered before, and whether others follow the last.
  int64_t before = 0;
  bool goes_on = false;

  // Steps from begin up to end, without it, of so many numbers each; one target of all stays.
  SeriesSequence Part(int64_t begin, int64_t end, int64_t numbers) const;
};

// A column of a file and what was understood of it.
struct SeriesColumn {
  std::string name;
  std::string role;                     // "target", "sequence", "time", "part", "feature", "index" or "not read"
  std::string holds;                    // "numbers", "flags", "texts", "dates" or "nothing"
  double low = 0, high = 0;             // of numbers and flags; of dates in seconds since 1970
  int64_t missing = 0;                  // cells
  std::vector<std::string> texts = {};  // the different ones, sorted; of texts alone
};

// Sequences and the form of their columns: its fields that tell of windows, and of statistics, are those of a model's.
// Its classes are sorted, numbers by value.
struct SeriesData : heed::SeriesForm {
  std::string name;         // of the file
  std::string fingerprint;  // of the file and how its rows were put together, to tell whether two runs saw the same
  std::vector<SeriesSequence> sequences;
  std::vector<SeriesColumn> file_columns = {};  // empty: it is an array, or for a kept model
  std::vector<std::string> notes = {};          // sentences: what was found in the file that its reader should know

  int64_t TargetFeature() const;  // the feature that the target is, or -1
  // Lets the last value before a gap stand for it, and of a forecast for the target too where it is a feature. `before`: the
  // numbers of the step before the first, or null.
  void CarryForward(SeriesSequence& sequence, const double* before = nullptr) const;
  int64_t Longest() const;
  int64_t Steps() const;  // of all sequences
  // "data.csv: row 7, column 'x': " or "X.npy: sequence 3, step 0, 'feature 1': ", for errors.
  std::string Place(const SeriesSequence& sequence, int64_t step, const std::string& column) const;
};

struct SeriesColumns {
  std::string target;                        // required
  std::string sequence = {};                 // which sequence a row belongs to; empty: all rows are one
  std::string time = {};                     // empty: the rows' order is all that is known
  std::vector<std::string> features = {};    // empty: every other column; for a forecast the target too
  std::string goal = {};                     // empty: classes where the target holds whole numbers or text, else numbers
  std::string part = {};                     // which part a row is in: training, validation or test; empty: parts are drawn
  std::vector<std::string> categories = {};  // features whose cells are names, even where they are numbers
  std::string date_order = {};               // "day" or "month" comes first; empty: the days beyond 12 tell
  CsvOptions csv = {};
};

// A CSV file, or standard input where the path is "-", see CsvTable; compressed by gzip, it is read alike. One row a step; the
// rows of a sequence need not stand together and are in order of time, which is checked. Features may hold numbers, flags, and
// texts, which are categories; they may lack values, as may the target of a forecast that is a feature. Throws FileError that
// names the file, row and column (ragged rows, missing values elsewhere, texts among numbers, more than 100 categories, days as
// 19580329 in place of numbers, dates of which nobody knows the order, times that do not increase, one number in two spellings
// where it names a sequence, a class or a category, parts in another order or several of one sequence that has one target), and
// InvalidArgument that names the option.
SeriesData ReadSeriesCsv(const std::filesystem::path& path, const SeriesColumns& columns);

// The same of a forecast, once for each of the targets "a,b", where the others are features as before; else one alone.
std::vector<SeriesData> ReadForecastsCsv(const std::filesystem::path& path, const SeriesColumns& columns);

// X [rows, steps, features] or [rows, steps], NaN where a value is missing; y [rows] or [rows, steps]. With the goal of a
// forecast there is no y, and the target is the last feature. Integers in y are classes unless the goal says otherwise. Throws
// FileError and InvalidArgument.
SeriesData ReadSeriesNpy(const std::filesystem::path& features, const std::filesystem::path& targets, const std::string& goal);

// Steps first .. first + steps - 1 of a sequence.
struct SeriesWindow {
  int64_t sequence, first, steps;

  int64_t end() const { return first + steps; }
};

// Windows of a forecast that are scored of a part, at most.
inline constexpr int64_t kMostForecasts = 512;
// So many of them, or all where there are fewer.
std::vector<SeriesWindow> EvenlySpread(std::vector<SeriesWindow> windows, int64_t most);

// `share` of the sequences to validate and as many to test, drawn with a seed that never changes. Classes are drawn one by one,
// so that each that has three sequences or more is in all parts; those with fewer are drawn together. A sequence whose steps
// have classes of their own counts for its commonest. Throws InvalidArgument for fewer than three sequences.
std::vector<StepParts> SplitSequences(const SeriesData& data, double share);

// `share` of the steps each, at least one, to validate and to test.
StepParts SplitSteps(int64_t steps, double share);

// Cuts all sequences at the same two dates, before which 1 - 2 share and 1 - share of all steps lie: no sequence trains on a
// day that another is tested on. Empty where the data have no dates, or where half of the sequences or more do not reach from
// before both dates to behind them.
std::vector<StepParts> SplitByDate(const SeriesData& data, double share);

// Whether parts are steps of a sequence: of a forecast, of a file that cuts sequences, and of one or two recordings whose steps
// have targets of their own.
bool CutsSequences(const SeriesData& data);

// Of every sequence, in order: as the file tells, or for a forecast by SplitByDate where there are several, else by SplitSteps
// where parts cut sequences, else by SplitSequences, where a sequence is in one part. Throws FileError where a class of one or
// two recordings stands behind the training part alone.
std::vector<StepParts> SplitOf(const SeriesData& data, double share);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_DATA_H_
