// What weights are loaded into and taken from: a module of C++, or one of another language that describes itself.
#ifndef HEED_NN_SRC_WEIGHTS_MODULE_H_
#define HEED_NN_SRC_WEIGHTS_MODULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "heed/nn/weights.h"
#include "heed/weight_plan.h"

namespace heed::nn {

struct NamedTensor {
  std::string name;  // dotted
  at::Tensor tensor;
  const char* kind;  // in messages: "parameter", "buffer"
};

// A tensor that is known under several names stands here under each of them.
struct ModuleWeights {
  std::vector<NamedTensor> tensors;  // parameters in the order of their making, then the buffers of a state dict
  std::vector<AttentionHeads> attention;
};

ModuleWeights WeightsOf(const torch::nn::Module& module);

// What heed/nn/weights.h says of load_weights, export_weights and save_weights.
void LoadWeights(const ModuleWeights& module, const TensorMap& tensors, Framework framework, const std::string& prefix);
void LoadWeights(const ModuleWeights& module, const std::string& path, Framework framework, const std::string& prefix);
TensorMap ExportWeights(const ModuleWeights& module, Framework framework, Layers layers, const std::string& prefix);
void SaveWeights(const ModuleWeights& module, const std::string& path, Framework framework, Layers layers,
                 const std::string& prefix);

// Throws as LoadWeights would for tensors of these shapes and types; `described` need not hold numbers, and nothing is loaded.
// The names of those that would be read.
std::vector<std::string> CheckWeights(const ModuleWeights& module, const TensorMap& described, Framework framework,
                                      const std::string& prefix);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_WEIGHTS_MODULE_H_
