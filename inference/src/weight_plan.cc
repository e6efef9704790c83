#include "heed/weight_plan.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "shape_text.h"
#include "weight_names.h"
#include "weight_tables.h"

namespace heed {
namespace {

// Components that may stand before a module's own names. Each is tried, so that a hostile file must not choose their number.
constexpr std::size_t kDeepestScope = 16;

constexpr std::size_t kListedFaults = 6;  // of one checkpoint, in one message
constexpr char kStrictness[] =
    "; every parameter and every buffer of the module's state dict needs a source, every source a place, and nothing was "
    "changed";

using Shape = std::vector<int64_t>;

// The heads that a framework's own layer keeps as a dimension; 0 where the layout has none.
int64_t HeadsOf(const Shape& theirs, Layout layout) {
  if (layout == Layout::kHeadsIn && theirs.size() == 3) return theirs[1];
  const bool first = layout == Layout::kHeadsOut || layout == Layout::kHeadsBias;
  return first && !theirs.empty() ? theirs[0] : 0;
}

// The heads that the module has for a projection, by the parameter's name: "attention.W_k.weight" -> key and value heads.
int64_t HeadsOf(const std::vector<AttentionHeads>& attention, const std::string& parameter) {
  for (const AttentionHeads& layer : attention) {
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

using Sources = std::map<std::string, WeightSource>;

class Planner {
 public:
  Planner(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention, const Sources& sources,
          const FrameworkTable& table)
      : targets_(targets), attention_(attention), sources_(sources), table_(table) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      index_[targets[i].name] = i;
      if (targets[i].facts.place) tied_[*targets[i].facts.place].push_back(targets[i].name);
    }
  }

  WeightPlan Make() const {
    std::vector<std::string> names, parameters;
    for (const auto& [name, source] : sources_) names.push_back(name);
    for (const WeightTarget& target : targets_) {
      if (std::string_view(target.kind) == "parameter") parameters.push_back(target.name);
    }
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
  struct Fitting {
    std::string target;
    Layout layout;
  };

  std::string Whom(const WeightTarget& target) const { return Described(target.kind, target.name, target.facts); }

  std::vector<Fitting> FittingsOf(const std::string& dotted) const {
    std::vector<Fitting> fittings;
    for (const WeightRow& row : table_.rows) {
      const std::optional<std::string> name = Rewrite(dotted, row.theirs, row.heed);
      if (name && index_.contains(*name)) fittings.push_back({*name, row.layout});
    }
    const bool same_name = fittings.empty() && table_.shares_heeds_names && index_.contains(dotted);
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
    for (const WeightTarget& target : targets_) {
      if (!IsFilled(target, source_of)) plan.faults.push_back(Whom(target) + " has no source");
    }
    RefuseLeft(left, source_of, plan);
    return plan;
  }

  // By a source of its own, or of another name for the same tensor.
  bool IsFilled(const WeightTarget& target, const std::map<std::string, std::string>& source_of) const {
    if (source_of.contains(target.name)) return true;
    if (!target.facts.place) return false;
    const std::vector<std::string>& names = tied_.at(*target.facts.place);
    return std::any_of(names.begin(), names.end(), [&](const std::string& tied) { return source_of.contains(tied); });
  }

  // What is left over is refused, unless it is a second name of a tensor that was used.
  void RefuseLeft(const std::vector<std::string>& left, const std::map<std::string, std::string>& source_of,
                  WeightPlan& plan) const {
    if (left.empty()) return;
    std::set<int64_t> used;
    for (const auto& [target, source] : source_of) {
      if (const std::optional<int64_t> place = sources_.at(source).facts.place) used.insert(*place);
    }
    for (const std::string& source : left) {
      const WeightSource& found = sources_.at(source);
      const std::optional<int64_t> place = found.facts.place;
      if (!place || !used.contains(*place)) plan.faults.push_back(Who(source, found) + " has no parameter");
    }
  }

  static std::string Who(const std::string& name, const WeightSource& source) {
    return Described("source", ShownName(name), source.facts);
  }

  void Fit(const std::string& source, const WeightSource& found, const Fitting& fitting, WeightPlan& plan) const {
    const std::size_t index = index_.at(fitting.target);
    const WeightTarget& target = targets_[index];
    const WeightFacts &theirs = found.facts, &ours = target.facts;
    const std::string who = Who(source, found), whom = Whom(target);
    const auto fault = [&plan](std::string what) { plan.faults.push_back(std::move(what)); };
    if (!found.fault.empty()) return fault(who + " " + found.fault + "; " + whom + " needs it");
    if (!target.fault.empty()) return fault(whom + " " + target.fault);
    if (ours.floating && !theirs.floating) {
      return fault(who + " holds no floating-point numbers for " + whom + ": it is of type " + theirs.type +
                   "; float64, float32, float16 or bfloat16 is expected");
    }
    if (!ours.floating && theirs.type != ours.type) {
      return fault(who + " is of type " + theirs.type + ", " + whom + " of type " + ours.type);
    }
    const std::optional<Shape> shape = ShapeInHeed(theirs.shape, fitting.layout);
    if (shape != ours.shape) {
      const bool turned = shape && fitting.layout != Layout::kSame;
      return fault(who + (turned ? ", in heed's layout " + ShapeText(*shape) + "," : "") + " does not fit " + whom);
    }
    const int64_t heads = HeadsOf(theirs.shape, fitting.layout), own_heads = HeadsOf(attention_, fitting.target);
    if (heads != 0 && heads != own_heads) {
      return fault(who + " has " + std::to_string(heads) + " heads, " + whom + " has " + std::to_string(own_heads));
    }
    plan.copies.push_back({index, source, fitting.layout});
  }

  const std::vector<WeightTarget>& targets_;
  const std::vector<AttentionHeads>& attention_;
  const Sources& sources_;
  const FrameworkTable& table_;
  std::map<std::string, std::size_t> index_;  // of a target by its name
  std::map<int64_t, std::vector<std::string>> tied_;
};

}  // namespace

std::optional<std::vector<int64_t>> ShapeInHeed(const std::vector<int64_t>& theirs, Layout layout) {
  const std::size_t rank = theirs.size();
  switch (layout) {
    case Layout::kSame:
      return theirs;
    case Layout::kTransposed:
      if (rank == 2) return Shape{theirs[1], theirs[0]};
      break;
    case Layout::kHeadsIn:
      if (rank == 3) return Shape{theirs[1] * theirs[2], theirs[0]};
      break;
    case Layout::kHeadsOut:
      if (rank == 3) return Shape{theirs[2], theirs[0] * theirs[1]};
      break;
    case Layout::kHeadsBias:
      if (rank == 2) return Shape{theirs[0] * theirs[1]};
      break;
    case Layout::kFirstThird:
    case Layout::kSecondThird:
    case Layout::kLastThird: {
      if (rank == 0 || theirs[0] % 3 != 0) break;
      Shape shape = theirs;
      shape[0] /= 3;
      return shape;
    }
  }
  return std::nullopt;
}

std::string Described(const char* what, const std::string& name, const WeightFacts& facts) {
  return std::string(what) + " '" + name + "' " + facts.odd.value_or(ShapeText(facts.shape));
}

WeightPlan PlanWeights(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention,
                       const std::map<std::string, WeightSource>& sources, Framework framework) {
  return Planner(targets, attention, sources, TableOf(framework)).Make();
}

void RefuseFaults(const std::vector<std::string>& faults, Framework framework) {
  if (faults.empty()) return;
  std::string message = std::string("tensors from ") + NameOf(framework) + " do not fit the module: ";
  for (std::size_t i = 0; i < std::min(faults.size(), kListedFaults); ++i) message += (i > 0 ? "; " : "") + faults[i];
  if (faults.size() > kListedFaults) message += "; and " + std::to_string(faults.size() - kListedFaults) + " more";
  throw InvalidArgument(message + kStrictness);
}

}  // namespace heed
