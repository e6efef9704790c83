// Which sequence encoder and which positional encoding for labelled sequences of one's own.
#ifndef HEED_LAB_SERIES_SERIES_H_
#define HEED_LAB_SERIES_SERIES_H_

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/report/environment.h"
#include "lab/runs/contest.h"
#include "lab/series/baseline.h"
#include "lab/series/batches.h"
#include "lab/series/options.h"
#include "lab/series/range.h"

namespace heed::lab {

// What the page tells of the data.
struct SeriesSummary {
  std::string name, fingerprint, target;
  SeriesGoal goal = SeriesGoal::kClassification;
  std::vector<std::string> features, classes;
  int64_t sequences = 0, steps = 0, shortest = 0, longest = 0;
  int64_t training = 0, validation = 0, test = 0;  // sequences, or windows of a forecast
  bool has_times = false, each_step = false;
  std::vector<SeriesRange> left;  // columns whose test values leave the range of the training part
};

struct SeriesResult {
  SeriesOptions options;
  Environment environment;
  SeriesSummary data;
  std::vector<SeriesBaseline> baselines;  // at least one
  ContestResult contest;                  // see SeriesMeasures

  const Measurements& scores() const { return contest.at_time; }
  bool Classifies() const { return data.goal == SeriesGoal::kClassification; }
  // What ranks the models, and all that is told of them: the loss, and of a classification the accuracy.
  const Column& loss() const { return scores().ColumnOf("loss"); }
  std::vector<Column> told() const;
};

// Fits what needs no sequence model, then holds a contest. Every finished run is kept in folder/runs, the pilot's among them;
// the next study with the same data and settings finds it there. From the pilot on, the result is the same for any number of
// threads. Throws InvalidArgument that names the option, FileError, Divergence where every model diverges, and Interruption on
// Ctrl-C.
SeriesResult RunSeries(const SeriesData& data, const SeriesOptions& options, const std::filesystem::path& folder);

// The command that gives the numbers of these options in a folder.
using SeriesCommand = std::function<std::string(const SeriesOptions& options, const std::filesystem::path& folder)>;

// Writes report.html, whose path it returns, study.json, runs.csv and the figures, which say how they were made, each beside
// and renamed. Throws FileError.
std::filesystem::path WriteSeries(const SeriesResult& result, const SeriesCommand& command_of,
                                  const std::filesystem::path& folder);

// What is in study.json.
nlohmann::ordered_json SeriesJson(const SeriesResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SERIES_H_
