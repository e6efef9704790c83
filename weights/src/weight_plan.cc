#include "heed/weight_plan.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "heed/shape_text.h"
#include "weight_names.h"
#include "weight_spelling.h"
#include "weight_tables.h"

namespace heed {
namespace {

// Components that may stand before a module's own names. Each is tried, so that a hostile file must not choose their number.
constexpr std::size_t kDeepestScope = 16;

constexpr std::size_t kListedFaults = 6;  // in one message
constexpr char kStrictness[] =
    "; every parameter and every buffer of the module's state dict needs a source, every source a place (a prefix takes a "
    "part of a checkpoint), and nothing was changed";

using Extents = std::vector<int64_t>;

// The heads that a framework's own layer keeps as a dimension; 0 where the layout has none.
int64_t HeadsOf(const Extents& theirs, Layout layout) {
  if (layout == Layout::kHeadsIn && theirs.size() == 3) return theirs[1];
  const bool first = layout == Layout::kHeadsOut || layout == Layout::kHeadsBias;
  return first && !theirs.empty() ? theirs[0] : 0;
}

std::string Listed(const std::vector<std::string>& faults) {
  std::string list;
  for (std::size_t i = 0; i < std::min(faults.size(), kListedFaults); ++i) list += (i > 0 ? "; " : "") + faults[i];
  return faults.size() > kListedFaults ? list + "; and " + std::to_string(faults.size() - kListedFaults) + " more" : list;
}

using Sources = std::map<std::string, WeightSource>;

// Where a name of the framework leads.
struct Place {
  std::size_t target;
  Layout layout;
  bool is_second_name;
  bool has_switch;  // the table knows one switch for all biases
};

class Planner {
 public:
  Planner(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention, const Sources& sources,
          Framework framework)
      : targets_(targets), attention_(attention), sources_(sources), framework_(framework), module_(targets) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (targets[i].facts.place) tied_[*targets[i].facts.place].push_back(i);
      for (const WeightTable& table : TablesOf(framework)) AddPlaces(i, table);
    }
  }

