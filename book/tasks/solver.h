// A model that is trained on a task and answers it.
#ifndef HEED_BOOK_TASKS_SOLVER_H_
#define HEED_BOOK_TASKS_SOLVER_H_

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "book/tasks/options.h"
#include "book/tasks/task.h"
#include "lab/runs/contender.h"

namespace heed::lab {

class Solver {
 public:
  virtual ~Solver() = default;
  // Mean over the scored places: cross-entropy in nats, or squared error. Differentiable.
  virtual at::Tensor Loss(const TaskBatch& batch) = 0;
  // The sum over the scored places of what the task measures: right answers, or squared errors. Throws Divergence where an
  // answer is not finite.
  virtual double Score(const TaskBatch& batch) = 0;
  virtual torch::nn::Module& module() = 0;
  // The most steps that it takes.
  virtual int64_t longest() const = 0;
};

// Draws the weights from PyTorch's default generator. A task that translates is given an encoder (nn::TransformerEncoder for
// attention with sinusoidal positions, else the named one behind an embedding) and an nn::TransformerDecoder of the same number
// of layers, whose cross-attention reads the encoder's outputs; the others are given a SequenceModel. ffn_width is that of the
// encoder.
std::unique_ptr<Solver> MakeSolver(const SequenceTask& task, const Contender& contender, int64_t ffn_width,
                                   const TaskOptions& options);

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SOLVER_H_
