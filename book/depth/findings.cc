#include "book/depth/output.h"

#include <cmath>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "lab/runs/contender.h"

namespace heed::lab {
namespace {

constexpr char kOneRun[] = "One run of each at one learning rate: another seed or rate may give other depths.";

// "4.3e-07", but "0.21" where that is shorter to read.
std::string Short(double value) {
  return value >= 0.001 && value < 10000 ? fmt::format("{:.2g}", value) : fmt::format("{:.0e}", value);
}

// The first layer behind which the tokens are alike; -1 where none is.
int64_t AlikeFrom(const StackProfile& profile) {
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    if (profile.layers[l].distance_to_equal_rows < kAlike) return static_cast<int64_t>(l);
  }
  return -1;
}

// "Tokens are alike .. from layer 5 on in a and from layer 9 on in b. After layer 64 the distance from that is 0.4 (c)."
std::string Collapse(const std::vector<NamedProfile>& stacks, int64_t layers) {
  std::vector<std::string> alike, apart;
  for (const NamedProfile& stack : stacks) {
    const int64_t from = AlikeFrom(*stack.profile);
    if (from >= 0) {
      alike.push_back(fmt::format("from layer {} on ({})", from, stack.name));
    } else {
      apart.push_back(fmt::format("{} ({})", Short(stack.profile->layers.back().distance_to_equal_rows), stack.name));
    }
  }
  std::string text;
  if (!alike.empty()) text = fmt::format("All tokens have the same state to one part in a million {}.", Join(alike));
  if (apart.empty()) return text;
  return text + fmt::format("{}After layer {} the distance from that is {}.", text.empty() ? "" : " ", layers, Join(apart));
}

bool Learns(const DepthStack& stack, double frequencies) { return stack.loss < frequencies - kLearns; }

// "pre-norm learns at every depth (2.100 at 32 layers)", "post-norm fails at 16 and 32 layers", "no residual learns at none".
std::string LearnsWhere(const DepthResult& result, const std::string& id) {
  const std::string& label = VariantNamed(id).label;
  std::vector<std::string> fails;
  int64_t learnt = 0;
  for (const int64_t depth : result.options.depths) {
    if (Learns(*result.Trained(id, depth), result.frequencies)) {
      ++learnt;
    } else {
      fails.push_back(std::to_string(depth));
    }
  }
  const double last = result.Trained(id, result.options.depths.back())->loss;
  if (fails.empty())
    return fmt::format("{} learns at every depth ({:.3f} at {} layers)", label, last, result.options.depths.back());
  if (learnt == 0) return fmt::format("{} learns at none", label);
  return fmt::format("{} fails at {} layers", label, Join(fails));
}

std::string RankFinding(const DepthResult& result, Objective objective) {
  const std::vector<NamedProfile> stacks = result.Variants(objective);
  if (stacks.empty()) return {};
  return (objective == Objective::kCausal ? "With the past alone in sight: " : "With all tokens in sight: ") +
         Collapse(stacks, result.options.layers);
}

std::string PositionsRankFinding(const DepthResult& result) {
  std::vector<NamedProfile> stacks = result.Positions();
  if (stacks.size() < 2) return {};
  for (NamedProfile& stack : stacks) {
    if (stack.name == "none") stack.name = "no positions";
  }
  return "Attention alone by its positional encoding: " + Collapse(stacks, result.options.layers);
}

std::string EntropyFinding(const DepthResult& result) {
  std::vector<std::string> last;
  for (const NamedProfile& stack : result.Variants(Objective::kMasked)) {
    const LayerProfile& layer = stack.profile->layers.back();
    last.push_back(fmt::format("{:.0f} % with a largest weight of {} ({})", 100 * MeanOver(layer.entropy),
                               Short(MeanOver(layer.largest_weight)), stack.name));
  }
  if (last.empty()) return {};
  return fmt::format(
      "In layer {} the entropy of attention, as a share of that of even weights with a largest weight of {}, is {}.",
      result.options.layers, Short(1.0 / static_cast<double>(result.options.context)), Join(last));
}

std::string GradientFinding(const DepthResult& result) {
  std::vector<std::string> changes, told;
  for (const NamedProfile& stack : result.Variants(Objective::kMasked)) {
    const LayerProfile &input = stack.profile->layers.front(), &last = stack.profile->layers.back();
    changes.push_back(fmt::format("{} ({})", Short(input.state_gradient / last.state_gradient), stack.name));
    told.push_back(fmt::format("{} ({})", Short(last.query_key_gradient / last.parameter_gradient), stack.name));
  }
  if (changes.empty()) return {};
  return fmt::format(
      "From the last layer down to the input, the gradient of the states changes by a factor of {}. Queries and keys get a "
      "share of {} of the gradient of the last layer's parameters.",
      Join(changes), Join(told));
}

std::string TrainingFinding(const DepthResult& result) {
  if (result.trained.empty()) return {};
  std::vector<std::string> parts, broke;
  for (const std::string& id : result.options.trained) {
    parts.push_back(LearnsWhere(result, id));
    for (const int64_t depth : result.options.depths) {
      const DepthStack& stack = *result.Trained(id, depth);
      if (stack.broke_at > 0)
        broke.push_back(fmt::format("{} with {} layers at step {}", VariantNamed(id).label, depth, stack.broke_at));
    }
  }
  std::string text = fmt::format(
      "A stack learns when its loss is at least {1} nats below the {2:.3f} of the frequencies. After {0} steps: {3}.",
      result.options.steps, kLearns, result.frequencies, fmt::join(parts, "; "));
  if (!broke.empty()) text += fmt::format(" The numbers were no longer finite in {}.", Join(broke));
  const DepthStack* best = nullptr;  // of those whose loss is a number
  for (const DepthStack& stack : result.trained) {
    if (std::isfinite(stack.loss) && (best == nullptr || stack.loss < best->loss)) best = &stack;
  }
  if (best != nullptr) {
    text += fmt::format(" The best is {} with {} {}: {:.3f}.", VariantNamed(best->variant).label, best->layers,
                        best->layers == 1 ? "layer" : "layers", best->loss);
  }
  return text + " " + kOneRun;
}

std::string TimeFinding(const DepthResult& result) {
  std::vector<std::string> times;
  for (const std::string& id : result.options.trained) {
    if (result.options.depths.size() < 2) break;
    const int64_t few = result.options.depths.front(), many = result.options.depths.back();
    const double least = result.Trained(id, few)->microseconds_per_token,
                 most = result.Trained(id, many)->microseconds_per_token;
    times.push_back(fmt::format("{:.1f} µs a token and layer ({})", (most - least) / static_cast<double>(many - few),
                                VariantNamed(id).label));
  }
  if (times.empty()) return {};
  return fmt::format("Between {} and {} layers a training step takes {} more.", result.options.depths.front(),
                     result.options.depths.back(), Join(times));
}

}  // namespace

