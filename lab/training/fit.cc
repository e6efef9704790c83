#include "lab/training/fit.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <mutex>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/util/StringUtil.h>
#include <torch/utils.h>

#include "lab/report/figure.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

constexpr const char* kAdvice = "; a lower lr or weight_decay may help";

std::string Left(int64_t step) { return "training diverged at step " + std::to_string(step + 1); }

// The largest size of an element tells of every NaN and infinity, and unlike a sum of squares it cannot overflow.
bool IsFinite(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || !at::isFloatingType(tensor.scalar_type())) return true;
  return std::isfinite(at::linalg_vector_norm(tensor, std::numeric_limits<double>::infinity()).item<double>());
}

double TrainStep(AdamW& optimizer, double clip, int64_t step, const NextLoss& next_loss, const BackwardPass& backward) {
  optimizer.ClearGradients();
  const at::Tensor loss = next_loss();
  if (!backward) loss.backward();
  const double number = backward ? backward(loss, step) : loss.item<double>(), gradient = optimizer.ClipGradients(clip);
  if (!std::isfinite(number) || !std::isfinite(gradient)) {
    throw Divergence(Left(step) + ": the loss is " + FormatNumber(number) + ", the norm of the gradient " +
                     FormatNumber(gradient) + kAdvice);
  }
  optimizer.Step(step);
  RequireFinite(Left(step), optimizer.parameters());
  return number;
}

}  // namespace

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
  double total = 0;
  while (total < kTotal || std::ssize(seconds) < kLeast) total += seconds.emplace_back(step());
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

void RequireFinite(const std::string& where, const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    if (!IsFinite(tensor)) throw Divergence(c10::str(where, ": the values of '", name, "' are not all finite", kAdvice));
  }
}

void RequireFinite(const std::string& where, const std::string& name, double value) {
  if (!std::isfinite(value)) throw Divergence(where + ": " + name + " is " + FormatNumber(value) + kAdvice);
}

}  // namespace heed::lab
