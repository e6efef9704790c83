// What to study: which models, how large, how long.
#ifndef HEED_LAB_STUDY_OPTIONS_H_
#define HEED_LAB_STUDY_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/options/fields.h"
#include "lab/training/options.h"

namespace heed::lab {

enum class StudyKind {
  kText,   // of a text, whose characters are predicted
  kTable,  // of labelled sequences of numbers
};

struct StudyOptions {
  StudyKind kind = StudyKind::kText;
  std::string budget = "default";
  std::vector<std::string> encoders = {};    // of EncoderNames()
  std::vector<std::string> positions = {};   // of PositionSchemeNames()
  int64_t layers = 2, heads = 4, width = 0;  // of every model
  int64_t context = 0;                       // characters of a training window; of a forecast: steps of a window
  int64_t batch = 0;                         // windows, or sequences, a step
  double seconds = 0;                        // of one core, of each training
  int64_t all_steps = 0;                     // of each training instead; 0: by time
  std::vector<double> rates = {};            // learning rates to choose among, rising
  std::vector<double> step_seconds = {};     // by objective and model: what the pilot is to have measured, see Hold
  double for_seconds = 0;                    // of one core, which the answer is for beside `seconds`; 0: for these alone
  double tolerance = 0.01;                   // see ContestOptions
  int64_t seeds = 3;                         // runs of each model, in the mean, with seeds seed, seed + 1, ..
  uint64_t seed = 0;
  std::string keep = "winner";  // or "all": which models are kept in folders of their own
  int threads = 1;              // runs side by side; each computes with one thread, so the results do not depend on it
  bool quiet = true;            // no messages and no progress on stderr

  // Of a text.
  std::vector<std::string> objectives = {};  // of "causal", "masked"
  int64_t validation = 0, test = 0;          // characters of these parts that are evaluated, at most
  // Of a table, see SeriesCut.
  int64_t horizon = 1, longest = 1024;
  double validation_share = 0.2;
};

// "quick", "default" or "long", by the tables in docs/study.md and docs/series.md; throws InvalidArgument that lists them.
StudyOptions BudgetOptions(const std::string& budget, StudyKind kind = StudyKind::kText);

Fields FieldsOf(StudyOptions& options);

// Throws InvalidArgument that names the option and what it may be.
void Validate(const StudyOptions& options);

// How a model is trained with so many steps at this rate.
TrainOptions TrainingOf(const StudyOptions& options, int64_t steps, double rate, uint64_t seed);

// The command that gives the same numbers, in this folder. `words`: see Subject.
std::string CommandOf(const StudyOptions& options, const std::string& words, const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_OPTIONS_H_
