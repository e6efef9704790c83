// Weights of other frameworks, into heed's modules and back.
#ifndef HEED_NN_WEIGHTS_H_
#define HEED_NN_WEIGHTS_H_

#include <map>
#include <string>

#include <torch/nn/module.h>

namespace heed::nn {

enum class Framework { kTorch, kFlax, kKeras, kPaddle, kMxnet };

// "torch", "flax", "keras", "paddle", "mxnet"; throws InvalidArgument that lists them.
Framework ParseFramework(const std::string& name);

using TensorMap = std::map<std::string, at::Tensor>;

// Fills every parameter of the module from a checkpoint with the framework's own names and layouts. A parameter without a
// source, a source without a parameter and a shape that does not fit are errors that name both; nothing is changed then.
// Keras layers without bias, scope prefixes ("params/") and the framework's numbering of blocks are understood.
void load_weights(torch::nn::Module& module, const std::string& path, Framework framework = Framework::kTorch);
void load_weights(torch::nn::Module& module, const TensorMap& tensors, Framework framework = Framework::kTorch);

// The module's parameters with the framework's names and layouts.
TensorMap export_weights(const torch::nn::Module& module, Framework framework = Framework::kTorch);
void save_weights(const torch::nn::Module& module, const std::string& path, Framework framework = Framework::kTorch);

}  // namespace heed::nn

#endif  // HEED_NN_WEIGHTS_H_
