// Which models, which learning rates, how long.
#ifndef HEED_LAB_RATES_OPTIONS_H_
#define HEED_LAB_RATES_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/data/objective.h"
#include "lab/runs/fields.h"
#include "lab/training/options.h"

namespace heed::lab {

struct RateOptions {
  std::string budget = "default";
  std::vector<std::string> encoders;   // of EncoderNames()
  std::vector<std::string> positions;  // of attention; of PositionSchemeNames()
  std::vector<double> rates;           // after the warm-up; rising
  std::string objective = "causal";    // or "masked"
  int64_t layers = 2, heads = 4, width = 64, context = 64;
  int64_t batch = 8;           // windows a step
  int64_t steps = 300;         // of training
  int64_t validation = 16384;  // characters that are evaluated, at most
  int64_t seeds = 2;           // runs of a model at a rate, with seeds seed, seed + 1, ..
  uint64_t seed = 0;
  int threads = 1;    // runs side by side, each with one thread; results do not depend on it
  bool quiet = true;  // no messages and no progress on stderr

  Objective Aim() const { return ParseObjective(objective); }
};

// "quick", "default" or "long", by the table in docs/rates.md; throws InvalidArgument that lists them.
RateOptions RateBudget(const std::string& budget);

Fields FieldsOf(RateOptions& options);

// Throws InvalidArgument that names the option and what it may be.
void Validate(const RateOptions& options);

// The command that gives the same numbers for the text at `text`, none for an empty path, in this folder.
std::string CommandOf(const RateOptions& options, const std::string& text, const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_LAB_RATES_OPTIONS_H_
