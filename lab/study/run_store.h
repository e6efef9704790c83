// Finished runs in a folder, so that a study that was stopped goes on where it was.
#ifndef HEED_LAB_STUDY_RUN_STORE_H_
#define HEED_LAB_STUDY_RUN_STORE_H_

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "lab/report/result_store.h"
#include "lab/study/run.h"

namespace heed::lab {

// One file a run, <objective>-<model>-seed-<n>.json, which holds the settings beside the result.
class RunStore {
 public:
  // `shared` is what all runs depend on beside their own options: the text, the part of it that is evaluated, the versions and
  // the processor.
  RunStore(std::filesystem::path folder, nlohmann::ordered_json shared) : results_(std::move(folder), std::move(shared)) {}

  // Nothing where there is no file, where it cannot be read, or where its settings are not exactly these.
  std::optional<StudyRun> Find(const StudyModel& model, const TrainOptions& options) const;
  // Throws FileError.
  void Keep(const StudyModel& model, const TrainOptions& options, const StudyRun& run) const;

  // The name of a run, and of its file without the ending.
  static std::string NameOf(const StudyModel& model, const TrainOptions& options);

  const std::filesystem::path& folder() const { return results_.folder(); }
  const ResultStore& results() const { return results_; }

 private:
  ResultStore results_;
};

// Every option of a training, by the names of the command line.
nlohmann::ordered_json ToJson(const TrainOptions& options);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_RUN_STORE_H_
