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
#include "lab/data/ngrams.h"
#include "lab/data/text.h"
#include "lab/depth/depth.h"
#include "lab/positions/positions.h"
#include "lab/report/environment.h"
#include "lab/runs/contest.h"
#include "lab/study/options.h"
#include "lab/tasks/tasks.h"
#include "lab/training/run_folder.h"

namespace heed::lab {

struct StudyResult {
  StudyOptions options;
  std::string command;  // that gives the same numbers
  std::string path;     // of the text, as it was given; empty: the language reference
  std::filesystem::path folder;
  Environment environment;
  TextIdentity text;
  int64_t vocabulary = 0;
  int64_t training = 0, validation = 0, test = 0, block = 0;  // characters; of validation and test those that were evaluated
  CountedText counted;                                        // on the test part, block by block
  std::vector<ContestResult> contests;                        // of the options' objectives, in order; see StudyColumns
  RotationCheck rotation;
  Comparison comparison;
  std::optional<DepthResult> depth;  // see DeepStacks
  std::optional<TasksResult> tasks;  // where the options have any

  // Nothing where it was not studied.
  const ContestResult* Of(Objective objective) const;
};

// Holds a contest for every objective, checks the encoding's rotation, compares single layers, and, where the options ask for
// them, measures deep stacks and learns synthetic tasks. Every finished run is kept in folder/runs or folder/task-runs, the
// pilot's among them; the next study with the same settings finds it there. From the pilot on, the result is the same for any
// number of threads, on any machine that computes the same bits. Throws InvalidArgument that names the option or the text,
// FileError, Divergence where every model of an objective diverges, and Interruption on Ctrl-C.
StudyResult RunStudy(const Text& text, const StudyOptions& options, const std::filesystem::path& folder);

// Writes report.html, whose path it returns, study.json, runs.csv, compare.csv, compare.json, depth.csv, depth-heads.csv,
// depth.json, tasks.csv and the figures, each beside and renamed. Throws FileError.
std::filesystem::path WriteStudy(const StudyResult& result, const std::filesystem::path& folder);

// What is in study.json; `whole`: with the training loss over the steps of every run, and what the sections tell.
nlohmann::ordered_json StudyJson(const StudyResult& result, bool whole);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_STUDY_H_
