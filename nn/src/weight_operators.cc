// torch.ops.heed.load_weights and its kin: the weight tables for modules that live in another language. Such a module is
// described by the names of its parameters and buffers and by its attention layers.
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <torch/library.h>

#include "heed/error.h"
#include "heed/nn/safetensors.h"
#include "refuse.h"
#include "translate_errors.h"
#include "weights_module.h"

namespace heed::nn {
namespace {

// NOLINTBEGIN(performance-unnecessary-value-param): the dispatcher hands lists over by value
void Add(const char* kind, const std::vector<std::string>& names, const std::vector<at::Tensor>& tensors,
         ModuleWeights& module) {
  if (names.size() != tensors.size()) throw InvalidArgument("weights: expected as many names as tensors");
  for (size_t i = 0; i < names.size(); ++i) module.tensors.push_back({names[i], tensors[i].detach(), kind});
}

ModuleWeights Describe(const std::vector<std::string>& names, const std::vector<at::Tensor>& parameters,
                       const std::vector<std::string>& buffer_names, const std::vector<at::Tensor>& buffers,
                       const std::vector<std::string>& attention_paths, const std::vector<int64_t>& heads,
                       const std::vector<int64_t>& kv_heads) {
  if (attention_paths.size() != heads.size() || heads.size() != kv_heads.size()) {
    throw InvalidArgument("weights: expected heads and key heads for each attention layer");
  }
  ModuleWeights module;
  Add("parameter", names, parameters, module);
  Add("buffer", buffer_names, buffers, module);
  for (size_t i = 0; i < heads.size(); ++i) module.attention.push_back({attention_paths[i], heads[i], kv_heads[i]});
  return module;
}

TensorMap Mapped(const std::vector<std::string>& names, const std::vector<at::Tensor>& tensors) {
  if (names.size() != tensors.size()) throw InvalidArgument("weights: expected as many source names as sources");
  TensorMap map;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!map.emplace(names[i], tensors[i]).second) {
      Refuse("source '", ShownName(names[i]), "' appears twice");
    }
  }
  return map;
}

using Names = std::vector<std::string>;
using Tensors = std::vector<at::Tensor>;
using Ints = std::vector<int64_t>;

void LoadTensors(Names names, Tensors parameters, Names buffer_names, Tensors buffers, Names attention_paths, Ints heads,
                 Ints kv_heads, Names source_names, Tensors sources, std::string framework, std::string prefix) {
  LoadWeights(Describe(names, parameters, buffer_names, buffers, attention_paths, heads, kv_heads),
              Mapped(source_names, sources), ParseFramework(framework), prefix);
}

Names CheckTensors(Names names, Tensors parameters, Names buffer_names, Tensors buffers, Names attention_paths, Ints heads,
                   Ints kv_heads, Names source_names, Tensors sources, std::string framework, std::string prefix) {
  return CheckWeights(Describe(names, parameters, buffer_names, buffers, attention_paths, heads, kv_heads),
                      Mapped(source_names, sources), ParseFramework(framework), prefix);
}

void LoadFile(Names names, Tensors parameters, Names buffer_names, Tensors buffers, Names attention_paths, Ints heads,
              Ints kv_heads, std::string path, std::string framework, std::string prefix) {
  LoadWeights(Describe(names, parameters, buffer_names, buffers, attention_paths, heads, kv_heads), path,
              ParseFramework(framework), prefix);
}

void SaveFile(Names names, Tensors parameters, Names buffer_names, Tensors buffers, Names attention_paths, Ints heads,
              Ints kv_heads, std::string path, std::string framework, std::optional<std::string> layers, std::string prefix) {
  SaveWeights(Describe(names, parameters, buffer_names, buffers, attention_paths, heads, kv_heads), path,
              ParseFramework(framework), layers ? ParseLayers(*layers) : Layers::kUsual, prefix);
}

std::tuple<Names, Tensors> ReadFile(std::string path) {
  std::tuple<Names, Tensors> read;
  const Safetensors file = ReadSafetensors(path);
  if (!file.unread.empty()) {
    const auto& [name, type] = *file.unread.begin();
    throw FileError("'" + path + "': tensor " + QuotedName(name) + " has the type " + type + ", which heed does not read");
  }
  for (const auto& [name, tensor] : file.tensors) std::get<0>(read).push_back(name), std::get<1>(read).push_back(tensor);
  return read;
}

// NOLINTEND(performance-unnecessary-value-param)

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  m.def(
      "load_weights(str[] names, Tensor(a!)[] parameters, str[] buffer_names, Tensor(b!)[] buffers, str[] attention_paths, "
      "int[] heads, int[] kv_heads, str[] source_names, Tensor[] sources, str framework, str prefix) -> ()",
      kKernel<&LoadTensors>);
  m.def(
      "check_weights(str[] names, Tensor[] parameters, str[] buffer_names, Tensor[] buffers, str[] attention_paths, "
      "int[] heads, int[] kv_heads, str[] source_names, Tensor[] sources, str framework, str prefix) -> str[]",
      kKernel<&CheckTensors>);
  m.def(
      "load_weights_file(str[] names, Tensor(a!)[] parameters, str[] buffer_names, Tensor(b!)[] buffers, "
      "str[] attention_paths, int[] heads, int[] kv_heads, str path, str framework, str prefix) -> ()",
      kKernel<&LoadFile>);
  m.def(
      "save_weights(str[] names, Tensor[] parameters, str[] buffer_names, Tensor[] buffers, str[] attention_paths, "
      "int[] heads, int[] kv_heads, str path, str framework, str? layers, str prefix) -> ()",
      kKernel<&SaveFile>);
  m.def("read_safetensors(str path) -> (str[], Tensor[])", kKernel<&ReadFile>);
}

}  // namespace heed::nn
