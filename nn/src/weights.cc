#include "heed/nn/weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/safetensors.h"
#include "weights_names.h"
#include "weights_tables.h"

namespace heed::nn {
namespace {

constexpr std::size_t kListedFaults = 6;  // of one checkpoint, in one message

std::string Described(const char* what, const std::string& name, const at::Tensor& tensor) {
  return std::string(what) + " '" + name + "' " + (tensor.defined() ? ShapeText(tensor) : "(undefined)");
}

// The tensor in heed's layout; undefined if its rank or extents do not allow that.
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

// The heads that a framework's own layer keeps as a dimension; 0 where the layout has none.
int64_t HeadsOf(const at::Tensor& theirs, Layout layout) {
  if (layout == Layout::kHeadsIn && theirs.dim() == 3) return theirs.size(1);
  const bool first = layout == Layout::kHeadsOut || layout == Layout::kHeadsBias;
  return first && theirs.dim() > 0 ? theirs.size(0) : 0;
}

// The heads that heed's module has for a projection, by the parameter's name: "attention.W_k.weight" -> key and value heads.
class HeadCounts {
 public:
  explicit HeadCounts(const torch::nn::Module& module) {
    Note("", module);
    for (const auto& item : module.named_modules("", /*include_self=*/false)) Note(item.key() + ".", *item.value());
  }
  int64_t Of(const std::string& parameter) const {
    for (const auto& [prefix, options] : layers_) {
      const int64_t kv_heads = options.kv_heads() > 0 ? options.kv_heads() : options.num_heads();
      for (const char* name : {"W_q.", "W_o."}) {
        if (parameter.starts_with(prefix + name)) return options.num_heads();
      }
      for (const char* name : {"W_k.", "W_v."}) {
        if (parameter.starts_with(prefix + name)) return kv_heads;
      }
    }
    return 0;
  }

 private:
  void Note(const std::string& prefix, const torch::nn::Module& module) {
    if (const auto* attention = dynamic_cast<const MultiHeadAttentionImpl*>(&module)) {
      layers_.emplace_back(prefix, attention->options);
    }
  }
  std::vector<std::pair<std::string, MultiHeadAttentionOptions>> layers_;
};

// What goes where, and everything that is wrong with it.
struct Plan {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // parameter, value in heed's layout
  std::vector<std::string> faults;
};

class Planner {
 public:
  Planner(const torch::nn::Module& module, const TensorMap& sources, const FrameworkTable& table)
      : sources_(sources), table_(table), heads_(module), parameters_(module.named_parameters()) {}

  // A checkpoint may keep the module inside a scope ("params/", "model.encoder."): the scope is what all its names share, and
  // as much of it is left out as brings most names home.
  Plan Make() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : sources_) names.push_back(name);
    const std::vector<std::string> dotted = DottedNames(names, parameters_.keys());
    Plan best = Match(dotted);
    const std::size_t shared = SharedComponents(dotted);
    for (std::size_t count = 1; count <= shared; ++count) {
      std::vector<std::string> inner;
      inner.reserve(dotted.size());
      for (const std::string& name : dotted) inner.push_back(WithoutComponents(name, count));
      Plan plan = Match(inner);
      if (plan.faults.empty() || plan.copies.size() > best.copies.size()) best = std::move(plan);
      if (best.faults.empty()) break;
    }
    return best;
  }

 private:
  struct Target {
    std::string parameter;
    Layout layout;
  };

  std::vector<Target> TargetsOf(const std::string& dotted) const {
    std::vector<Target> targets;
    for (const WeightRow& row : table_.rows) {
      const std::optional<std::string> name = Rewrite(dotted, row.theirs, row.heed);
      if (name && parameters_.contains(*name)) targets.push_back({*name, row.layout});
    }
    const bool same_name = targets.empty() && table_.shares_heeds_names && parameters_.contains(dotted);
    if (same_name) targets.push_back({dotted, Layout::kSame});
    return targets;
  }

