// AdamW with clipping, and with a rate that falls or without a schedule.
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

// Rises linearly over the warm-up. With the schedule "cosine" it then falls along half a cosine (Loshchilov and Hutter 2017,
// "SGDR") to min_lr at the last step; with "free" it stays. `step` counts from 0.
double LearningRate(const TrainOptions& options, int64_t step);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Those of named_parameters(), in their order.
NamedTensors NamedParameters(const torch::nn::Module& module);

// Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2. Matrices decay, vectors do not. Parameters
// that are zero when the optimiser is made learn at zero_rate times the rate and do not decay: tables of relative biases,
// biases of linear layers. A step is about as long as the rate, whatever the gradient, and what starts at zero and has to grow
// to the size of a score would hardly leave its place at the rate that suits matrices of small random numbers.
//
// With the schedule "free" the steps do not depend on how many there will be (Defazio et al. 2024, "The road less scheduled",
// algorithm 1): AdamW without its mean gradient moves an iterate; the weights to use are the mean of all iterates, each weighed
// by the square of its rate; gradients are taken at a point between the two, which lies beta1 of the way to the mean.
class AdamW {
 public:
  AdamW(NamedTensors parameters, const TrainOptions& options);

  void ClearGradients();
  // Scales all gradients so that their norm is at most `largest` (0: no limit); returns the norm they had.
  double ClipGradients(double largest);
  // step counts from 0.
  void Step(int64_t step);
  // The parameters become the weights to use, or those that the next gradient is taken at. With the schedule "cosine" both are
  // the same. Steps and gradients need the second, which is where an optimiser begins.
  void UseMeans();
  void UsePoints();

  const NamedTensors& parameters() const { return parameters_; }
  // The moments, named "exp_avg.<parameter>" and "exp_avg_sq.<parameter>"; with the schedule "free" also "iterate.<parameter>"
  // and "mean.<parameter>". They share memory with the optimiser.
  NamedTensors State() const;

 private:
  struct Group {
    double rate;  // in units of the learning rate
    double weight_decay;
    std::vector<at::Tensor> parameters, averages, squares;
    std::vector<at::Tensor> iterates, means;  // of the schedule "free"
  };
  void Step(const Group& group, int64_t step, const at::Tensor& step_count) const;
  void UsePoints(const Group& group) const;

  TrainOptions options_;
  bool free_;
  NamedTensors parameters_, state_;
  Group matrices_, vectors_, zeros_;
};

// The weights to use are in the model for as long as this lives.
class MeansInUse {
 public:
  explicit MeansInUse(AdamW& optimizer) : optimizer_(optimizer) { optimizer_.UseMeans(); }
  ~MeansInUse() { optimizer_.UsePoints(); }
  MeansInUse(const MeansInUse&) = delete;
  MeansInUse& operator=(const MeansInUse&) = delete;

 private:
  AdamW& optimizer_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_OPTIMIZER_H_
