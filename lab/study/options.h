// What to study: which models, how large, how long.
#ifndef HEED_LAB_STUDY_OPTIONS_H_
#define HEED_LAB_STUDY_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/data/objective.h"
#include "lab/runs/contender.h"
#include "lab/runs/fields.h"

namespace heed::lab {

// Lengths at which every model is evaluated, in units of the training length.
inline constexpr int64_t kLengthMultiples[] = {1, 2, 4};

struct StudyOptions {
  std::string budget = "default";
  std::vector<std::string> encoders;         // of EncoderNames()
  std::vector<std::string> positions;        // of PositionSchemeNames()
  std::vector<std::string> objectives;       // of "causal", "masked"
  int64_t layers = 0, heads = 0, width = 0;  // of every model
  int64_t context = 0;                       // training length, characters
  int64_t batch = 0;                         // windows a step
  double seconds = 0;                        // of one core, of each training
  int64_t all_steps = 0;                     // of each training instead; 0: by time
  std::vector<double> rates;                 // learning rates to choose among, rising
  std::vector<double> step_seconds;          // by objective and model: what the pilot is to have measured, see Hold
  int64_t validation = 0, test = 0;          // characters of these parts that are evaluated, at most
  int64_t seeds = 3;                         // runs of each model, with seeds seed, seed + 1, ..
  uint64_t seed = 0;
  int threads = 1;    // runs side by side; each computes with one thread, so the results do not depend on it
  bool quiet = true;  // no messages and no progress on stderr
};

// "quick", "default" or "long", by the table in docs/study.md; throws InvalidArgument that lists them.
StudyOptions BudgetOptions(const std::string& budget);

Fields FieldsOf(StudyOptions& options);

// Throws InvalidArgument that names the option and what it may be.
void Validate(const StudyOptions& options);

// The command that gives the same numbers for the text at `text`, none for an empty path, in this folder.
std::string CommandOf(const StudyOptions& options, const std::string& text, const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_OPTIONS_H_
