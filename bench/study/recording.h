// Puts the trainings of a study on record.
#ifndef HEED_BENCH_STUDY_RECORDING_H_
#define HEED_BENCH_STUDY_RECORDING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/study/record.h"
#include "lab/study/study.h"

namespace heed::bench {

// A record without runs: what the study is, and the losses of what needs no model. `step_seconds`: of each of the task's
// models.
Record BeginRecord(const std::string& name, const lab::StudyTask& task, const lab::StudyOptions& options, int64_t times,
                   const std::vector<double>& step_seconds);

// The runs of a model: seeds 0, 1, .. at all rates for a whole training; those at the rate that validation likes best go on
// until they are record.times as long.
std::vector<RecordedRun> RecordModel(const lab::Contest& contest, const RecordedModel& model, const Record& record,
                                     uint64_t seeds);

}  // namespace heed::bench

#endif  // HEED_BENCH_STUDY_RECORDING_H_
