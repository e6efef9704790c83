// Loads weights of trained models into layers on plain memory, by name.
#ifndef HEED_WEIGHTS_H_
#define HEED_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "heed/weight_plan.h"

namespace heed {

namespace weights {

// A parameter that can be filled.
struct Parameter {
  std::string name;            // dotted, "W_q.weight"
  std::vector<int64_t> shape;  // in heed's layout, row-major
  // Copies all numbers.
  std::function<void(std::span<const float>)> assign;
};

// Numbers in the caller's memory, row-major.
struct Array {
  std::vector<int64_t> shape;
  std::span<const float> values;
};

}  // namespace weights
using weights::Array;
using weights::Parameter;

// The parameters of a layer, in the order of their making. They point into the layer, which must neither move nor end before.
struct Parameters {
  std::vector<Parameter> list;
  std::vector<AttentionHeads> attention;

  // Adds the parameters of an inner layer below its name: "W_q" and "weight" become "W_q.weight".
  void Add(const std::string& name, Parameters inner);
};

// Fills every parameter from a checkpoint with a framework's own names and layouts: d2l's layers in PyTorch, Flax, Keras,
// Paddle and MXNet, each framework's own layers, and those of Hugging Face and nanoGPT, told apart by the names. `path` is a
// safetensors file, or the index (*.index.json) of several; numbers of 64 and 16 bits are rounded to float once. prefix: the
// part of the checkpoint to read, "bert.encoder.layer.3". Throws InvalidArgument, naming the tensor, for a parameter without a
// source, a source without a place, a shape or type that does not fit, and numbers beyond the range of float, and FileError. It
// checks and reads everything before it assigns the first number.
void LoadWeights(const Parameters& parameters, const std::string& path, Framework framework = Framework::kTorch,
                 const std::string& prefix = "");
void LoadWeights(const Parameters& parameters, const std::map<std::string, Array>& arrays,
                 Framework framework = Framework::kTorch, const std::string& prefix = "");

}  // namespace heed

#endif  // HEED_WEIGHTS_H_
