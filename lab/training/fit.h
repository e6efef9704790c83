// The one loop of training, for every kind of module and of run, and the one rule for numbers that are no longer finite.
#ifndef HEED_LAB_TRAINING_FIT_H_
#define HEED_LAB_TRAINING_FIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "lab/training/interrupt.h"
#include "lab/training/optimizer.h"
#include "lab/training/options.h"

namespace heed::lab {

// Calls build with PyTorch's default generator seeded. Threads that build at the same time wait for each other: there is only
// one default generator.
void BuildSeeded(uint64_t seed, const std::function<void()>& build);

// A step that is done.
struct FitStep {
  int64_t number;  // from 1
  double loss;     // before its update
  // What making the batch, the gradient and the update took: by the clock, and of this thread's own time.
  double seconds, thread_seconds;
};

// Computes the gradients of a loss in step `step`, counted from 0, and returns the loss that they are of.
using BackwardPass = std::function<double(const at::Tensor& loss, int64_t step)>;

struct FitHooks {
  std::function<void(const FitStep& step)> on_step = {};  // after each
  // On Ctrl-C, before the next step: the place for an error that tells more than the Interruption that follows.
  std::function<void()> on_interrupt = {};
  std::function<bool()> interrupted = Interrupted;
  BackwardPass backward = {};  // the default: of the loss as it is
};

// Makes the next batch and returns its loss.
using NextLoss = std::function<at::Tensor()>;

// The steps from begin up to end, without it, counted from 0: the gradient of the loss, no longer than `clip` (0: no limit),
// and the update by it. Throws Divergence that names the step, counted from 1, where the loss or the norm of the gradient is
// not finite, with the parameters as they were, or where a parameter is not finite after the update; Interruption on Ctrl-C.
void Fit(AdamW& optimizer, double clip, int64_t begin, int64_t end, const NextLoss& next_loss, const FitHooks& hooks = {});

struct FitReport {
  double last_loss = 0;     // mean over the last tenth of the steps
  double step_seconds = 0;  // mean of this thread's own time in a step
};

// All options.steps of a module, from the first, by the options of the optimiser; their model and batch are not looked at. The
// module is in training mode meanwhile, in evaluation mode afterwards.
FitReport Fit(torch::nn::Module& module, const TrainOptions& options, const NextLoss& next_loss, const FitHooks& hooks = {});

// The median of what `step` returns, the seconds that it took, over as many calls as a second holds, five at least; two calls
// go before, which also fill caches and pools of memory.
double MedianSeconds(const std::function<double()>& step);

// Throw Divergence that begins with `where` and names what is not finite. Tensors of whole numbers are.
void RequireFinite(const std::string& where, const NamedTensors& tensors);
void RequireFinite(const std::string& where, const std::string& name, double value);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_FIT_H_
