// The table of an experiment: what was measured of each model with each seed. Spreads, rankings, differences, tables, curves,
// files and sentences are all made from it.
#ifndef HEED_LAB_RUNS_MEASUREMENTS_H_
#define HEED_LAB_RUNS_MEASUREMENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "lab/runs/contender.h"
#include "lab/training/curve.h"

namespace heed::lab {

// A measurement over the seeds: its mean, least and greatest.
struct Spread {
  double mean = 0, low = 0, high = 0;
};
// All of at least one value.
double MeanOf(const std::vector<double>& values);
std::vector<double> MeanOf(const std::vector<std::vector<double>>& rows);  // of at least one, place by place
Spread SpreadOf(const std::vector<double>& values);

nlohmann::ordered_json ToJson(const Spread& spread);

// "seed 0", "seeds 0 to 2": of runs with seeds first, first + 1, ..; at least one.
std::string SeedsOf(uint64_t first, int64_t count);

// Meaning, format, and which of two numbers is better.
struct Measure {
  std::string name;           // in files: "loss"
  std::string label;          // of axes and tables: "Loss (nats per character)"
  std::string phrase = "{}";  // within a sentence, around the number: "a loss of {} nats"
  int digits = 3;             // behind the point,
  bool significant = false;   // or in all, where numbers may have any size
  bool more_is_better = false;
  double unit = 1;  // texts and axes count in this; files hold the numbers as they are

  bool Better(double a, double b) const { return more_is_better ? a > b : a < b; }
  // Of the seed that fares worst, and of the one that fares best.
  double Worst(const Spread& spread) const { return more_is_better ? spread.low : spread.high; }
  double Best(const Spread& spread) const { return more_is_better ? spread.high : spread.low; }

  std::string Text(double value) const;          // "1.930"
  std::string Text(const Spread& spread) const;  // where seeds show a difference "1.930 (1.920 to 1.940)"
  std::string Cell(const Spread& spread) const;  // the same for a table: "1.930 (1.920–1.940)"
  std::string Phrase(const Spread& spread) const;
};

// A number that every run of a part of an experiment yields.
struct Column {
  Measure measure;
  int64_t at = 0;         // a length or a step, where the measure is taken at several; else 0
  bool optional = false;  // whether a model may have no number here: its table ends, it diverged

  bool operator==(const Column& other) const { return measure.name == other.measure.name && at == other.at; }
};

using Models = std::vector<SizedContender>;

// What one run measured.
struct Outcome {
  std::vector<double> values{};                     // by column; NaN where the model does not reach
  std::vector<double> blocks{};                     // of a contest: the loss on each block of the test part
  std::vector<double> validation{};                 // and of the validation part
  std::map<int64_t, std::vector<double>> longer{};  // of the test part in longer windows, by their length, where it reaches
  std::vector<CurvePoint> curve{};                  // of a contest
  int64_t best_steps = 0;                           // of a contest: the steps after which all of this was measured
  std::string diverged{};                           // why there are no numbers; empty where there are
  nlohmann::ordered_json more{};                    // what else there is to know; null where there is nothing
};
// Numbers survive the way to JSON and back bit by bit. The second throws nlohmann::json::exception where there is no outcome.
nlohmann::ordered_json ToJson(const Outcome& outcome);
Outcome OutcomeFromJson(const nlohmann::ordered_json& json);

// Of one part of an experiment, whose runs yield the same columns: an objective, a task.
class Measurements {
 public:
  Measurements(std::string part, std::vector<Column> columns, Models models, uint64_t first_seed, int64_t seeds);
  // Of run `seed`, counted from 0; those before it have been put. Throws InvalidArgument where there is not one value a column.
  void Put(std::size_t model, std::size_t seed, Outcome outcome);

  const std::string& part() const { return part_; }
  const std::vector<Column>& columns() const { return columns_; }
  const Models& models() const { return models_; }
  int64_t seeds() const { return seeds_; }       // runs of a model, at most
  int64_t RunsOf(const Contender& model) const;  // that there are
  uint64_t first_seed() const { return first_seed_; }
  // The first column of this measure. InvalidArgument where there is none.
  const Column& ColumnOf(const std::string& measure) const;
  // All columns of the measure, in order.
  std::vector<Column> ColumnsOf(const std::string& measure) const;

  // Of a model of this part, told by its Id: by seed, NaN where a run has no number.
  std::vector<double> Values(const Contender& model, const Column& column) const;
  // Whether there is a number; a run that diverged has none, the others have one or none of them has.
  bool Reaches(const Contender& model, const Column& column) const;
  Spread Over(const Contender& model, const Column& column) const;  // needs Reaches
  // Empty where there is no such run.
  const Outcome& Of(const Contender& model, std::size_t seed) const;
  // The losses on each block of the test part by seed, [seeds, blocks], in windows of this length where one is given; without
  // the runs that diverged or do not reach the length.
  std::vector<std::vector<double>> BlockLosses(const Contender& model, int64_t longer = 0) const;

  // Those that reach, the best mean first; all models unless told which.
  Models Ranked(const Column& column, const Models& among) const;
  Models Ranked(const Column& column) const { return Ranked(column, models_); }
  // The models with what was measured of them: by measure a spread, at several places by place, null where not every run
  // reaches; the runs one by one.
  nlohmann::ordered_json Json() const;

 private:
  std::size_t IndexOf(const Contender& model) const;

  std::string part_;
  std::vector<Column> columns_;
  Models models_;
  uint64_t first_seed_;
  int64_t seeds_;
  std::vector<std::vector<Outcome>> outcomes_;  // [models, runs]
};

Models Attending(const Models& models);

// One line a part, model, column and seed. The first names the parts ("task"), the second the places ("steps"); empty where
// there are none to tell apart.
std::string MeasurementsCsv(const std::string& parts, const std::string& places, const std::vector<const Measurements*>& all);

// The arrays of a fitted method, as files keep them.
struct KeptMethod {
  // "simple", which looks at no features; "linear" and "neighbours", which answer rows of SeriesRows; "season", "smoothing" and
  // "calendar", which forecast from past values. Empty: it cannot be kept.
  std::string kind = {};
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  std::map<std::string, at::Tensor> arrays = {};
};

// What VisitFields visits of heed::SeriesForm, or of a method of heed/past_forecasts.h, as files keep it.
template <class T>
nlohmann::ordered_json KeptFields(T of) {
  nlohmann::ordered_json fields;
  VisitFields(of, [&](const char* name, const auto& field) { fields[name] = field; });
  return fields;
}

// Fitted on the training part, its one setting chosen on the validation part, measured on the test part.
struct Baseline {
  std::string name = {};            // "last value", "ridge regression"
  std::string setting = {};         // that was chosen: "strength 0.01", "season of 52 steps"; empty where there is none
  std::string limits = {};          // what was left out to bound time and memory; empty: nothing
  std::vector<double> blocks = {};  // the loss on each block of the test part, in the unit of the models' losses
  double loss = 0;                  // the same on the whole part
  double validation = 0;            // the loss on the validation part, fitted without it
  double accuracy = 0;              // of a classification
  bool looks = true;                // at features, and not at past targets or frequencies alone
  KeptMethod kept = {};             // to answer with

  // "ridge regression (strength 0.01)".
  std::string Label() const { return setting.empty() ? name : name + " (" + setting + ")"; }
  // "ridge regression (strength 0.01)", "the last value": within a sentence.
  std::string Phrase() const { return looks ? Label() : "the " + Label(); }
};

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_MEASUREMENTS_H_