std::vector<DepthFinding> DepthFindings(const DepthResult& result) {
  return {{RankFinding(result, Objective::kMasked), {"depth-rank"}},
          {RankFinding(result, Objective::kCausal), {"depth-rank-causal"}},
          {PositionsRankFinding(result), {"depth-rank-positions"}},
          {EntropyFinding(result), {"depth-entropy", "depth-largest-weight"}},
          {GradientFinding(result), {"depth-gradient", "depth-query-key-gradient"}},
          {TrainingFinding(result), {"depth-loss", "depth-rank-trained"}},
          {TimeFinding(result), {"depth-time"}}};
}

std::string DepthConclusion(const DepthResult& result) {
  std::string text;
  const DepthStack* alone = result.Started("attention", "none", Objective::kMasked);
  const int64_t from = alone == nullptr ? -1 : AlikeFrom(alone->profile);
  if (from >= 0) text = fmt::format("Attention alone makes all tokens alike within {} layers. ", from);
  if (result.trained.empty()) return text;
  std::vector<std::string> parts;
  parts.reserve(result.options.trained.size());
  for (const std::string& id : result.options.trained) parts.push_back(LearnsWhere(result, id));
  return text + fmt::format("Trained for {} steps with {} to {} layers: {}. {}", result.options.steps,
                            result.options.depths.front(), result.options.depths.back(), fmt::join(parts, "; "), kOneRun);
}

}  // namespace heed::lab
