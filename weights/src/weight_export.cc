#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "heed/shape_text.h"
#include "heed/weight_plan.h"
#include "weight_names.h"
#include "weight_spelling.h"
#include "weight_tables.h"

namespace heed {
namespace {

using Extents = std::vector<int64_t>;
using Targets = std::vector<WeightTarget>;

// An attention layer and the shapes of its projections' weights.
struct AttentionShapes {
  const AttentionHeads& heads;
  Extents query, key, value, output;
  bool has_bias = false;
};

class Exporter {
 public:
  Exporter(const Targets& targets, const std::vector<AttentionHeads>& attention, const WeightTable& table,
           const std::string& prefix)
      : targets_(targets), heads_(attention), table_(table), module_(targets) {
    for (std::size_t i = 0; i < targets.size(); ++i) index_.emplace(targets[i].name, i);
    for (const AttentionHeads& layer : attention) AddAttention(layer);
    scope_ = prefix.empty() ? std::string(table.scope) : prefix;
    if (scope_.ends_with('.') || scope_.ends_with('/')) scope_.pop_back();
  }

  WeightExport Make() {
    plan_.names_of = table_.names_of;
    for (const auto& [path, layer] : attention_) CheckLimits(layer);
    for (std::size_t i = 0; i < targets_.size(); ++i) Add(i);
    for (WeightExport::Tensor& tensor : plan_.tensors) CheckStack(tensor);
    return std::move(plan_);
  }

 private:
  void AddAttention(const AttentionHeads& layer) {
    const std::string path = layer.path.empty() ? "" : layer.path + ".";
    const auto shape = [&](const char* projection) {
      const auto found = index_.find(path + projection + ".weight");
      return found == index_.end() ? Extents() : targets_[found->second].facts.shape;
    };
    const AttentionShapes shapes{layer,        shape("W_q"), shape("W_k"),
                                 shape("W_v"), shape("W_o"), index_.contains(path + "W_q.bias")};
    attention_.emplace(path, shapes);
  }

  void CheckLimits(const AttentionShapes& layer) {
    if (table_.attention.empty()) return;  // any layers of these names
    for (const Extents& shape : {layer.query, layer.key, layer.value, layer.output}) {
      if (shape.size() != 2) return Refuse(layer, "other projections than four matrices");
    }
    const AttentionLimits& limits = table_.limits;
    const int64_t width = layer.output[0];
    if (!limits.grouped_heads && layer.heads.kv_heads != layer.heads.heads) {
      Refuse(layer, "heads that share keys (" + std::to_string(layer.heads.heads) + " beside " +
                        std::to_string(layer.heads.kv_heads) + " of keys)");
    }
    if (!limits.other_inner_width && layer.query[0] != width) Refuse(layer, "heads of another width than its output");
    if (!limits.other_query_width && layer.query[1] != width) Refuse(layer, "queries of another width than its output");
    const bool same_keys = layer.key[1] == width && layer.value[1] == width;
    if (!limits.other_key_width && !same_keys) Refuse(layer, "keys and values of another width than its output");
    if (table_.biases == Biases::kAll && !layer.has_bias) Refuse(layer, "projections without a bias");
    if (table_.biases == Biases::kNone && layer.has_bias) Refuse(layer, "projections with a bias");
  }

  void Refuse(const AttentionShapes& layer, const std::string& what) {
    const std::string who = layer.heads.path.empty() ? "the attention layer" : "attention layer '" + layer.heads.path + "'";
    plan_.faults.push_back(who + " has " + what + ": no place for that in " + table_.names_of);
  }

  std::string Whom(std::size_t target) const {
    return Described(targets_[target].kind, targets_[target].name, targets_[target].facts);
  }

  void Add(std::size_t target) {
    if (IsSwitchedOff(targets_[target], table_, module_)) return plan_.left_out.push_back(target);
    if (!table_.attention.empty() && IsOfProjection(targets_[target].name) && AttentionOf(targets_[target].name) == nullptr) {
      return plan_.faults.push_back(Whom(target) + " belongs to no attention layer whose heads are known");
    }
    std::optional<Spelling> first;
    for (const Spelling& spelling : SpellingsOf(targets_[target], table_, module_)) {
      if (spelling.is_second_name) {
        Place(target, spelling);
      } else if (!first && CanStack(targets_[target].name, spelling.layout)) {
        first = spelling;
      }
    }
    if (first) return Place(target, *first);
    plan_.faults.push_back(Whom(target) + " has no counterpart in " + table_.names_of);
  }

  // Projections of one shape are stacked; others stand by themselves where the table has names for that.
  bool CanStack(const std::string& name, Layout layout) const {
    if (!ThirdOf(layout) || name.ends_with(".bias")) return true;
    const AttentionShapes* layer = AttentionOf(name);
    return layer != nullptr && layer->query == layer->key && layer->query == layer->value;
  }

  static bool IsOfProjection(const std::string& parameter) {
    const NamePath path = SplitName(parameter, ".");
    const std::optional<LayerPart> part = path.size() < 2 ? std::nullopt : PartOf(path[path.size() - 2]);
    return part && IsProjection(*part);
  }

