// Training of any module in memory, one step a batch.
#ifndef HEED_LAB_TRAINING_FIT_H_
#define HEED_LAB_TRAINING_FIT_H_

#include <cstdint>
#include <functional>

#include <torch/nn/module.h>

#include "lab/training/options.h"

namespace heed::lab {

// Calls build with PyTorch's default generator seeded. Threads that build at the same time wait for each other: there is only
// one default generator.
void BuildSeeded(uint64_t seed, const std::function<void()>& build);

struct FitReport {
  double last_loss = 0;     // mean over the last tenth of the steps
  double step_seconds = 0;  // mean of this thread's own time in a step
};

// options.steps steps of AdamW by the options of the optimiser; their model and batch are not looked at. loss makes the next
// batch and returns its loss. Throws Divergence (see TrainStep), and Interruption on Ctrl-C.
FitReport Fit(torch::nn::Module& module, const TrainOptions& options, const std::function<at::Tensor()>& loss,
              const std::function<void()>& on_step);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_FIT_H_
