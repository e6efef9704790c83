#include "weights_source.h"

#include <optional>

#include <ATen/ATen.h>

#include "heed/safetensors.h"
#include "refuse.h"
#include "safetensors_tensor.h"

namespace heed::nn {
namespace {

void CheckNames(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!IsTensorName(name)) {
      Refuse("source '", ShownName(name), "': a name of 1 to ", kMaxNameBytes, " bytes without NUL is expected");
    }
  }
}

std::string SourceFault(const at::Tensor& tensor) {
  if (!tensor.defined()) return "holds no numbers";
  if (tensor.key_set().has(c10::DispatchKey::Python)) return "is a tensor of a class of its own; pass a plain one";
  if (tensor.is_meta()) return "is on the meta device and holds no numbers";
  if (tensor.is_quantized()) return "is quantised; dequantise it first";
  if (tensor.layout() != at::kStrided || tensor.is_nested()) return "is not dense; make it dense first";
  return "";
}

TensorSource SourceInFile(const StoredTensor& stored) {
  const SafetensorsEntry& entry = *stored.entry;
  const std::optional<ElementType> element = entry.type->element;
  TensorSource source;
  source.description = at::empty(
      entry.shape, at::TensorOptions().device(at::kMeta).dtype(element ? ScalarTypeOf(*element) : at::ScalarType::Byte));
  if (element) {
    source.read = [stored] { return ReadTensor(*stored.file, *stored.entry); };
  } else {
    source.fault = std::string("has the type ") + entry.type->name + ", which heed does not read";
    source.optional = true;  // no module of heed holds such a tensor
  }
  return source;
}

}  // namespace

TensorSources SourcesOf(const TensorMap& tensors) {
  CheckNames(tensors);
  TensorSources sources;
  for (const auto& [name, tensor] : tensors) {
    sources[name] = {tensor, SourceFault(tensor), /*optional=*/false, /*in_memory=*/true, [tensor = tensor] { return tensor; }};
  }
  return sources;
}

TensorSources SourcesDescribed(const TensorMap& tensors) {
  CheckNames(tensors);
  TensorSources sources;
  for (const auto& [name, tensor] : tensors) {
    sources[name] = {tensor, tensor.defined() ? "" : SourceFault(tensor), /*optional=*/false, /*in_memory=*/false, nullptr};
  }
  return sources;
}

TensorSources OpenWeights(const std::string& path) {
  TensorSources sources;
  for (const auto& [name, stored] : OpenTensors(path)) sources.emplace(name, SourceInFile(stored));
  return sources;
}

}  // namespace heed::nn
