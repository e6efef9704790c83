#include "lab/training/step.h"

#include <cmath>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/util/StringUtil.h>

#include "lab/report/figure.h"

namespace heed::lab {
namespace {

constexpr const char* kAdvice = "; a lower lr or weight_decay may help";

std::string Left(int64_t step) { return "training diverged at step " + std::to_string(step + 1); }

// The largest size of an element tells of every NaN and infinity, and unlike a sum of squares it cannot overflow.
bool IsFinite(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || !at::isFloatingType(tensor.scalar_type())) return true;
  return std::isfinite(at::linalg_vector_norm(tensor, std::numeric_limits<double>::infinity()).item<double>());
}

}  // namespace

double PlainBackward(const at::Tensor& loss, int64_t) {
  loss.backward();
  return loss.item<double>();
}

double TrainStep(AdamW& optimizer, double clip, int64_t step, const std::function<at::Tensor()>& loss,
                 const BackwardPass& backward) {
  optimizer.ClearGradients();
  const double number = backward(loss(), step), gradient = optimizer.ClipGradients(clip);
  if (!std::isfinite(number) || !std::isfinite(gradient)) {
    throw Divergence(Left(step) + ": the loss is " + FormatNumber(number) + ", the norm of the gradient " +
                     FormatNumber(gradient) + kAdvice);
  }
  optimizer.Step(step);
  RequireFinite(Left(step), optimizer.parameters());
  return number;
}

void RequireFinite(const std::string& where, const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    if (!IsFinite(tensor)) throw Divergence(c10::str(where, ": the values of '", name, "' are not all finite", kAdvice));
  }
}

void RequireFinite(const std::string& where, const std::string& name, double value) {
  if (!std::isfinite(value)) throw Divergence(where + ": " + name + " is " + FormatNumber(value) + kAdvice);
}

}  // namespace heed::lab
