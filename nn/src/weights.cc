#include "heed/nn/weights.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/safetensors.h"
#include "heed/safetensors.h"
#include "refuse.h"
#include "safetensors_tensor.h"
#include "weights_module.h"

namespace heed::nn {
namespace {

// Where weights come from: tensors in memory, a safetensors file, or several files with an index. A file's tensors are read
// when everything else about them is known to be right.
struct TensorSource {
  at::Tensor description;  // of the same shape and type; need not hold numbers
  std::string fault;       // why it cannot be used, as a predicate; empty when it can
  bool optional = false;   // may be left over
  bool in_memory = false;  // the caller's own tensor
  std::function<at::Tensor()> read;
};

using TensorSources = std::map<std::string, TensorSource>;  // by the framework's name

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

// described: the tensors need hold no numbers. Throws InvalidArgument for a name that is empty, longer than 1024 bytes or holds
// a NUL.
TensorSources SourcesOf(const TensorMap& tensors, bool described = false) {
  TensorSources sources;
  for (const auto& [name, tensor] : tensors) {
    if (!IsTensorName(name))
      Refuse("source '", ShownName(name), "': a name of 1 to ", kMaxNameBytes, " bytes without NUL is expected");
    sources[name] = {tensor, described && tensor.defined() ? "" : SourceFault(tensor), /*optional=*/false,
                     /*in_memory=*/!described, [tensor = tensor] { return tensor; }};
  }
  return sources;
}

// A safetensors file, or the index of several. Throws FileError.
TensorSources OpenWeights(const std::string& path) {
  TensorSources sources;
  for (const auto& [name, stored] : OpenTensors(path)) sources.emplace(name, SourceInFile(stored));
  return sources;
}

// 64, 32 or 16 bits that every type of them converts to; smaller ones need scales that a tensor alone does not carry.
bool IsNumbersOfHeed(at::ScalarType type) {
  return type == at::kDouble || type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

// Why a module's tensor cannot be filled; empty when it can.
std::string TargetFault(const at::Tensor& target) {
  if (target.key_set().has(c10::DispatchKey::Python)) return "is a tensor of a class of its own";
  if (target.is_meta()) return "is on the meta device, where nothing can be stored; call to_empty first";
  if (target.is_quantized() || target.layout() != at::kStrided || target.is_nested()) return "is not a dense tensor";
  if (at::has_internal_overlap(target) == at::MemOverlap::Yes) return "has elements that share memory";
  if (target.is_inference() && !c10::InferenceMode::is_enabled()) return "was made in inference mode and cannot be changed";
  return "";
}

// Where a tensor's numbers lie.
using Place = std::tuple<const void*, int64_t, std::vector<int64_t>, std::vector<int64_t>, at::ScalarType>;

std::optional<Place> PlaceOf(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_nested() || !tensor.has_storage() || tensor.is_meta() || tensor.numel() == 0) return {};
  return Place{tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset(), tensor.sizes().vec(), tensor.strides().vec(),
               tensor.scalar_type()};
}

// Numbers for places, the same for the same place.
class Places {
 public:
  std::optional<int64_t> NumberOf(const at::Tensor& tensor) {
    const std::optional<Place> place = PlaceOf(tensor);
    if (!place) return std::nullopt;
    return numbers_.emplace(*place, static_cast<int64_t>(numbers_.size())).first->second;
  }

