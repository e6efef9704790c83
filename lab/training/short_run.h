// One short training run on a text, and what is measured of it: what experiments on texts repeat.
#ifndef HEED_LAB_TRAINING_SHORT_RUN_H_
#define HEED_LAB_TRAINING_SHORT_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "lab/data/corpus.h"
#include "lab/training/language_model.h"
#include "lab/training/options.h"

namespace heed::lab {

// The steps that end a point of the training curve: all of few, else about forty at even distances.
std::vector<int64_t> CurveSteps(int64_t steps);

// Losses are means in nats per predicted character.
struct ShortRun {
  LanguageModel model{nullptr};
  std::vector<double> losses;    // on the validation text, by length; NaN where a learned table ends
  std::vector<double> curve;     // of training, by CurveSteps: the mean of the steps since the point before
  double tokens_per_second = 0;  // trained on, per second of this thread's own time
};

// Trains a model that starts by ScaleToWidth, then evaluates it in windows of each length, in the calling thread; several calls
// may run side by side. Throws Divergence, and Interruption on Ctrl-C.
ShortRun TrainShortly(const Corpus& corpus, const TrainOptions& options, const std::vector<int64_t>& lengths,
                      const std::function<void()>& on_step);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_SHORT_RUN_H_
