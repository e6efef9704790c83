// Training from the first step to the last, in memory or in a folder.
#ifndef HEED_LAB_TRAINING_TRAIN_H_
#define HEED_LAB_TRAINING_TRAIN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "lab/data/text.h"
#include "lab/training/language_model.h"
#include "lab/training/metrics.h"
#include "lab/training/options.h"
#include "lab/training/run_folder.h"

namespace heed::lab {

struct TrainCallbacks {
  // Before the first step of this process; `step` steps were done by earlier ones.
  std::function<void(LanguageModel& model, int64_t step)> on_start;
  std::function<void(int64_t step, double loss, double tokens_per_second)> on_step;
  std::function<void(const Metrics& metrics)> on_report;
};

struct TrainResult {
  LanguageModel model{nullptr};
  std::vector<Metrics> metrics;  // the last one is of the finished model
  double seconds = 0.0;          // spent in this process, evaluation included
};

// In memory. Throws InvalidArgument that names the option or the text, Error when the loss leaves the finite numbers, and
// Interruption on Ctrl-C. See Trainer for what is reproducible.
TrainResult Train(const Text& text, const TrainOptions& options, const TrainCallbacks& callbacks = {});

// In a folder: a checkpoint is written before the first step, at every report, and before Interruption is thrown. A folder
// that holds a checkpoint already is refused (InvalidArgument). Throws FileError when a file cannot be written.
TrainResult Train(const Text& text, const TrainOptions& options, const RunFolder& folder, const TrainCallbacks& callbacks = {});

// Goes on where the folder's checkpoint was made, with the options of its config.json, and reaches the same bits as a run
// without interruption on the same number of threads. The text must be the one that the run began with (InvalidArgument).
TrainResult Resume(const Text& text, const RunFolder& folder, const TrainCallbacks& callbacks = {});

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_TRAIN_H_
