#include "weights_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include "attention_call.h"
#include "weights_names.h"

namespace heed::nn {
namespace {

// Components that may stand before a module's own names. Each is tried, so that a hostile file must not choose their number.
constexpr std::size_t kDeepestScope = 16;

// The heads that a framework's own layer keeps as a dimension; 0 where the layout has none.
int64_t HeadsOf(const at::Tensor& theirs, Layout layout) {
  if (layout == Layout::kHeadsIn && theirs.dim() == 3) return theirs.size(1);
  const bool first = layout == Layout::kHeadsOut || layout == Layout::kHeadsBias;
  return first && theirs.dim() > 0 ? theirs.size(0) : 0;
}

// The heads that the module has for a projection, by the parameter's name: "attention.W_k.weight" -> key and value heads.
int64_t HeadsOf(const ModuleWeights& module, const std::string& parameter) {
  for (const AttentionHeads& layer : module.attention) {
    const std::string prefix = layer.path.empty() ? "" : layer.path + ".";
    for (const char* name : {"W_q.", "W_o."}) {
      if (parameter.starts_with(prefix + name)) return layer.heads;
    }
    for (const char* name : {"W_k.", "W_v."}) {
      if (parameter.starts_with(prefix + name)) return layer.kv_heads;
    }
  }
  return 0;
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

class Planner {
 public:
  Planner(const ModuleWeights& module, const WeightSources& sources, const FrameworkTable& table)
      : module_(module), sources_(sources), table_(table) {
    for (const NamedTensor& parameter : module.parameters) Note(parameter, /*is_parameter=*/true);
    for (const NamedTensor& buffer : module.buffers) Note(buffer, /*is_parameter=*/false);
  }

  WeightPlan Make() const {
    std::vector<std::string> names, parameters;
    for (const auto& [name, source] : sources_) names.push_back(name);
    for (const NamedTensor& parameter : module_.parameters) parameters.push_back(parameter.name);
    const std::vector<std::string> dotted = DottedNames(names, parameters);
    WeightPlan best = Match(dotted);
    const std::size_t shared = std::min(SharedComponents(dotted), kDeepestScope);
    for (std::size_t count = 1; count <= shared && !best.faults.empty(); ++count) {
      std::vector<std::string> inner;
      inner.reserve(dotted.size());
      for (const std::string& name : dotted) inner.push_back(WithoutComponents(name, count));
      WeightPlan plan = Match(inner);
      if (plan.faults.empty() || plan.copies.size() > best.copies.size()) best = std::move(plan);
    }
    return best;
  }

 private:
  struct Target {
    const NamedTensor* tensor;
    const char* kind;  // in messages
  };
  struct Fitting {
    std::string target;
    Layout layout;
  };

  void Note(const NamedTensor& tensor, bool is_parameter) {
    order_.push_back(tensor.name);
    targets_[tensor.name] = {&tensor, is_parameter ? "parameter" : "buffer"};
    if (const std::optional<Place> place = PlaceOf(tensor.tensor)) tied_[*place].push_back(tensor.name);
  }

  std::string Whom(const std::string& target) const {
    const Target& found = targets_.at(target);
    return Described(found.kind, target, found.tensor->tensor);
  }

  std::vector<Fitting> FittingsOf(const std::string& dotted) const {
    std::vector<Fitting> fittings;
    for (const WeightRow& row : table_.rows) {
      const std::optional<std::string> name = Rewrite(dotted, row.theirs, row.heed);
      if (name && targets_.contains(*name)) fittings.push_back({*name, row.layout});
    }
    const bool same_name = fittings.empty() && table_.shares_heeds_names && targets_.contains(dotted);
    if (same_name) fittings.push_back({dotted, Layout::kSame});
    return fittings;
  }

  // dotted: the names of sources_, in its order.
  WeightPlan Match(const std::vector<std::string>& dotted) const {
    WeightPlan plan;
    std::map<std::string, std::string> source_of;  // by target
    std::vector<std::string> left;
    auto name = dotted.begin();
    for (const auto& [source, found] : sources_) {
      const std::vector<Fitting> fittings = FittingsOf(*name++);
      if (fittings.empty() && !found.optional) left.push_back(source);
      for (const Fitting& fitting : fittings) {
        const auto [previous, is_new] = source_of.emplace(fitting.target, source);
        if (!is_new) {
          plan.faults.push_back("parameter '" + fitting.target + "' has two sources, '" + ShownName(previous->second) +
                                "' and '" + ShownName(source) + "'");
        } else {
          Fit(source, found, fitting, plan);
        }
      }
    }
    for (const std::string& target : order_) {
      if (!IsFilled(target, source_of)) plan.faults.push_back(Whom(target) + " has no source");
    }
    RefuseLeft(left, source_of, plan);
    return plan;
  }

  // By a source of its own, or of another name for the same tensor.
  bool IsFilled(const std::string& target, const std::map<std::string, std::string>& source_of) const {
    if (source_of.contains(target)) return true;
    const std::optional<Place> place = PlaceOf(targets_.at(target).tensor->tensor);
    if (!place) return false;
    const std::vector<std::string>& names = tied_.at(*place);
    return std::any_of(names.begin(), names.end(), [&](const std::string& tied) { return source_of.contains(tied); });
  }

  // What is left over is refused, unless it is a second name of a tensor that was used.
  void RefuseLeft(const std::vector<std::string>& left, const std::map<std::string, std::string>& source_of,
                  WeightPlan& plan) const {
    if (left.empty()) return;
    std::map<Place, bool> used;
    for (const auto& [target, source] : source_of) {
      const WeightSource& found = sources_.at(source);
      const std::optional<Place> place = found.in_memory ? PlaceOf(found.description) : std::nullopt;
      if (place) used[*place] = true;
    }
    for (const std::string& source : left) {
      const WeightSource& found = sources_.at(source);
      const std::optional<Place> place = found.in_memory ? PlaceOf(found.description) : std::nullopt;
      if (!place || !used.contains(*place)) plan.faults.push_back(Who(source, found) + " has no parameter");
    }
  }

  static std::string Who(const std::string& name, const WeightSource& source) {
    return Described("source", ShownName(name), source.description);
  }

  void Fit(const std::string& source, const WeightSource& found, const Fitting& fitting, WeightPlan& plan) const {
    const NamedTensor& target = *targets_.at(fitting.target).tensor;
    const std::string who = Who(source, found), whom = Whom(fitting.target);
    const auto fault = [&plan](std::string what) { plan.faults.push_back(std::move(what)); };
    if (!found.fault.empty()) return fault(who + " " + found.fault + "; " + whom + " needs it");
    if (const std::string wrong = TargetFault(target.tensor); !wrong.empty()) return fault(whom + " " + wrong);
    const at::ScalarType theirs = found.description.scalar_type(), ours = target.tensor.scalar_type();
    if (IsNumbersOfHeed(ours) && !IsNumbersOfHeed(theirs)) {
      return fault(who + " holds no floating-point numbers for " + whom + ": it is of type " + at::toString(theirs) +
                   "; float64, float32, float16 or bfloat16 is expected");
    }
    if (!IsNumbersOfHeed(ours) && theirs != ours) {
      return fault(who + " is of type " + at::toString(theirs) + ", " + whom + " of type " + at::toString(ours));
    }
    const at::Tensor value = ToHeed(found.description, fitting.layout);
    if (!value.defined() || value.sizes() != target.tensor.sizes()) {
      const bool turned = value.defined() && fitting.layout != Layout::kSame;
      return fault(who + (turned ? ", in heed's layout " + ShapeText(value) + "," : "") + " does not fit " + whom);
    }
    const int64_t heads = HeadsOf(found.description, fitting.layout), own_heads = HeadsOf(module_, fitting.target);
    if (heads != 0 && heads != own_heads) {
      return fault(who + " has " + std::to_string(heads) + " heads, " + whom + " has " + std::to_string(own_heads));
    }
    plan.copies.push_back({target, source, fitting.layout});
  }

  const ModuleWeights& module_;
  const WeightSources& sources_;
  const FrameworkTable& table_;
  std::vector<std::string> order_;
  std::map<std::string, Target> targets_;
  std::map<Place, std::vector<std::string>> tied_;
};

}  // namespace

at::Tensor ToHeed(const at::Tensor& theirs, Layout layout) {
  const int64_t rank = theirs.dim();
  switch (layout) {
    case Layout::kSame:
      return theirs;
    case Layout::kTransposed:
      return rank == 2 ? theirs.t() : at::Tensor();
    case Layout::kHeadsIn:
      return rank == 3 ? theirs.flatten(1).t() : at::Tensor();
    case Layout::kHeadsOut:
      return rank == 3 ? theirs.flatten(0, 1).t() : at::Tensor();
    case Layout::kHeadsBias:
      return rank == 2 ? theirs.flatten() : at::Tensor();
    case Layout::kFirstThird:
    case Layout::kSecondThird:
    case Layout::kLastThird: {
      if (rank == 0 || theirs.size(0) % 3 != 0) return {};
      const int64_t rows = theirs.size(0) / 3;
      return theirs.narrow(0, rows * (static_cast<int>(layout) - static_cast<int>(Layout::kFirstThird)), rows);
    }
  }
  return {};
}

std::string Described(const char* what, const std::string& name, const at::Tensor& tensor) {
  const bool has_shape = tensor.defined() && !tensor.is_nested();
  return std::string(what) + " '" + name + "' " +
         (has_shape          ? ShapeText(tensor)
          : tensor.defined() ? "(nested)"
                             : "(undefined)");
}

bool SameMemory(const at::Tensor& a, const at::Tensor& b) {
  const std::optional<Place> place = PlaceOf(a);
  return place && place == PlaceOf(b);
}

WeightPlan PlanWeights(const ModuleWeights& module, const WeightSources& sources, const FrameworkTable& table) {
  return Planner(module, sources, table).Make();
}

}  // namespace heed::nn
