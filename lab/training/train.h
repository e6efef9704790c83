// Training in a folder, from the first step to the last.
#ifndef HEED_LAB_TRAINING_TRAIN_H_
#define HEED_LAB_TRAINING_TRAIN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lab/data/text.h"
#include "lab/training/options.h"
#include "lab/training/run_folder.h"

namespace heed::lab {

class LanguageModel;
class Ranks;

struct TrainCallbacks {
  // Before the first step of this process; `step` steps were done by earlier ones.
  std::function<void(LanguageModel& model, int64_t step)> on_start;
  std::function<void(int64_t step, double loss, double tokens_per_second)> on_step;
  std::function<void(const Metrics& metrics)> on_report;
};

struct TrainResult {
  std::shared_ptr<LanguageModel> model;
  std::vector<Metrics> metrics;  // the last one is of the finished model
  double seconds = 0.0;          // spent in this process, evaluation included
};

// With ranks (ranks.h) every one of them calls the same function, with the same text and options, and trains its share of every
// batch (Trainer). Rank 0 alone reads and writes the folder, and its errors are every rank's; Ctrl-C on one is Ctrl-C on all.
// All throw RanksError when a rank is lost; the folder then has the last checkpoint.

// A checkpoint is written before the first step, at every report, and before Interruption is thrown, on Ctrl-C. Throws
// InvalidArgument that names the option or the text, or a folder that holds a run already, and FileError when a file cannot be
// written, or the folder is removed or replaced meanwhile. No checkpoint and no line of metrics holds a number that is not
// finite: after a Divergence, which names the step, the folder has the last checkpoint before it. See Trainer for what is
// reproducible.
TrainResult Train(const Text& text, const TrainOptions& options, const RunFolder& folder, const TrainCallbacks& callbacks = {},
                  Ranks* ranks = nullptr);

// Goes on where the folder's checkpoint was made, with the options of its config.json, and reaches the same bits as a run
// without interruption on the same number of threads and ranks. The text must be the one that the run began with
// (InvalidArgument).
// `changed`: the run's options with other values of lr, min_lr, weight_decay and clip for the steps that are left, which
// config.json tells from then on. InvalidArgument where no steps are left.
TrainResult Resume(const Text& text, const RunFolder& folder, const TrainCallbacks& callbacks = {},
                   const std::optional<TrainOptions>& changed = std::nullopt, Ranks* ranks = nullptr);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_TRAIN_H_