  const AttentionShapes* AttentionOf(const std::string& parameter) const {
    const NamePath path = SplitName(parameter, ".");
    if (path.size() < 2) return nullptr;
    const std::string layer = JoinName({path.begin(), path.end() - 2}, '.');
    const auto found = attention_.find(layer.empty() ? "" : layer + ".");
    return found == attention_.end() ? nullptr : &found->second;
  }

  void Place(std::size_t target, const Spelling& spelling) {
    const WeightExport::Part part{target, spelling.layout, HeadsOfProjection(heads_, targets_[target].name)};
    const std::string name = NativeName(spelling.name);
    if (!IsTensorName(name)) {
      return plan_.faults.push_back(Whom(target) + " would be called '" + ShownName(name) +
                                    "'; a name of 1 to 1024 bytes without NUL is expected");
    }
    if (!CanLayOut(targets_[target].facts.shape, part)) {
      return plan_.faults.push_back(Whom(target) + " is no weight that " + table_.names_of + " have as '" + ShownName(name) +
                                    "'");
    }
    const auto [tensor, is_new] = by_name_.emplace(name, plan_.tensors.size());
    if (is_new) plan_.tensors.push_back({name, {}});
    std::vector<WeightExport::Part>& parts = plan_.tensors[tensor->second].parts;
    if (is_new || ThirdOf(spelling.layout)) return parts.push_back(part);
    if (IsTied(parts.front().target, target)) return;
    plan_.faults.push_back(Whom(target) + " has the name of another tensor in " + table_.names_of + ", '" + ShownName(name) +
                           "'");
  }

  static bool CanLayOut(const Extents& shape, const WeightExport::Part& part) {
    const auto whole_heads = [&](std::size_t dimension) { return part.heads > 0 && shape[dimension] % part.heads == 0; };
    switch (part.layout) {
      case Layout::kSame:
        return true;
      case Layout::kHeadsIn:
        return shape.size() == 2 && whole_heads(0);
      case Layout::kHeadsOut:
        return shape.size() == 2 && whole_heads(1);
      case Layout::kHeadsBias:
        return shape.size() == 1 && whole_heads(0);
      default:
        return shape.size() == 2 || (shape.size() == 1 && ThirdOf(part.layout) && ThirdOf(part.layout)->dimension == 0);
    }
  }

  // Queries, keys and values, each once and of one shape.
  void CheckStack(WeightExport::Tensor& tensor) {
    if (!ThirdOf(tensor.parts.front().layout)) return;
    std::ranges::sort(tensor.parts, {}, [](const WeightExport::Part& part) { return ThirdOf(part.layout)->place; });
    const Extents& shape = targets_[tensor.parts.front().target].facts.shape;
    bool is_whole = tensor.parts.size() == 3;
    for (std::size_t i = 0; is_whole && i < 3; ++i) {
      const WeightExport::Part& part = tensor.parts[i];
      is_whole = ThirdOf(part.layout)->place == static_cast<int64_t>(i) && targets_[part.target].facts.shape == shape;
    }
    if (is_whole) return;
    plan_.faults.push_back(Whom(tensor.parts.front().target) + " is a part of '" + ShownName(tensor.name) + "' in " +
                           table_.names_of + ": expected one each of queries, keys and values, of one shape");
  }

  bool IsTied(std::size_t a, std::size_t b) const {
    return targets_[a].facts.place && targets_[a].facts.place == targets_[b].facts.place;
  }

  std::string NativeName(const std::string& dotted) const {
    const std::string name = JoinName(SplitName(dotted, "."), table_.separator);
    return scope_.empty() ? name : scope_ + table_.separator + name;
  }

  const Targets& targets_;
  const std::vector<AttentionHeads>& heads_;
  const WeightTable& table_;
  ModulePaths module_;
  std::map<std::string, std::size_t> index_;          // of a target by its name
  std::map<std::string, AttentionShapes> attention_;  // by path, with a dot at its end unless it is empty
  std::map<std::string, std::size_t> by_name_;        // of a tensor of the plan
  std::string scope_;
  WeightExport plan_;
};

// What can be written for a framework.
std::string KnownLayers(Framework framework) {
  std::string known;
  for (const WeightTable& table : TablesOf(framework)) {
    if (table.is_written) known += (known.empty() ? "" : ", ") + std::string(NameOf(table.layers));
  }
  return known;
}

}  // namespace

WeightExport PlanExport(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention,
                        Framework framework, Layers layers, const std::string& prefix) {
  std::optional<WeightExport> first;
  for (const WeightTable& table : TablesOf(framework)) {
    const bool is_asked = layers == Layers::kUsual || layers == table.layers;
    if (!table.is_written || !is_asked) continue;
    WeightExport plan = Exporter(targets, attention, table, prefix).Make();
    // Only a framework without a usual choice of its own is tried from one to the next.
    const bool is_final = layers != Layers::kUsual || framework != Framework::kHf;
    if (plan.faults.empty() || is_final) return plan;
    if (!first) first = std::move(plan);
  }
  if (first) return *std::move(first);
  throw InvalidArgument("layers '" + std::string(NameOf(layers)) + "': " + NameOf(framework) + " has " +
                        KnownLayers(framework));
}

}  // namespace heed
