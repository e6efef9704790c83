// The table of an experiment: what was measured of each model with each seed. Spreads, rankings, differences, tables, curves,
// files and sentences are all made from it.
#ifndef HEED_LAB_RUNS_MEASUREMENTS_H_
#define HEED_LAB_RUNS_MEASUREMENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/runs/feed_forward.h"
#include "lab/runs/measure.h"
#include "lab/training/curve.h"

namespace heed::lab {

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

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_MEASUREMENTS_H_