  // dotted: the names of the sources below the prefix, in their order.
  WeightPlan Make(const std::vector<std::string>& dotted) const {
    const std::string scope = ScopeOf(dotted);
    WeightPlan plan;
    Matches matches;
    auto name = dotted.begin();
    for (const auto& [source, found] : sources_) {
      const std::string_view whole = *name++;
      const auto places = whole.starts_with(scope) ? places_.find(whole.substr(scope.size())) : places_.end();
      if (places == places_.end()) {
        if (!found.optional && !IsConstant(framework_, source, found.facts.shape.size())) matches.left.push_back(source);
        continue;
      }
      for (const Place& place : places->second) Take(source, found, place, matches, plan);
    }
    AddZeros(matches, plan);
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (!IsFilled(i, matches)) plan.faults.push_back(Whom(targets_[i]) + " has no source");
    }
    RefuseLeft(matches, plan);
    return plan;
  }

 private:
  struct Matches {
    std::map<std::size_t, std::pair<std::string, Place>> source_of;  // by target
    std::vector<std::string> left;
  };

  void AddPlaces(std::size_t target, const WeightTable& table) {
    for (const Spelling& spelling : SpellingsOf(targets_[target], table, module_)) {
      std::vector<Place>& places = places_[WithNumberedBlocks(spelling.name)];
      const bool is_known = std::ranges::any_of(
          places, [&](const Place& place) { return place.target == target && place.layout == spelling.layout; });
      if (!is_known) {
        places.push_back({target, spelling.layout, spelling.is_second_name, table.biases == Biases::kSwitch});
      }
    }
  }

  std::string Whom(const WeightTarget& target) const { return Described(target.kind, target.name, target.facts); }

  // What stands before the names of the module, with a dot at its end: of all beginnings the one behind which most names lead
  // somewhere, of equal ones the shortest.
  std::string ScopeOf(const std::vector<std::string>& dotted) const {
    std::map<std::string_view, std::size_t> votes;
    for (const std::string& name : dotted) {
      std::size_t begin = 0;
      for (std::size_t depth = 0; depth <= kDeepestScope; ++depth) {
        if (places_.contains(std::string_view(name).substr(begin))) ++votes[std::string_view(name).substr(0, begin)];
        const std::size_t dot = name.find('.', begin);
        if (dot == std::string::npos) break;
        begin = dot + 1;
      }
    }
    const auto best = std::ranges::max_element(votes, [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second < b.second : a.first.size() > b.first.size();
    });
    return best == votes.end() ? "" : std::string(best->first);
  }

  void Take(const std::string& source, const WeightSource& found, const Place& place, Matches& matches,
            WeightPlan& plan) const {
    const auto [previous, is_new] = matches.source_of.emplace(place.target, std::pair(source, place));
    if (!is_new && !place.is_second_name && !previous->second.second.is_second_name) {
      plan.faults.push_back("parameter '" + targets_[place.target].name + "' has two sources, '" +
                            ShownName(previous->second.first) + "' and '" + ShownName(source) + "'");
      return;
    }
    Fit(source, found, place, plan);
  }

  // Biases that no source has, of layers that do without them.
  void AddZeros(Matches& matches, WeightPlan& plan) const {
    std::vector<std::size_t> zeros;
    for (const WeightTable& table : TablesOf(framework_)) {
      for (std::size_t i = 0; i < targets_.size(); ++i) {
        if (!IsSwitchedOff(targets_[i], table, module_)) continue;
        if (matches.source_of.contains(i)) return;
        if (targets_[i].fault.empty() && ComesFromSwitch(targets_[i], matches)) zeros.push_back(i);
      }
    }
    for (const std::size_t i : zeros) {
      matches.source_of.emplace(i, std::pair(std::string(), Place{i, Layout::kSame, false, true}));
      plan.copies.push_back({i, "", Layout::kSame});
    }
  }

  // Whether the weight beside a bias was filled by a layer that has one switch for all biases.
  bool ComesFromSwitch(const WeightTarget& bias, const Matches& matches) const {
    const std::string weight = bias.name.substr(0, bias.name.rfind('.') + 1) + "weight";
    return std::ranges::any_of(matches.source_of, [&](const auto& match) {
      return match.second.second.has_switch && targets_[match.first].name == weight;
    });
  }

  // By a source of its own, or of another name for the same tensor.
  bool IsFilled(std::size_t target, const Matches& matches) const {
    if (matches.source_of.contains(target)) return true;
    const std::optional<int64_t> place = targets_[target].facts.place;
    if (!place) return false;
    return std::ranges::any_of(tied_.at(*place), [&](std::size_t tied) { return matches.source_of.contains(tied); });
  }

  // What is left over is refused, unless it is a second name of a tensor that was used.
  void RefuseLeft(const Matches& matches, WeightPlan& plan) const {
    if (matches.left.empty()) return;
    std::set<int64_t> used;
    for (const auto& [target, match] : matches.source_of) {
      if (match.first.empty()) continue;
      if (const std::optional<int64_t> place = sources_.at(match.first).facts.place) used.insert(*place);
    }
    for (const std::string& source : matches.left) {
      const WeightSource& found = sources_.at(source);
      const std::optional<int64_t> place = found.facts.place;
      if (!place || !used.contains(*place)) plan.faults.push_back(Who(source, found) + " has no parameter");
    }
  }

  static std::string Who(const std::string& name, const WeightSource& source) {
    return Described("source", ShownName(name), source.facts);
  }

  void Fit(const std::string& source, const WeightSource& found, const Place& place, WeightPlan& plan) const {
    const WeightTarget& target = targets_[place.target];
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
    const std::optional<Extents> shape = ShapeInHeed(theirs.shape, place.layout);
    if (shape != ours.shape) {
      const bool turned = shape && place.layout != Layout::kSame;
      return fault(who + (turned ? ", in heed's layout " + ShapeText(*shape) + "," : "") + " does not fit " + whom);
    }
    const int64_t heads = HeadsOf(theirs.shape, place.layout), own_heads = HeadsOfProjection(attention_, target.name);
    if (heads != 0 && heads != own_heads) {
      return fault(who + " has " + std::to_string(heads) + " heads, " + whom + " has " + std::to_string(own_heads));
    }
    plan.copies.push_back({place.target, source, place.layout});
  }

  const std::vector<WeightTarget>& targets_;
  const std::vector<AttentionHeads>& attention_;
  const Sources& sources_;
  Framework framework_;
  ModulePaths module_;
  std::map<std::string, std::vector<Place>, std::less<>> places_;  // by the framework's names, with numbered blocks
  std::map<int64_t, std::vector<std::size_t>> tied_;
};

