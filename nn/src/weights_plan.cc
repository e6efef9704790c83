#include "weights_plan.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

namespace heed::nn {
namespace {

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

// A module as the tables see it.
struct Description {
  Description(const ModuleWeights& module, Places& places) {
    const auto add = [&](const char* kind, const NamedTensor& own) {
      targets.push_back({own.name, kind, FactsOf(own.tensor), TargetFault(own.tensor)});
      targets.back().facts.place = places.NumberOf(own.tensor);
      tensors.push_back(own);
    };
    for (const NamedTensor& parameter : module.parameters) add("parameter", parameter);
    for (const NamedTensor& buffer : module.buffers) add("buffer", buffer);
  }
  std::vector<WeightTarget> targets;
  std::vector<NamedTensor> tensors;
};

}  // namespace

TensorPlan PlanTensors(const ModuleWeights& module, const TensorSources& sources, Framework framework,
                       const std::string& prefix) {
  Places places;
  const Description own(module, places);
  std::map<std::string, WeightSource> described;
  for (const auto& [name, source] : sources) {
    WeightSource& facts = described[name] = {FactsOf(source.description), source.fault, source.optional};
    if (source.in_memory) facts.facts.place = places.NumberOf(source.description);
  }
  WeightPlan plan = PlanWeights(own.targets, module.attention, described, framework, prefix);
  TensorPlan result{{}, std::move(plan.faults)};
  for (const WeightCopy& copy : plan.copies) result.copies.push_back({own.tensors[copy.target], copy.source, copy.layout});
  return result;
}

TensorExport PlanExport(const ModuleWeights& module, Framework framework, Layers layers, const std::string& prefix) {
  Places places;
  Description own(module, places);
  return {heed::PlanExport(own.targets, module.attention, framework, layers, prefix), std::move(own.tensors)};
}

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

std::string Described(const char* what, const std::string& name, const at::Tensor& tensor) {
  return Described(what, name, FactsOf(tensor));
}

bool SameMemory(const at::Tensor& a, const at::Tensor& b) {
  const std::optional<Place> place = PlaceOf(a);
  return place && place == PlaceOf(b);
}

}  // namespace heed::nn
