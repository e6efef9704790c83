// What to study on labelled sequences: which models, how large, how long.
#ifndef HEED_LAB_SERIES_OPTIONS_H_
#define HEED_LAB_SERIES_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/runs/fields.h"
#include "lab/training/options.h"

namespace heed::lab {

struct SeriesOptions {
  std::string budget = "default";
  std::vector<std::string> encoders;   // of EncoderNames()
  std::vector<std::string> positions;  // of attention; of PositionSchemeNames()
  int64_t layers = 2, heads = 4, width = 32;
  int64_t batch = 16;                                    // sequences or windows a step
  double seconds = 5;                                    // of one core, of each training
  int64_t all_steps = 0;                                 // of each training instead; 0: by time
  std::vector<double> rates = {1e-3, 3e-3, 1e-2, 3e-2};  // learning rates to choose among, rising
  std::vector<double> step_seconds;                      // by model: what the pilot is to have measured, see Hold
  int64_t context = 32;                                  // of a forecast: steps of a window
  int64_t horizon = 1;                                   // of a forecast: values foretold after the window
  int64_t longest = 1024;   // steps of a sequence that are read, the last ones; bounds time and memory
  double validation = 0.2;  // and as much again to test: share of the sequences, or of the end of each for a forecast
  int64_t seeds = 3;        // runs of each model, with seeds seed, seed + 1, ..
  uint64_t seed = 0;
  int threads = 1;    // runs side by side, each with one thread; results do not depend on it
  bool quiet = true;  // no messages and no progress on stderr
};

// "quick", "default" or "long", by the table in docs/series.md; throws InvalidArgument that lists them.
SeriesOptions SeriesBudget(const std::string& budget);

Fields FieldsOf(SeriesOptions& options);

// How every model is trained, with so many steps at this rate.
TrainOptions SeriesTraining(int64_t steps, double rate);

// Throws InvalidArgument that names the option and what it may be.
void Validate(const SeriesOptions& options);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_OPTIONS_H_
