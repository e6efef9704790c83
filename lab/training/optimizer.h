// AdamW with warm-up, cosine decay and clipping.
#ifndef HEED_LAB_TRAINING_OPTIMIZER_H_
#define HEED_LAB_TRAINING_OPTIMIZER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "lab/training/options.h"

namespace heed::lab {

// Rises linearly over the warm-up, then falls along half a cosine (Loshchilov and Hutter 2017, "SGDR") to min_lr at the last
// step. `step` counts from 0.
double LearningRate(const TrainOptions& options, int64_t step);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Those of named_parameters(), in their order.
NamedTensors NamedParameters(const torch::nn::Module& module);

// Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2. Matrices decay, vectors do not. Parameters
// that are zero when the optimiser is made learn at zero_rate times the rate and do not decay: tables of relative biases,
// biases of linear layers. A step is about as long as the rate, whatever the gradient, and what starts at zero and has to grow
// to the size of a score would hardly leave its place at the rate that suits matrices of small random numbers.
class AdamW {
 public:
  AdamW(NamedTensors parameters, const TrainOptions& options);

  void ClearGradients();
  // Scales all gradients so that their norm is at most `largest` (0: no limit); returns the norm they had.
  double ClipGradients(double largest);
  // step counts from 0.
  void Step(int64_t step);

  const NamedTensors& parameters() const { return parameters_; }
  // The moments, named "exp_avg.<parameter>" and "exp_avg_sq.<parameter>". They share memory with the optimiser.
  NamedTensors State() const;

 private:
  struct Group {
    double rate;  // in units of the learning rate
    double weight_decay;
    std::vector<at::Tensor> parameters, averages, squares;
  };
  void Step(const Group& group, double learning_rate, const at::Tensor& step_count) const;

  TrainOptions options_;
  NamedTensors parameters_, state_;
  Group matrices_, vectors_, zeros_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_OPTIMIZER_H_
