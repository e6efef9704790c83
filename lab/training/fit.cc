#include "lab/training/fit.h"

#include <algorithm>
#include <mutex>

#include <torch/utils.h>

#include "lab/training/interrupt.h"
#include "lab/training/optimizer.h"
#include "lab/training/side_by_side.h"
#include "lab/training/step.h"

namespace heed::lab {
namespace {

NamedTensors Parameters(const torch::nn::Module& module) {
  NamedTensors parameters;
  for (const auto& parameter : module.named_parameters()) parameters.emplace_back(parameter.key(), parameter.value());
  return parameters;
}

}  // namespace

void BuildSeeded(uint64_t seed, const std::function<void()>& build) {
  static std::mutex generator;
  const std::lock_guard<std::mutex> lock(generator);
  torch::manual_seed(seed);
  build();
}

FitReport Fit(torch::nn::Module& module, const TrainOptions& options, const std::function<at::Tensor()>& loss,
              const std::function<void()>& on_step) {
  AdamW optimizer(Parameters(module), options);
  module.train();
  const int64_t counted = std::max<int64_t>(1, options.steps / 10);
  const double start = ThreadSeconds();
  FitReport report;
  for (int64_t step = 0; step < options.steps; ++step) {
    if (Interrupted()) throw Interruption("interrupted during training");
    const double value = TrainStep(optimizer, options.clip, step, loss);
    if (step >= options.steps - counted) report.last_loss += value / static_cast<double>(counted);
    on_step();
  }
  report.step_seconds = (ThreadSeconds() - start) / static_cast<double>(options.steps);
  module.eval();
  return report;
}

}  // namespace heed::lab
