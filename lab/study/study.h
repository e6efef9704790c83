// Which sequence encoder and which positional encoding for a text: the same small model with each, trained and measured, and
// what positions and single layers are by themselves.
#ifndef HEED_LAB_STUDY_STUDY_H_
#define HEED_LAB_STUDY_STUDY_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/comparison/comparison.h"
#include "lab/data/baselines.h"
#include "lab/data/corpus.h"
#include "lab/data/text.h"
#include "lab/depth/depth.h"
#include "lab/positions/positions.h"
#include "lab/report/environment.h"
#include "lab/runs/measurements.h"
#include "lab/study/options.h"
#include "lab/tasks/tasks.h"
#include "lab/training/run_folder.h"

namespace heed::lab {

struct StudyResult {
  StudyOptions options;
  std::string command;  // that gives the same numbers
  Environment environment;
  TextIdentity text;
  int64_t vocabulary = 0, training = 0, validation = 0;  // characters; validation: those that were evaluated
  Baselines baselines;
  std::vector<Measurements> objectives;  // causal, masked; see StudyColumns
  RotationCheck rotation;
  Comparison comparison;
  std::optional<DepthResult> depth;  // see DeepStacks
  std::optional<TasksResult> tasks;  // where the options have any

  const Measurements& Of(Objective objective) const { return objectives[objective == Objective::kCausal ? 0 : 1]; }
};

// Every model with every seed and both objectives, causal first, on these parts of a text, under one progress bar named `what`;
// runs that the store holds, where there is one, are not repeated (DoRuns).
std::vector<Measurements> TrainModels(const std::string& what, const Corpus& corpus, const StudyOptions& options,
                                      const ResultStore* store);

// Trains every model with both objectives, measures deep stacks, checks the encoding's rotation, compares single layers and
// learns synthetic tasks. Every finished run is kept in folder/runs or folder/task-runs; the next study with the same settings
// finds it there. The result is the same for any number of threads, but for the speeds. Throws InvalidArgument that names the
// option or the text, FileError, and Interruption on Ctrl-C.
StudyResult RunStudy(const Text& text, const StudyOptions& options, const std::filesystem::path& folder);

// Writes report.html, whose path it returns, study.json, runs.csv, compare.csv, compare.json, depth.csv, depth-heads.csv,
// depth.json, tasks.csv and the figures, each beside and renamed. Throws FileError.
std::filesystem::path WriteStudy(const StudyResult& result, const std::filesystem::path& folder);

// What is in study.json; `whole`: with the training loss over the steps of every run, and what the sections tell.
nlohmann::ordered_json StudyJson(const StudyResult& result, bool whole);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_STUDY_H_