 private:
  std::map<Place, int64_t> numbers_;
};

WeightFacts FactsOf(const at::Tensor& tensor) {
  WeightFacts facts;
  if (!tensor.defined() || tensor.is_nested()) {
    facts.odd = tensor.defined() ? "(nested)" : "(undefined)";
    return facts;
  }
  facts.shape = tensor.sizes().vec();
  facts.type = at::toString(tensor.scalar_type());
  facts.floating = IsNumbersOfHeed(tensor.scalar_type());
  return facts;
}

bool SameMemory(const at::Tensor& a, const at::Tensor& b) {
  const std::optional<Place> place = PlaceOf(a);
  return place && place == PlaceOf(b);
}

// A module's tensors as the tables see them.
std::vector<WeightTarget> TargetsOf(const ModuleWeights& module, Places& places) {
  std::vector<WeightTarget> targets;
  for (const NamedTensor& own : module.tensors) {
    targets.push_back({own.name, own.kind, FactsOf(own.tensor), TargetFault(own.tensor)});
    targets.back().facts.place = places.NumberOf(own.tensor);
  }
  return targets;
}

WeightPlan PlanOf(const ModuleWeights& module, const TensorSources& sources, Framework framework, const std::string& prefix) {
  Places places;
  const std::vector<WeightTarget> targets = TargetsOf(module, places);
  std::map<std::string, WeightSource> described;
  for (const auto& [name, source] : sources) {
    WeightSource& facts = described[name] = {FactsOf(source.description), source.fault, source.optional};
    if (source.in_memory) facts.facts.place = places.NumberOf(source.description);
  }
  return PlanWeights(targets, module.attention, described, framework, prefix);
}

// A tensor in heed's layout, a view; undefined if its rank or extents do not allow that.
at::Tensor ToHeed(const at::Tensor& theirs, Layout layout) {
  if (!ShapeInHeed(theirs.sizes().vec(), layout)) return {};
  if (const std::optional<Third> third = ThirdOf(layout)) {
    const int64_t extent = theirs.size(third->dimension) / 3;
    const at::Tensor own = theirs.narrow(third->dimension, extent * third->place, extent);
    return third->dimension == 0 ? own : own.t();
  }
  switch (layout) {
    case Layout::kTransposed:
      return theirs.t();
    case Layout::kHeadsIn:
      return theirs.flatten(1).t();
    case Layout::kHeadsOut:
      return theirs.flatten(0, 1).t();
    case Layout::kHeadsBias:
      return theirs.flatten();
    case Layout::kReversed:
      return theirs.flip(0);
    default:
      return theirs;
  }
}

// A tensor of heed's as the framework lays it out, apart from what it is stacked with; a view.
at::Tensor FromHeed(const at::Tensor& ours, const WeightExport::Part& part) {
  if (const std::optional<Third> third = ThirdOf(part.layout)) return third->dimension == 0 ? ours : ours.t();
  switch (part.layout) {
    case Layout::kTransposed:
      return ours.t();
    case Layout::kHeadsIn:
      return ours.t().unflatten(1, {part.heads, -1});
    case Layout::kHeadsOut:
      return ours.t().unflatten(0, {part.heads, -1});
    case Layout::kHeadsBias:
      return ours.unflatten(0, {part.heads, -1});
    case Layout::kReversed:
      return ours.flip(0);
    default:
      return ours;
  }
}

// A tensor of the module's type and device that shares memory with nothing: sources may be views of the very parameters that
// are about to change.
at::Tensor Staged(const WeightCopy& copy, const NamedTensor& own, const TensorSources& sources,
                  std::vector<std::string>& faults) {
  const at::Tensor& target = own.tensor;
  if (copy.source.empty()) return at::zeros_like(target);
  const TensorSource& source = sources.at(copy.source);
  const at::Tensor value = ToHeed(source.read().detach(), copy.layout);
  at::Tensor staged = value.to(target.device(), target.scalar_type(), /*non_blocking=*/false, /*copy=*/source.in_memory);
  const bool narrowed = at::isFloatingType(value.scalar_type()) && value.scalar_type() != target.scalar_type();
  if (narrowed && at::any(at::logical_and(at::isinf(staged), at::isfinite(value).to(staged.device()))).item<bool>()) {
    faults.push_back("source '" + ShownName(copy.source) + "' holds numbers beyond the range of " +
                     at::toString(target.scalar_type()) + ", the type of parameter '" + own.name + "'");
  }
  return staged;
}

bool SameNumbers(const at::Tensor& a, const at::Tensor& b) {
  return at::logical_or(at::eq(a, b), at::logical_and(at::isnan(a), at::isnan(b))).all().item<bool>();
}

// One tensor under two names cannot hold the numbers of two.
void RefuseContradictions(const ModuleWeights& module, const WeightPlan& plan, const std::vector<at::Tensor>& staged,
                          std::vector<std::string>& faults) {
  const auto target = [&](std::size_t copy) -> const NamedTensor& { return module.tensors[plan.copies[copy].target]; };
  std::map<const void*, std::vector<std::size_t>> by_storage;
  for (std::size_t i = 0; i < staged.size(); ++i) {
    std::vector<std::size_t>& others = by_storage[target(i).tensor.storage().unsafeGetStorageImpl()];
    for (const std::size_t other : others) {
      const NamedTensor &a = target(other), &b = target(i);
      const std::string of_a = ShownName(plan.copies[other].source), of_b = ShownName(plan.copies[i].source);
      if (!SameMemory(a.tensor, b.tensor) || SameNumbers(staged[other], staged[i])) continue;
      faults.push_back(a.name == b.name
                           ? c10::str("parameter '", a.name, "' has two sources that differ, '", of_a, "' and '", of_b, "'")
                           : c10::str("parameters '", a.name, "' and '", b.name, "' are one tensor, and their sources '", of_a,
                                      "' and '", of_b, "' differ"));
    }
    others.push_back(i);
  }
}

// All that can fail comes before the first write.
void Load(const ModuleWeights& module, const TensorSources& sources, Framework framework, const std::string& prefix) {
  const at::NoGradGuard no_grad;
  const WeightPlan plan = PlanOf(module, sources, framework, prefix);
  RefuseFaults(plan.faults, framework);
  std::vector<at::Tensor> staged;
  std::vector<std::string> faults;
  for (const WeightCopy& copy : plan.copies) staged.push_back(Staged(copy, module.tensors[copy.target], sources, faults));
  RefuseContradictions(module, plan, staged, faults);
  RefuseFaults(faults, framework);
  for (std::size_t i = 0; i < staged.size(); ++i) module.tensors[plan.copies[i].target].tensor.copy_(staged[i]);
}

// Shares memory with no parameter.
at::Tensor Stacked(const ModuleWeights& module, const WeightExport::Tensor& tensor) {
  std::vector<at::Tensor> parts;
  parts.reserve(tensor.parts.size());
  for (const WeightExport::Part& part : tensor.parts) {
    const NamedTensor& parameter = module.tensors[part.target];
    if (parameter.tensor.layout() != at::kStrided || parameter.tensor.is_nested() || parameter.tensor.is_meta()) {
      Refuse(Described("tensor", parameter.name, FactsOf(parameter.tensor)), ": expected a dense one with numbers");
    }
    parts.push_back(FromHeed(parameter.tensor.detach(), part));
  }
  if (parts.size() == 1) return parts.front().clone(at::MemoryFormat::Contiguous);
  return at::cat(parts, ThirdOf(tensor.parts.front().layout)->dimension).contiguous();
}

// A bias that the layers do without has no effect only while it is zero.
void RefuseToDrop(const NamedTensor& bias, const std::string& names_of) {
  if (!bias.tensor.is_meta() && at::count_nonzero(bias.tensor.detach()).item<int64_t>() == 0) return;
  Refuse(Described("parameter", bias.name, FactsOf(bias.tensor)), " is not zero, and ", names_of,
         " have a bias everywhere or nowhere: attention has none; make the module with bias, or ask for other "
         "layers");
}

}  // namespace

ModuleWeights WeightsOf(const torch::nn::Module& module) {
  ModuleWeights weights;
  for (const auto& item : module.named_parameters()) weights.tensors.push_back({item.key(), item.value(), "parameter"});
  for (const auto& item : module.named_buffers()) weights.tensors.push_back({item.key(), item.value(), "buffer"});
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
  const WeightPlan plan = PlanOf(module, SourcesOf(described, /*described=*/true), framework, prefix);
  RefuseFaults(plan.faults, framework);
  std::set<std::string> used;
  for (const WeightCopy& copy : plan.copies) {
    if (!copy.source.empty()) used.insert(copy.source);
  }
  return {used.begin(), used.end()};
}

TensorMap ExportWeights(const ModuleWeights& module, Framework framework, Layers layers, const std::string& prefix) {
  const at::NoGradGuard no_grad;
  Places places;
  const WeightExport plan = PlanExport(TargetsOf(module, places), module.attention, framework, layers, prefix);
  RefuseFaults(plan);
  for (const std::size_t target : plan.left_out) RefuseToDrop(module.tensors[target], plan.names_of);
  TensorMap tensors;
  for (const WeightExport::Tensor& tensor : plan.tensors) tensors.emplace(tensor.name, Stacked(module, tensor));
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
