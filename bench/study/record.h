// A contest's trainings on record: what a race sees of them, step by step, so that thousands of studies are replayed in
// seconds.
#ifndef HEED_BENCH_STUDY_RECORD_H_
#define HEED_BENCH_STUDY_RECORD_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lab/runs/contest.h"
#include "lab/runs/measurements.h"
#include "lab/study/study.h"

namespace heed::bench {

// A state of a training that was the best so far.
struct RecordedBest {
  std::vector<double> validation;      // the loss on each block of the validation part
  std::vector<double> blocks, values;  // and of the test part, by the contest's columns; empty where it was not measured
};

struct RecordedRun {
  std::string model{};  // its Id
  double rate = 0;
  uint64_t seed = 0;
  std::vector<lab::CurvePoint> curve{};
  std::map<int64_t, RecordedBest> best{};  // by steps
  std::string diverged{};                  // behind the curve's last point; empty where it did not
};

struct RecordedModel {
  lab::SizedContender model;
  double step_seconds = 0;  // measured alone
  int64_t steps = 0;        // of a whole training; its longest runs are `times` times as long
};

// A file has a line of JSON with everything but the runs, then a line a run.
struct Record {
  std::string name{}, id{};
  int64_t times = 8;
  double seconds = 0;
  double simple_loss = 0;  // see lab::Contest
  std::vector<double> rates{}, weights{}, validation_weights{};
  std::vector<lab::Column> columns{};
  std::vector<RecordedModel> models{};
  std::vector<lab::Baseline> baselines{};
  std::vector<RecordedRun> runs{};
};

std::string Text(const Record& record);
// Throws FileError, or nlohmann::json::exception where it is no record.
Record ReadRecord(const std::filesystem::path& path);

// A record without runs: what the study is, and the losses of what needs no model. `step_seconds`: of each of the task's
// models.
Record BeginRecord(const std::string& name, const lab::StudyTask& task, const lab::StudyOptions& options, int64_t times,
                   const std::vector<double>& step_seconds);

// The runs of a model: seeds 0, 1, .. at all rates for a whole training; those at the rate that validation likes best go on
// until they are record.times as long.
std::vector<RecordedRun> RecordModel(const lab::Contest& contest, const RecordedModel& model, const Record& record,
                                     uint64_t seeds);

}  // namespace heed::bench

#endif  // HEED_BENCH_STUDY_RECORD_H_
