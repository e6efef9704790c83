#include "lab/training/optimizer.h"

#include <cmath>
#include <numbers>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

namespace heed::lab {
namespace {

constexpr double kEpsilon = 1e-8;

std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const at::Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter));
  }
  return gradients;
}

// What an iterate counts in the mean of all up to it: the square of its rate over the sum of those of all, in units of the rate
// after the warm-up. Whole after the first step.
double ShareOfIterate(const TrainOptions& options, int64_t step) {
  const auto warmup = static_cast<double>(WarmUp(options)), number = static_cast<double>(step + 1);
  const auto squares = [](double n) { return n * (n + 1) * (2 * n + 1) / 6; };  // 1 + 4 + .. + n^2
  if (number <= warmup) return number * number / squares(number);
  const double rising = warmup > 0 ? squares(warmup) / ((warmup + 1) * (warmup + 1)) : 0;
  return 1 / (rising + number - warmup);
}

bool IsZero(const at::Tensor& tensor) { return !tensor.any().item<bool>(); }

}  // namespace

double LearningRate(const TrainOptions& options, int64_t step) {
  const int64_t warmup = WarmUp(options);
  if (step < warmup) return options.lr * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  if (options.schedule == "free") return options.lr;
  const double span = static_cast<double>(options.steps - warmup);
  const double share = span > 0.0 ? static_cast<double>(step - warmup) / span : 1.0;
  return options.min_lr + 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(share, 1.0))) * (options.lr - options.min_lr);
}

NamedTensors NamedParameters(const torch::nn::Module& module) {
  NamedTensors parameters;
  for (const auto& parameter : module.named_parameters()) parameters.emplace_back(parameter.key(), parameter.value());
  return parameters;
}

AdamW::AdamW(NamedTensors parameters, const TrainOptions& options)
    : options_(options),
      free_(options.schedule == "free"),
      parameters_(std::move(parameters)),
      matrices_{1.0, options.weight_decay, {}, {}, {}, {}, {}},
      vectors_{1.0, 0.0, {}, {}, {}, {}, {}},
      zeros_{options.zero_rate, 0.0, {}, {}, {}, {}, {}} {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters_) {
    Group& group = IsZero(parameter) ? zeros_ : parameter.dim() < 2 ? vectors_ : matrices_;
    group.parameters.push_back(parameter);
    group.averages.push_back(at::zeros_like(parameter));
    group.squares.push_back(at::zeros_like(parameter));
    state_.emplace_back("exp_avg." + name, group.averages.back());
    state_.emplace_back("exp_avg_sq." + name, group.squares.back());
    if (!free_) continue;
    group.iterates.push_back(parameter.detach().clone());
    group.means.push_back(parameter.detach().clone());
    state_.emplace_back("iterate." + name, group.iterates.back());
    state_.emplace_back("mean." + name, group.means.back());
  }
}

NamedTensors AdamW::State() const { return state_; }

void AdamW::ClearGradients() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
}

double AdamW::ClipGradients(double largest) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  double squares = 0.0;
  for (const at::Tensor& norm : at::_foreach_norm(gradients)) squares += std::pow(norm.item<double>(), 2);
  const double norm = std::sqrt(squares);
  if (largest > 0.0 && norm > largest) at::_foreach_mul_(gradients, largest / norm);
  return norm;
}

void AdamW::Step(int64_t step) {
  const at::NoGradGuard no_grad;
  const at::Tensor step_count = at::full({}, static_cast<double>(step + 1), at::kFloat);
  for (const Group* group : {&matrices_, &vectors_, &zeros_}) {
    if (!group->parameters.empty()) Step(*group, step, step_count);
  }
}

void AdamW::Step(const Group& group, int64_t step, const at::Tensor& step_count) const {
  const std::vector<at::Tensor> counts(group.parameters.size(), step_count);
  at::_fused_adamw_(free_ ? group.iterates : group.parameters, GradientsOf(group.parameters), group.averages, group.squares, {},
                    counts, group.rate * LearningRate(options_, step), free_ ? 0 : options_.beta1, options_.beta2,
                    group.weight_decay, kEpsilon, /*amsgrad=*/false, /*maximize=*/false);
  if (!free_) return;
  at::_foreach_lerp_(group.means, group.iterates, ShareOfIterate(options_, step));
  UsePoints(group);
}

void AdamW::UsePoints(const Group& group) const {
  at::_foreach_copy_(group.parameters, group.iterates);
  at::_foreach_lerp_(group.parameters, group.means, options_.beta1);
}

void AdamW::UsePoints() {
  const at::NoGradGuard no_grad;
  for (const Group* group : {&matrices_, &vectors_, &zeros_}) {
    if (free_ && !group->parameters.empty()) UsePoints(*group);
  }
}

void AdamW::UseMeans() {
  const at::NoGradGuard no_grad;
  for (const Group* group : {&matrices_, &vectors_, &zeros_}) {
    if (free_ && !group->parameters.empty()) at::_foreach_copy_(group->parameters, group->means);
  }
}

}  // namespace heed::lab
