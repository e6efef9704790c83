// Weights of other frameworks, into heed's modules and back.
#ifndef HEED_NN_WEIGHTS_H_
#define HEED_NN_WEIGHTS_H_

#include <map>
#include <string>

#include <torch/nn/module.h>

#include "heed/weight_plan.h"

namespace heed::nn {

using heed::Framework;
using heed::ParseFramework;

using TensorMap = std::map<std::string, at::Tensor>;

// Fills every parameter and buffer of the module from a checkpoint with the framework's own names and layouts; `path` is a
// safetensors file, or the index (*.index.json) of several. A parameter or buffer without a source, a source without a place, a
// shape or type that does not fit, and numbers beyond the range of the parameter's type are errors that name what is at fault.
// All of it is checked, and every number read, before the first is written: after an error the module is what it was.
// One tensor that the module knows under several names needs a source for one of them; sources for more must be equal. Keras
// layers without bias, scope prefixes ("params/") and the framework's numbering of blocks are understood. Tensors of types that
// heed does not read (see heed/nn/safetensors.h) may be left over in a file. Throws InvalidArgument or FileError.
void load_weights(torch::nn::Module& module, const std::string& path, Framework framework = Framework::kTorch);
void load_weights(torch::nn::Module& module, const TensorMap& tensors, Framework framework = Framework::kTorch);

// The module's parameters and buffers with the framework's names and layouts. Throws InvalidArgument for one that has no
// counterpart there: nothing is left out.
TensorMap export_weights(const torch::nn::Module& module, Framework framework = Framework::kTorch);
void save_weights(const torch::nn::Module& module, const std::string& path, Framework framework = Framework::kTorch);

}  // namespace heed::nn

#endif  // HEED_NN_WEIGHTS_H_
