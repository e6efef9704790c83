// A model with the data that it learns from.
#ifndef HEED_LAB_TRAINING_LEARNER_H_
#define HEED_LAB_TRAINING_LEARNER_H_

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace heed::lab {

// On the part of the data by which choices are made.
struct ValidationLoss {
  std::vector<double> blocks;  // of each block of the data
  double mean = 0;             // over all predictions
};

class Learner {
 public:
  virtual ~Learner() = default;

  virtual torch::nn::Module& module() = 0;
  // The loss of the next batch. The same learner with the same seed sees the same batches.
  virtual at::Tensor NextLoss() = 0;
  // What one of these losses is in the unit of Validate.
  virtual double loss_unit() const { return 1; }
  // With the model as it is, in evaluation mode. Throws Divergence where it is not finite, and Interruption on Ctrl-C.
  virtual ValidationLoss Validate() = 0;
};

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_LEARNER_H_
