// One step of training, the same for every kind of run, and the one rule for numbers that are no longer finite.
#ifndef HEED_LAB_TRAINING_STEP_H_
#define HEED_LAB_TRAINING_STEP_H_

#include <cstdint>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "lab/training/divergence.h"
#include "lab/training/optimizer.h"

namespace heed::lab {

// Computes the gradients of a loss in step `step`, counted from 0, and returns the loss that they are of.
using BackwardPass = std::function<double(const at::Tensor& loss, int64_t step)>;
double PlainBackward(const at::Tensor& loss, int64_t step);

// Step `step`, counted from 0: the gradient of the loss, no longer than `clip` (0: no limit), and the update by it. Returns the
// loss. Throws Divergence that names the step, counted from 1, where the loss or the norm of the gradient is not finite, with
// the parameters as they were, or where a parameter is not finite after the update.
double TrainStep(AdamW& optimizer, double clip, int64_t step, const std::function<at::Tensor()>& loss,
                 const BackwardPass& backward = PlainBackward);

// Throw Divergence that begins with `where` and names what is not finite. Tensors of whole numbers are.
void RequireFinite(const std::string& where, const NamedTensors& tensors);
void RequireFinite(const std::string& where, const std::string& name, double value);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_STEP_H_
