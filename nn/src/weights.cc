#include "heed/nn/weights.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/safetensors.h"
#include "heed/safetensors.h"
#include "refuse.h"
#include "weights_module.h"
#include "weights_plan.h"
#include "weights_source.h"

namespace heed::nn {
namespace {

// A tensor of the module's type and device that shares memory with nothing: sources may be views of the very parameters that
// are about to change.
at::Tensor Staged(const TensorCopy& copy, const TensorSources& sources, std::vector<std::string>& faults) {
  if (copy.source.empty()) return at::zeros_like(copy.target.tensor);
  const TensorSource& source = sources.at(copy.source);
  const at::Tensor value = ToHeed(source.read().detach(), copy.layout);
  const at::Tensor& target = copy.target.tensor;
  at::Tensor staged = value.to(target.device(), target.scalar_type(), /*non_blocking=*/false, /*copy=*/source.in_memory);
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
      if (!SameMemory(a.target.tensor, b.target.tensor) || SameNumbers(staged[other], staged[i])) continue;
      if (a.target.name == b.target.name) {
        faults.push_back("parameter '" + a.target.name + "' has two sources that differ, '" + ShownName(a.source) + "' and '" +
                         ShownName(b.source) + "'");
      } else {
        faults.push_back("parameters '" + a.target.name + "' and '" + b.target.name + "' are one tensor, and their sources '" +
                         ShownName(a.source) + "' and '" + ShownName(b.source) + "' differ");
      }
    }
    others.push_back(i);
  }
}

// All that can fail comes before the first write.
void Load(const ModuleWeights& module, const TensorSources& sources, Framework framework, const std::string& prefix) {
  const at::NoGradGuard no_grad;
  const TensorPlan plan = PlanTensors(module, sources, framework, prefix);
  RefuseFaults(plan.faults, framework);
  std::vector<at::Tensor> staged;
  std::vector<std::string> faults;
  for (const TensorCopy& copy : plan.copies) staged.push_back(Staged(copy, sources, faults));
  RefuseContradictions(plan, staged, faults);
  RefuseFaults(faults, framework);
  for (std::size_t i = 0; i < staged.size(); ++i) plan.copies[i].target.tensor.copy_(staged[i]);
}

// Shares memory with no parameter.
at::Tensor Stacked(const TensorExport& own, const WeightExport::Tensor& tensor) {
  std::vector<at::Tensor> parts;
  parts.reserve(tensor.parts.size());
  for (const WeightExport::Part& part : tensor.parts) {
    const NamedTensor& parameter = own.tensors[part.target];
    if (parameter.tensor.layout() != at::kStrided || parameter.tensor.is_nested() || parameter.tensor.is_meta()) {
      Refuse(Described("tensor", parameter.name, parameter.tensor), ": expected a dense one with numbers");
    }
    parts.push_back(FromHeed(parameter.tensor.detach(), part));
  }
  if (parts.size() == 1) return parts.front().clone(at::MemoryFormat::Contiguous);
  return at::cat(parts, ThirdOf(tensor.parts.front().layout)->dimension).contiguous();
}

// A bias that the layers do without has no effect only while it is zero.
void RefuseToDrop(const NamedTensor& bias, const std::string& names_of) {
  if (!bias.tensor.is_meta() && at::count_nonzero(bias.tensor.detach()).item<int64_t>() == 0) return;
  Refuse(Described("parameter", bias.name, bias.tensor), " is not zero, and ", names_of,
         " have a bias everywhere or nowhere: attention has none; make the module with bias, or ask for other "
         "layers");
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

void LoadWeights(const ModuleWeights& module, const TensorMap& tensors, Framework framework, const std::string& prefix) {
  Load(module, SourcesOf(tensors), framework, prefix);
}

void LoadWeights(const ModuleWeights& module, const std::string& path, Framework framework, const std::string& prefix) {
  const TensorSources sources = OpenWeights(path);
  try {
    Load(module, sources, framework, prefix);
  } catch (const InvalidArgument& error) {
    Refuse("'", path, "': ", error.what());
  }
}

std::vector<std::string> CheckWeights(const ModuleWeights& module, const TensorMap& described, Framework framework,
                                      const std::string& prefix) {
  const TensorPlan plan = PlanTensors(module, SourcesDescribed(described), framework, prefix);
  RefuseFaults(plan.faults, framework);
  std::set<std::string> used;
  for (const TensorCopy& copy : plan.copies) {
    if (!copy.source.empty()) used.insert(copy.source);
  }
  return {used.begin(), used.end()};
}

TensorMap ExportWeights(const ModuleWeights& module, Framework framework, Layers layers, const std::string& prefix) {
  const at::NoGradGuard no_grad;
  const TensorExport own = PlanExport(module, framework, layers, prefix);
  RefuseFaults(own.plan);
  for (const std::size_t target : own.plan.left_out) RefuseToDrop(own.tensors[target], own.plan.names_of);
  TensorMap tensors;
  for (const WeightExport::Tensor& tensor : own.plan.tensors) tensors.emplace(tensor.name, Stacked(own, tensor));
  return tensors;
}

void SaveWeights(const ModuleWeights& module, const std::string& path, Framework framework, Layers layers,
                 const std::string& prefix) {
  WriteSafetensors(path, ExportWeights(module, framework, layers, prefix), {{"format", FormatOf(framework)}});
}

void load_weights(torch::nn::Module& module, const TensorMap& tensors, Framework framework, const std::string& prefix) {
  LoadWeights(WeightsOf(module), tensors, framework, prefix);
}

void load_weights(torch::nn::Module& module, const std::string& path, Framework framework, const std::string& prefix) {
  LoadWeights(WeightsOf(module), path, framework, prefix);
}

TensorMap export_weights(const torch::nn::Module& module, Framework framework, Layers layers, const std::string& prefix) {
  return ExportWeights(WeightsOf(module), framework, layers, prefix);
}

void save_weights(const torch::nn::Module& module, const std::string& path, Framework framework, Layers layers,
                  const std::string& prefix) {
  SaveWeights(WeightsOf(module), path, framework, layers, prefix);
}

}  // namespace heed::nn
