#include "lab/training/fit.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>

#include <torch/utils.h>

#include "heed/error.h"
#include "lab/training/interrupt.h"
#include "lab/training/optimizer.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

NamedTensors Parameters(const torch::nn::Module& module) {
  NamedTensors parameters;
  for (const auto& parameter : module.named_parameters()) parameters.emplace_back(parameter.key(), parameter.value());
  return parameters;
}

double Step(AdamW& optimizer, const TrainOptions& options, int64_t step, const std::function<at::Tensor()>& loss) {
  optimizer.ClearGradients();
  const at::Tensor value = loss();
  value.backward();
  const double gradient = optimizer.ClipGradients(options.clip);
  const double number = value.item<double>();
  if (!std::isfinite(number) || !std::isfinite(gradient)) {
    throw Error("training left the finite numbers at step " + std::to_string(step + 1) + " (loss " + std::to_string(number) +
                ", gradient norm " + std::to_string(gradient) + ")");
  }
  optimizer.Step(step);
  return number;
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
    const double value = Step(optimizer, options, step, loss);
    if (step >= options.steps - counted) report.last_loss += value / static_cast<double>(counted);
    on_step();
  }
  report.step_seconds = (ThreadSeconds() - start) / static_cast<double>(options.steps);
  module.eval();
  return report;
}

}  // namespace heed::lab
