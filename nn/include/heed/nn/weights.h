// Loads weights of other frameworks into heed's modules, and saves them.
#ifndef HEED_NN_WEIGHTS_H_
#define HEED_NN_WEIGHTS_H_

#include <map>
#include <string>

#include <torch/nn/module.h>

#include "heed/weight_plan.h"

namespace heed::nn {

using heed::Framework;
using heed::Layers;
using heed::ParseFramework;
using heed::ParseLayers;

using TensorMap = std::map<std::string, at::Tensor>;

// Fills every parameter and buffer of the module from a checkpoint with the framework's own names and layouts; `path` is a
// safetensors file, or the index (*.index.json) of several. prefix: the part of the checkpoint to read,
// "bert.encoder.layer.3". Throws InvalidArgument, naming the tensor, for a parameter or buffer without a source, a source
// without a place, a shape or type that does not fit, and numbers beyond the range of the parameter's type, and FileError. It
// checks and reads everything before it writes the first number, so an error leaves the module unchanged. A tensor that the
// module knows under several names needs a source for one of them; sources for more must be equal. It understands layers
// without bias, scope prefixes ("params/"), the framework's numbering of blocks and alternative names. Where the framework's
// blocks have a bias everywhere or nowhere (PyTorch, nanoGPT) and a checkpoint has none, a module whose attention has none gets
// zeros as its other biases. Tensors of types that heed does not read (see heed/nn/safetensors.h), and constants such as causal
// masks, may be left over.
void load_weights(torch::nn::Module& module, const std::string& path, Framework framework = Framework::kTorch,
                  const std::string& prefix = "");
void load_weights(torch::nn::Module& module, const TensorMap& tensors, Framework framework = Framework::kTorch,
                  const std::string& prefix = "");

// The module's parameters and buffers with the names and layouts of a framework's layers, by default d2l's in that framework.
// prefix: comes before every name, in place of the framework's own scope. Throws InvalidArgument for a parameter without a
// counterpart there; it omits only zero biases of blocks that have a bias everywhere or nowhere. save_weights throws FileError
// too.
TensorMap export_weights(const torch::nn::Module& module, Framework framework = Framework::kTorch,
                         Layers layers = Layers::kUsual, const std::string& prefix = "");
void save_weights(const torch::nn::Module& module, const std::string& path, Framework framework = Framework::kTorch,
                  Layers layers = Layers::kUsual, const std::string& prefix = "");

}  // namespace heed::nn

#endif  // HEED_NN_WEIGHTS_H_
