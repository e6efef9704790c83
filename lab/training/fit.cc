#include "lab/training/fit.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <vector>

#include <torch/utils.h>

#include "lab/training/side_by_side.h"

namespace heed::lab {

void BuildSeeded(uint64_t seed, const std::function<void()>& build) {
  static std::mutex generator;
  const std::lock_guard<std::mutex> lock(generator);
  torch::manual_seed(seed);
  build();
}

void Fit(AdamW& optimizer, double clip, int64_t begin, int64_t end, const NextLoss& next_loss, const FitHooks& hooks) {
  for (int64_t step = begin; step < end; ++step) {
    if (hooks.interrupted()) {
      if (hooks.on_interrupt) hooks.on_interrupt();
      throw Interruption("interrupted during training");
    }
    const auto start = std::chrono::steady_clock::now();
    const double thread_start = ThreadSeconds();
    const double loss = TrainStep(optimizer, clip, step, next_loss, hooks.backward);
    const double thread_seconds = ThreadSeconds() - thread_start;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (hooks.on_step) hooks.on_step({step + 1, loss, seconds, thread_seconds});
  }
}

double MedianSeconds(const std::function<double()>& step) {
  constexpr int64_t kLeast = 5, kBefore = 2;
  constexpr double kTotal = 1;
  for (int64_t i = 0; i < kBefore; ++i) step();
  std::vector<double> seconds;
  for (double total = 0; total < kTotal || std::ssize(seconds) < kLeast; total += seconds.back()) seconds.push_back(step());
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return std::max(*middle, 1e-9);
}

FitReport Fit(torch::nn::Module& module, const TrainOptions& options, const NextLoss& next_loss, const FitHooks& hooks) {
  const int64_t counted = std::max<int64_t>(1, options.steps / 10);
  FitReport report;
  FitHooks reported = hooks;
  reported.on_step = [&](const FitStep& step) {
    if (step.number > options.steps - counted) report.last_loss += step.loss / static_cast<double>(counted);
    report.step_seconds += step.thread_seconds / static_cast<double>(options.steps);
    if (hooks.on_step) hooks.on_step(step);
  };
  AdamW optimizer(NamedParameters(module), options);
  module.train();
  Fit(optimizer, options.clip, 0, options.steps, next_loss, reported);
  module.eval();
  return report;
}

}  // namespace heed::lab
