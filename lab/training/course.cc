#include "lab/training/course.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "heed/error.h"
#include "lab/training/interrupt.h"

namespace heed::lab {

Course::Course(std::unique_ptr<Learner> learner, const TrainOptions& options)
    : learner_(std::move(learner)), options_(options), optimizer_(NamedParameters(learner_->module()), options) {
  if (options.schedule != "free")
    throw InvalidArgument("schedule: a training that can go on needs free, got " + options.schedule);
}

void Course::GoOn(int64_t steps, const FitHooks& hooks) {
  FitHooks counted = hooks;
  counted.on_step = [&](const FitStep& step) {
    step_ = step.number;
    loss_sum_ += step.loss;
    if (hooks.on_step) hooks.on_step(step);
  };
  try {
    while (!ended_ && step_ < steps) {
      const int64_t begin = step_, next = PointAfter(step_, options_.steps);
      learner_->module().train();
      Fit(
          optimizer_, options_.clip, begin, std::min(next, steps), [&] { return learner_->NextLoss(); }, counted);
      if (step_ == next) Measure();
    }
  } catch (const Divergence&) {
    if (curve_.empty()) throw;
    ended_ = true;
  }
}

void Course::Measure() {
  const MeansInUse means(optimizer_);
  learner_->module().eval();
  const int64_t since = curve_.empty() ? 0 : curve_.back().steps;
  const double training = loss_sum_ / static_cast<double>(step_ - since) * learner_->loss_unit();
  ValidationLoss validation = learner_->Validate();
  curve_.push_back({step_, training, validation.mean});
  loss_sum_ = 0;
  if (curve_.size() == 1 || curve_.back().validation < best().validation) {
    best_ = curve_.size() - 1, best_blocks_ = std::move(validation.blocks);
    best_weights_.clear();
    best_weights_.reserve(optimizer_.parameters().size());
    for (const auto& [name, parameter] : optimizer_.parameters()) best_weights_.push_back(parameter.detach().clone());
  }
  ended_ = PastItsBest(curve_, best_, options_.steps);
}

void Course::AtBest(const std::function<void()>& measure) {
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < best_weights_.size(); ++i) optimizer_.parameters()[i].second.copy_(best_weights_[i]);
  }
  learner_->module().eval();
  measure();
  optimizer_.UsePoints();
}

double StepSeconds(Learner& learner, const TrainOptions& options) {
  AdamW optimizer(NamedParameters(learner.module()), options);
  learner.module().train();
  int64_t step = 0;
  return MedianSeconds([&] {
    double seconds = 0;
    Fit(optimizer, options.clip, step, step + 1, [&] { return learner.NextLoss(); },
        {.on_step = [&](const FitStep& done) { seconds = done.thread_seconds; }});
    ++step;
    return seconds;
  });
}

}  // namespace heed::lab
