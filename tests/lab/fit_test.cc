#include "lab/training/fit.h"

#include <signal.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "lab/training/interrupt.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

TrainOptions Steps(int64_t steps) {
  TrainOptions options;
  options.steps = steps;
  options.warmup = 0;
  return options;
}

// A module whose loss is its weight, so that its gradient is 1 whatever the weight.
struct Slope {
  Slope() {
    const at::NoGradGuard no_grad;
    module->weight.fill_(1.0);
  }
  NextLoss Loss() {
    return [this] {
      ++batches;
      return module->weight.sum();
    };
  }
  double weight() const { return module->weight.item<double>(); }

  torch::nn::Linear module{torch::nn::LinearOptions(1, 1).bias(false)};
  int batches = 0;
};

TEST(FitTest, TellsEveryStepOnceItIsDone) {
  Slope slope;
  std::vector<int64_t> numbers;
  std::vector<double> losses;
  FitHooks hooks;
  hooks.on_step = [&](const FitStep& step) {
    numbers.push_back(step.number);
    losses.push_back(step.loss);
    EXPECT_EQ(slope.batches, step.number);
    EXPECT_LT(slope.weight(), step.loss) << "the loss is that before the update";
    EXPECT_GT(step.seconds, 0);
    EXPECT_GT(step.thread_seconds, 0);
    EXPECT_TRUE(slope.module->is_training());
  };
  slope.module->eval();
  const FitReport report = Fit(*slope.module, Steps(20), slope.Loss(), hooks);
  EXPECT_EQ(numbers.size(), 20u);
  EXPECT_EQ(numbers.front(), 1);
  EXPECT_EQ(numbers.back(), 20);
  EXPECT_EQ(report.last_loss, losses[18] / 2 + losses[19] / 2) << "a tenth of the steps";
  EXPECT_GT(report.step_seconds, 0);
  EXPECT_FALSE(slope.module->is_training());
}

TEST(FitTest, StepsInTwoPartsAreTheStepsInOne) {
  Slope whole, parts;
  const TrainOptions options = Steps(9);
  Fit(*whole.module, options, whole.Loss());
  AdamW optimizer(NamedParameters(*parts.module), options);
  Fit(optimizer, options.clip, 0, 4, parts.Loss());
  EXPECT_EQ(parts.batches, 4);
  EXPECT_NE(parts.weight(), whole.weight());
  Fit(optimizer, options.clip, 4, 9, parts.Loss());
  EXPECT_EQ(parts.weight(), whole.weight());
  Fit(optimizer, options.clip, 9, 9, parts.Loss());
  EXPECT_EQ(parts.batches, 9) << "nothing is left";
}

TEST(FitTest, CtrlCIsHeardBeforeTheNextStep) {
  Slope slope;
  WatchForInterrupt();
  FitHooks hooks;
  hooks.on_step = [](const FitStep& step) {
    if (step.number == 3) raise(SIGINT);
  };
  EXPECT_EQ(ErrorOf<Interruption>([&] { Fit(*slope.module, Steps(9), slope.Loss(), hooks); }), "interrupted during training");
  EXPECT_EQ(slope.batches, 3);
  hooks.on_interrupt = [] { throw Interruption("after a checkpoint"); };
  EXPECT_EQ(ErrorOf<Interruption>([&] { Fit(*slope.module, Steps(9), slope.Loss(), hooks); }), "after a checkpoint");
  EXPECT_EQ(slope.batches, 3);
  WatchForInterrupt();
}

}  // namespace
}  // namespace heed::lab
