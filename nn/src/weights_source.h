// Where weights come from: tensors in memory, a safetensors file, or several files with an index. A file's tensors are read
// when everything else about them is known to be right.
#ifndef HEED_NN_SRC_WEIGHTS_SOURCE_H_
#define HEED_NN_SRC_WEIGHTS_SOURCE_H_

#include <functional>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "heed/nn/weights.h"

namespace heed::nn {

struct TensorSource {
  at::Tensor description;  // of the same shape and type; need not hold numbers
  std::string fault;       // why it cannot be used, as a predicate; empty when it can
  bool optional = false;   // may be left over
  bool in_memory = false;  // the caller's own tensor
  std::function<at::Tensor()> read;
};

using TensorSources = std::map<std::string, TensorSource>;  // by the framework's name

// Throws InvalidArgument for a name that is empty, longer than 1024 bytes or holds a NUL.
TensorSources SourcesOf(const TensorMap& tensors);

// Shapes and types alone; reading throws.
TensorSources SourcesDescribed(const TensorMap& tensors);

// A safetensors file, or the index of several. Throws FileError.
TensorSources OpenWeights(const std::string& path);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_WEIGHTS_SOURCE_H_
