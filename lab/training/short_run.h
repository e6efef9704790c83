// One short training run on a text: what experiments on texts repeat.
#ifndef HEED_LAB_TRAINING_SHORT_RUN_H_
#define HEED_LAB_TRAINING_SHORT_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "lab/data/passages.h"
#include "lab/data/vocabulary.h"
#include "lab/training/language_model.h"
#include "lab/training/options.h"

namespace heed::lab {

// A training curve has so many points, each after an equal share of the steps.
inline constexpr int64_t kCurvePoints = 20;

struct ShortRun {
  LanguageModel model{nullptr};
  // Of training, in nats per predicted character: the mean over the steps since the point before, NaN where there are none as
  // of a run with fewer steps than points.
  std::vector<double> curve;
};

// Trains in the calling thread; several calls may run side by side. Throws Divergence, and Interruption on Ctrl-C.
ShortRun TrainShortly(const Vocabulary& vocabulary, const Passages& text, const TrainOptions& options,
                      const std::function<void()>& on_step);

// This thread's own seconds in a step of such a training, see MedianSeconds.
double StepSeconds(const Vocabulary& vocabulary, const Passages& text, const TrainOptions& options);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_SHORT_RUN_H_
