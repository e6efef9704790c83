#include "lab/training/short_run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "lab/training/fit.h"
#include "lab/training/trainer.h"

namespace heed::lab {
namespace {

// Without dropout nothing is drawn from PyTorch's one default generator once the weights are.
Trainer MakeTrainer(const Vocabulary& vocabulary, const Passages& text, const TrainOptions& options) {
  std::optional<Trainer> trainer;
  BuildSeeded(options.seed, [&] { trainer.emplace(Corpus{vocabulary, text, {}}, options); });
  return std::move(*trainer);
}

}  // namespace

ShortRun TrainShortly(const Vocabulary& vocabulary, const Passages& text, const TrainOptions& options,
                      const std::function<void()>& on_step) {
  Trainer trainer = MakeTrainer(vocabulary, text, options);
  ShortRun run{.model = trainer.model(), .curve = std::vector<double>(kCurvePoints, NAN)};
  double sum = 0;
  int64_t count = 0;
  FitHooks hooks;
  hooks.on_step = [&](const FitStep& step) {
    sum += step.loss;
    ++count;
    // Of several points that end with one step the last one tells of it.
    const int64_t point = step.number * kCurvePoints / options.steps;
    if (point > (step.number - 1) * kCurvePoints / options.steps) {
      run.curve[static_cast<std::size_t>(point - 1)] = sum / static_cast<double>(count);
      sum = 0, count = 0;
    }
    on_step();
  };
  trainer.Train(options.steps, hooks);
  return run;
}

double StepSeconds(const Vocabulary& vocabulary, const Passages& text, const TrainOptions& options) {
  TrainOptions endless = options;
  endless.steps = int64_t{1} << 40;
  Trainer trainer = MakeTrainer(vocabulary, text, endless);
  return MedianSeconds([&] {
    double seconds = 0;
    trainer.Train(trainer.step() + 1, {.on_step = [&](const FitStep& step) { seconds = step.thread_seconds; }});
    return seconds;
  });
}

}  // namespace heed::lab