// Those of `sources` whose names continue `prefix`, by their whole names, and the rest of each name.
std::pair<Sources, std::vector<std::string>> Below(std::string prefix, const Sources& sources) {
  if (prefix.ends_with('.') || prefix.ends_with('/')) prefix.pop_back();
  std::pair<Sources, std::vector<std::string>> below;
  for (const auto& [name, source] : sources) {
    const bool is_below = name.size() > prefix.size() + 1 && name.starts_with(prefix) &&
                          (name[prefix.size()] == '.' || name[prefix.size()] == '/');
    if (!is_below) continue;
    below.first.emplace(name, source);
    below.second.push_back(name.substr(prefix.size() + 1));
  }
  if (!below.first.empty()) return below;
  const std::string first = sources.empty() ? "there are none" : "the first is '" + ShownName(sources.begin()->first) + "'";
  throw InvalidArgument("prefix '" + ShownName(prefix) +
                        "': expected what the names of some sources begin with, up to a dot; " + first);
}

}  // namespace

std::optional<Third> ThirdOf(Layout layout) {
  if (layout < Layout::kFirstThird) return std::nullopt;
  const int64_t place = static_cast<int64_t>(layout) - static_cast<int64_t>(Layout::kFirstThird);
  return Third{place % 3, place / 3};
}

std::optional<std::vector<int64_t>> ShapeInHeed(const std::vector<int64_t>& theirs, Layout layout) {
  const std::size_t rank = theirs.size();
  switch (layout) {
    case Layout::kSame:
    case Layout::kReversed:
      return theirs;
    case Layout::kTransposed:
      if (rank == 2) return Extents{theirs[1], theirs[0]};
      break;
    case Layout::kHeadsIn:
      if (rank == 3) return Extents{theirs[1] * theirs[2], theirs[0]};
      break;
    case Layout::kHeadsOut:
      if (rank == 3) return Extents{theirs[2], theirs[0] * theirs[1]};
      break;
    case Layout::kHeadsBias:
      if (rank == 2) return Extents{theirs[0] * theirs[1]};
      break;
    default: {
      const Third third = *ThirdOf(layout);
      if (rank <= static_cast<std::size_t>(third.dimension) || theirs[third.dimension] % 3 != 0) break;
      if (third.dimension == 0) {
        Extents shape = theirs;
        shape[0] /= 3;
        return shape;
      }
      if (rank == 2) return Extents{theirs[1] / 3, theirs[0]};
      break;
    }
  }
  return std::nullopt;
}

std::string Described(const char* what, const std::string& name, const WeightFacts& facts) {
  return std::string(what) + " '" + name + "' " + facts.odd.value_or(ShapeText(facts.shape));
}

WeightPlan PlanWeights(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention,
                       const std::map<std::string, WeightSource>& sources, Framework framework, const std::string& prefix) {
  std::vector<std::string> names, parameters;
  Sources selected;
  if (prefix.empty()) {
    for (const auto& [name, source] : sources) names.push_back(name);
  } else {
    std::tie(selected, names) = Below(prefix, sources);
  }
  for (const WeightTarget& target : targets) {
    if (std::string_view(target.kind) == "parameter") parameters.push_back(target.name);
  }
  const std::vector<std::string> dotted = DottedNames(names, parameters, FactsOf(framework).numbering);
  return Planner(targets, attention, prefix.empty() ? sources : selected, framework).Make(dotted);
}

void RefuseFaults(const std::vector<std::string>& faults, Framework framework) {
  if (faults.empty()) return;
  throw InvalidArgument(std::string("tensors from ") + NameOf(framework) + " do not fit the module: " + Listed(faults) +
                        kStrictness);
}

void RefuseFaults(const WeightExport& plan) {
  if (!plan.faults.empty()) throw InvalidArgument(Listed(plan.faults) + "; nothing was written");
}

}  // namespace heed
