#include "weights_source.h"

#include <memory>
#include <set>
#include <utility>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "safetensors_file.h"
#include "safetensors_index.h"

namespace heed::nn {
namespace {

void CheckNames(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!IsTensorName(name)) {
      throw InvalidArgument("source '" + ShownName(name) + "': a name of 1 to " + std::to_string(kMaxNameBytes) +
                            " bytes without NUL is expected");
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

WeightSource SourceInFile(const std::shared_ptr<const SafetensorsFile>& file, const SafetensorsEntry& entry) {
  WeightSource source;
  source.description =
      at::empty(entry.shape, at::TensorOptions().device(at::kMeta).dtype(entry.type->dtype.value_or(at::kByte)));
  if (entry.type->dtype) {
    source.read = [file, &entry] { return file->Read(entry); };
  } else {
    source.fault = std::string("has the type ") + entry.type->name + ", which heed does not read";
    source.optional = true;  // no module of heed holds such a tensor
  }
  return source;
}

std::shared_ptr<const SafetensorsFile> Open(const std::string& path) {
  return std::make_shared<const SafetensorsFile>(path, SafetensorsLimits{});
}

WeightSources OpenShards(const std::string& path) {
  const std::map<std::string, std::string> index = ReadSafetensorsIndex(path, SafetensorsLimits{});
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  std::set<std::string> shards;
  for (const auto& [name, shard] : index) shards.insert(shard);
  WeightSources sources;
  for (const std::string& shard : shards) {
    const std::shared_ptr<const SafetensorsFile> file = Open(folder + shard);
    for (const SafetensorsEntry& entry : file->entries()) {
      const auto listed = index.find(entry.name);
      if (listed == index.end() || listed->second != shard) {
        std::string fault = "'" + path + "': tensor " + QuotedName(entry.name) + " lies in '";
        fault += shard + "', where the index ";
        throw FileError(fault + (listed == index.end() ? "knows no such tensor" : "does not look for it"));
      }
      sources.emplace(entry.name, SourceInFile(file, entry));
    }
  }
  for (const auto& [name, shard] : index) {
    if (!sources.contains(name)) {
      const std::string fault = "'" + path + "': tensor " + QuotedName(name) + " is not in '";
      throw FileError(fault + shard + "', where the index looks for it");
    }
  }
  return sources;
}

}  // namespace

WeightSources SourcesOf(const TensorMap& tensors) {
  CheckNames(tensors);
  WeightSources sources;
  for (const auto& [name, tensor] : tensors) {
    sources[name] = {tensor, SourceFault(tensor), /*optional=*/false, /*in_memory=*/true, [tensor = tensor] { return tensor; }};
  }
  return sources;
}

WeightSources SourcesDescribed(const TensorMap& tensors) {
  CheckNames(tensors);
  WeightSources sources;
  for (const auto& [name, tensor] : tensors) {
    sources[name] = {tensor, tensor.defined() ? "" : SourceFault(tensor), /*optional=*/false, /*in_memory=*/false, nullptr};
  }
  return sources;
}

WeightSources OpenWeights(const std::string& path) {
  if (IsSafetensorsIndex(path)) return OpenShards(path);
  const std::shared_ptr<const SafetensorsFile> file = Open(path);
  WeightSources sources;
  for (const SafetensorsEntry& entry : file->entries()) sources.emplace(entry.name, SourceInFile(file, entry));
  return sources;
}

std::string ShownName(const std::string& name) {
  const std::string quoted = QuotedName(name);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace heed::nn
