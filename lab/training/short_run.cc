#include "lab/training/short_run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "lab/training/evaluation.h"
#include "lab/training/fit.h"
#include "lab/training/initialisation.h"
#include "lab/training/trainer.h"

namespace heed::lab {
namespace {

constexpr int64_t kCurvePoints = 40;

// Whether a point of the curve ends with this step, counted from 1.
bool EndsPoint(int64_t step, int64_t steps) {
  const int64_t points = std::min(kCurvePoints, steps);
  return step * points / steps > (step - 1) * points / steps;
}

// Without dropout nothing is drawn from PyTorch's one default generator once the weights are.
Trainer MakeTrainer(const Corpus& corpus, const TrainOptions& options) {
  std::optional<Trainer> trainer;
  BuildSeeded(options.seed, [&] {
    trainer.emplace(corpus, options);
    ScaleToWidth(*trainer->model(), options.model.width);
  });
  return std::move(*trainer);
}

void TrainAll(Trainer& trainer, const TrainOptions& options, ShortRun& run, const std::function<void()>& on_step) {
  double sum = 0, seconds = 0;
  int64_t count = 0;
  FitHooks hooks;
  hooks.on_step = [&](const FitStep& step) {
    sum += step.loss;
    seconds += step.thread_seconds;
    ++count;
    if (EndsPoint(step.number, options.steps)) {
      run.curve.push_back(sum / static_cast<double>(count));
      sum = 0, count = 0;
    }
    on_step();
  };
  trainer.Train(options.steps, hooks);
  run.tokens_per_second = static_cast<double>(options.steps * options.batch * options.model.context) / std::max(seconds, 1e-9);
}

}  // namespace

std::vector<int64_t> CurveSteps(int64_t steps) {
  std::vector<int64_t> ends;
  for (int64_t step = 1; step <= steps; ++step) {
    if (EndsPoint(step, steps)) ends.push_back(step);
  }
  return ends;
}

ShortRun TrainShortly(const Corpus& corpus, const TrainOptions& options, const std::vector<int64_t>& lengths,
                      const std::function<void()>& on_step) {
  Trainer trainer = MakeTrainer(corpus, options);
  ShortRun run;
  TrainAll(trainer, options, run, on_step);
  for (const int64_t length : lengths) {
    const bool reached = length <= trainer.model()->longest();
    run.losses.push_back(reached ? Evaluate(trainer.model(), corpus.validation, length).loss : NAN);
  }
  run.model = trainer.model();
  return run;
}

}  // namespace heed::lab