  // dotted: the names of sources_, in its order.
  Plan Match(const std::vector<std::string>& dotted) const {
    Plan plan;
    std::map<std::string, std::string> source_of;  // by parameter
    std::vector<std::string> unused;
    auto name = dotted.begin();
    for (const auto& [source, tensor] : sources_) {
      const std::vector<Target> targets = TargetsOf(*name++);
      if (targets.empty()) unused.push_back(Described("source", source, tensor) + " has no parameter");
      for (const Target& target : targets) {
        const auto [previous, is_new] = source_of.emplace(target.parameter, source);
        if (!is_new) {
          plan.faults.push_back("parameter '" + target.parameter + "' has two sources, '" + previous->second + "' and '" +
                                source + "'");
        } else {
          Fit(source, tensor, target, plan);
        }
      }
    }
    for (const auto& item : parameters_) {
      if (source_of.count(item.key()) == 0) {
        plan.faults.push_back(Described("parameter", item.key(), item.value()) + " has no source");
      }
    }
    plan.faults.insert(plan.faults.end(), unused.begin(), unused.end());
    return plan;
  }

  void Fit(const std::string& source, const at::Tensor& theirs, const Target& target, Plan& plan) const {
    const at::Tensor& parameter = parameters_[target.parameter];
    const std::string who = Described("source", source, theirs);
    const std::string whom = Described("parameter", target.parameter, parameter);
    if (!theirs.defined() || !at::isFloatingType(theirs.scalar_type())) {
      plan.faults.push_back(who + " holds no floating-point numbers for " + whom);
      return;
    }
    const at::Tensor value = ToHeed(theirs, target.layout);
    if (!value.defined() || value.sizes() != parameter.sizes()) {
      const bool turned = value.defined() && target.layout != Layout::kSame;
      plan.faults.push_back(who + (turned ? ", in heed's layout " + ShapeText(value) + "," : "") + " does not fit " + whom);
      return;
    }
    const int64_t heads = HeadsOf(theirs, target.layout);
    if (heads != 0 && heads != heads_.Of(target.parameter)) {
      plan.faults.push_back(who + " has " + std::to_string(heads) + " heads, " + whom + " has " +
                            std::to_string(heads_.Of(target.parameter)));
      return;
    }
    plan.copies.emplace_back(parameter, value);
  }

  const TensorMap& sources_;
  const FrameworkTable& table_;
  const HeadCounts heads_;
  const torch::OrderedDict<std::string, at::Tensor> parameters_;
};

[[noreturn]] void Refuse(const std::vector<std::string>& faults, const FrameworkTable& table) {
  std::string message = "tensors from " + std::string(table.name) + " do not fit the module: ";
  for (std::size_t i = 0; i < std::min(faults.size(), kListedFaults); ++i) message += (i > 0 ? "; " : "") + faults[i];
  if (faults.size() > kListedFaults) message += "; and " + std::to_string(faults.size() - kListedFaults) + " more";
  throw InvalidArgument(message);
}

}  // namespace

void load_weights(torch::nn::Module& module, const TensorMap& tensors, Framework framework) {
  const FrameworkTable& table = TableOf(framework);
  const Plan plan = Planner(module, tensors, table).Make();
  if (!plan.faults.empty()) Refuse(plan.faults, table);
  const at::NoGradGuard no_grad;
  for (const auto& [parameter, value] : plan.copies) parameter.copy_(value);
}

void load_weights(torch::nn::Module& module, const std::string& path, Framework framework) {
  const Safetensors file = ReadSafetensors(path);
  try {
    load_weights(module, file.tensors, framework);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("'" + path + "': " + error.what());
  }
}

TensorMap export_weights(const torch::nn::Module& module, Framework framework) {
  const FrameworkTable& table = TableOf(framework);
  TensorMap tensors;
  for (const auto& item : module.named_parameters()) {
    std::optional<std::string> name;
    Layout layout = Layout::kSame;
    for (const WeightRow& row : table.rows) {
      if (row.import_only || name) continue;
      name = Rewrite(item.key(), row.heed, row.theirs);
      layout = row.layout;
    }
    if (!name && !table.shares_heeds_names) {
      throw InvalidArgument(Described("parameter", item.key(), item.value()) + " has no counterpart in d2l's layers for " +
                            table.name);
    }
    const at::Tensor value = item.value().detach();
    const bool turned = name && layout == Layout::kTransposed;
    tensors[NativeName(name.value_or(item.key()), table)] = (turned ? value.t() : value).clone(at::MemoryFormat::Contiguous);
  }
  return tensors;
}

void save_weights(const torch::nn::Module& module, const std::string& path, Framework framework) {
  WriteSafetensors(path, export_weights(module, framework), {{"format", TableOf(framework).format}});
}

}  // namespace heed::nn
