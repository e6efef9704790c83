#include "heed/nn/weights.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/safetensors.h"
#include "heed/safetensors.h"
#include "weights_module.h"
#include "weights_plan.h"
#include "weights_source.h"

namespace heed::nn {
namespace {

// A tensor of the module's type and device that shares memory with nothing: sources may be views of the very parameters that
// are about to change.
at::Tensor Staged(const TensorCopy& copy, const TensorSource& source, std::vector<std::string>& faults) {
  const at::Tensor value = ToHeed(source.read().detach(), copy.layout);
  const at::Tensor& target = copy.target.tensor;
  const at::Tensor staged = value.to(target.device(), target.scalar_type(), /*non_blocking=*/false, /*copy=*/source.in_memory);
  const bool narrowed = at::isFloatingType(value.scalar_type()) && value.scalar_type() != target.scalar_type();
  if (narrowed && at::any(at::logical_and(at::isinf(staged), at::isfinite(value).to(staged.device()))).item<bool>()) {
    faults.push_back("source '" + ShownName(copy.source) + "' holds numbers beyond the range of " +
                     at::toString(target.scalar_type()) + ", the type of parameter '" + copy.target.name + "'");
  }
  return staged;
}

bool SameNumbers(const at::Tensor& a, const at::Tensor& b) {
  return at::logical_or(at::eq(a, b), at::logical_and(at::isnan(a), at::isnan(b))).all().item<bool>();
}

// One tensor under two names cannot hold the numbers of two.
void RefuseContradictions(const TensorPlan& plan, const std::vector<at::Tensor>& staged, std::vector<std::string>& faults) {
  std::map<const void*, std::vector<std::size_t>> by_storage;
  for (std::size_t i = 0; i < staged.size(); ++i) {
    std::vector<std::size_t>& others = by_storage[plan.copies[i].target.tensor.storage().unsafeGetStorageImpl()];
    for (const std::size_t other : others) {
      const TensorCopy &a = plan.copies[other], &b = plan.copies[i];
      if (SameMemory(a.target.tensor, b.target.tensor) && !SameNumbers(staged[other], staged[i])) {
        faults.push_back("parameters '" + a.target.name + "' and '" + b.target.name + "' are one tensor, and their sources '" +
                         ShownName(a.source) + "' and '" + ShownName(b.source) + "' differ");
      }
    }
    others.push_back(i);
  }
}

// All that can fail comes before the first write.
void Load(const ModuleWeights& module, const TensorSources& sources, Framework framework) {
  const at::NoGradGuard no_grad;
  const TensorPlan plan = PlanTensors(module, sources, framework);
  RefuseFaults(plan.faults, framework);
  std::vector<at::Tensor> staged;
  std::vector<std::string> faults;
  for (const TensorCopy& copy : plan.copies) staged.push_back(Staged(copy, sources.at(copy.source), faults));
  RefuseContradictions(plan, staged, faults);
  RefuseFaults(faults, framework);
  for (std::size_t i = 0; i < staged.size(); ++i) plan.copies[i].target.tensor.copy_(staged[i]);
}

}  // namespace

ModuleWeights WeightsOf(const torch::nn::Module& module) {
  ModuleWeights weights;
  for (const auto& item : module.named_parameters()) weights.parameters.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) weights.buffers.push_back({item.key(), item.value()});
  const auto note = [&weights](const std::string& path, const torch::nn::Module& layer) {
    if (const auto* attention = dynamic_cast<const MultiHeadAttentionImpl*>(&layer)) {
      const int64_t heads = attention->options.num_heads(), kv_heads = attention->options.kv_heads();
      weights.attention.push_back({path, heads, kv_heads > 0 ? kv_heads : heads});
    }
  };
  note("", module);
  for (const auto& item : module.named_modules("", /*include_self=*/false)) note(item.key(), *item.value());
  return weights;
}

void LoadWeights(const ModuleWeights& module, const TensorMap& tensors, Framework framework) {
  Load(module, SourcesOf(tensors), framework);
}

void LoadWeights(const ModuleWeights& module, const std::string& path, Framework framework) {
  const TensorSources sources = OpenWeights(path);
  try {
    Load(module, sources, framework);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("'" + path + "': " + error.what());
  }
}

void CheckWeights(const ModuleWeights& module, const TensorMap& described, Framework framework) {
  RefuseFaults(PlanTensors(module, SourcesDescribed(described), framework).faults, framework);
}

TensorMap ExportWeights(const ModuleWeights& module, Framework framework) {
  TensorMap tensors;
  const auto add = [&](const char* kind, const NamedTensor& own, bool in_tables) {
    const std::optional<NativeWeight> native = NativeWeightOf(own.name, in_tables, framework);
    if (!native) {
      throw InvalidArgument(Described(kind, own.name, own.tensor) + " has no counterpart in d2l's layers for " +
                            NameOf(framework));
    }
    const at::Tensor value = own.tensor.detach();
    const bool turned = native->layout == Layout::kTransposed;
    if (!tensors.emplace(native->name, (turned ? value.t() : value).clone(at::MemoryFormat::Contiguous)).second) {
      throw InvalidArgument(Described(kind, own.name, own.tensor) + " has the name of another tensor for " + NameOf(framework) +
                            ", '" + native->name + "'");
    }
  };
  for (const NamedTensor& parameter : module.parameters) add("parameter", parameter, /*in_tables=*/true);
  for (const NamedTensor& buffer : module.buffers) add("buffer", buffer, /*in_tables=*/false);
  return tensors;
}

void SaveWeights(const ModuleWeights& module, const std::string& path, Framework framework) {
  WriteSafetensors(path, ExportWeights(module, framework), {{"format", FormatOf(framework)}});
}

void load_weights(torch::nn::Module& module, const TensorMap& tensors, Framework framework) {
  LoadWeights(WeightsOf(module), tensors, framework);
}

void load_weights(torch::nn::Module& module, const std::string& path, Framework framework) {
  LoadWeights(WeightsOf(module), path, framework);
}

TensorMap export_weights(const torch::nn::Module& module, Framework framework) {
  return ExportWeights(WeightsOf(module), framework);
}

void save_weights(const torch::nn::Module& module, const std::string& path, Framework framework) {
  SaveWeights(WeightsOf(module), path, framework);
}

}  // namespace heed::nn
