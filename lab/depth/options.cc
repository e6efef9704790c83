#include "lab/depth/options.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "heed/error.h"
#include "heed/nn/positions.h"
#include "lab/runs/choice.h"

namespace heed::lab {
namespace {

std::vector<std::string> VariantIds() {
  std::vector<std::string> ids;
  for (const StackVariant& variant : AllVariants()) ids.push_back(variant.id);
  return ids;
}

}  // namespace

const std::vector<StackVariant>& AllVariants() {
  static const std::vector<StackVariant> variants = {
      {"attention", "attention alone", false, StackNorm::kNone, false},
      {"attention-residual", "attention and residual", true, StackNorm::kNone, false},
      {"feed-forward", "feed-forward, no residual", false, StackNorm::kNone, true},
      {"norm", "LayerNorm, no residual", false, StackNorm::kPost, true},
      {"residual", "residual, no LayerNorm", true, StackNorm::kNone, true},
      {"post", "post-norm", true, StackNorm::kPost, true},
      {"pre", "pre-norm", true, StackNorm::kPre, true},
  };
  return variants;
}

const StackVariant& VariantNamed(const std::string& id) {
  RequireKnown("variants", {id}, VariantIds());
  return *std::find_if(AllVariants().begin(), AllVariants().end(),
                       [&](const StackVariant& variant) { return variant.id == id; });
}

DepthOptions DepthBudget(const std::string& budget) {
  DepthOptions options;
  if (budget == "quick") {
    options.layers = 24, options.depths = {1, 2, 4, 8, 16}, options.steps = 60;
  } else if (budget == "default") {
    options.layers = 64, options.depths = {1, 2, 4, 8, 16, 32}, options.steps = 150;
  } else if (budget == "long") {
    options.layers = 64, options.depths = {1, 2, 4, 8, 16, 32, 64}, options.steps = 200;
    options.width = 64, options.context = 64, options.validation = 16384;
  } else {
    throw InvalidArgument("budget: '" + budget + "' is unknown; choose quick, default or long");
  }
  return options;
}

DepthOptions AtMost(int64_t layers, DepthOptions options) {
  options.layers = std::min(options.layers, layers);
  std::erase_if(options.depths, [layers](int64_t depth) { return depth > layers; });
  if (options.depths.empty()) options.trained.clear();
  return options;
}

void Validate(const DepthOptions& options) {
  RequireKnown("variants", options.variants, VariantIds());
  if (!options.positions.empty()) RequireKnown("positions", options.positions, nn::PositionSchemeNames());
  if (!options.trained.empty()) RequireKnown("trained", options.trained, VariantIds());
  RequireRange("layers", options.layers, 1, 1024);
  for (const int64_t depth : options.depths) RequireRange("depths", depth, 1, 1024);
  const auto end = options.depths.end();
  if (std::adjacent_find(options.depths.begin(), end, std::greater_equal<>()) != end) {
    throw InvalidArgument("depths: expected rising numbers");
  }
  RequireRange("width", options.width, 4, 4096);
  RequireHeads(options.width, options.heads, options.positions);
  RequireRange("context", options.context, 4, 1 << 16);
  RequireRange("batch", options.batch, 1, 1 << 16);
  RequireRange("steps", options.steps, 1, int64_t{1} << 32);
  RequireRange("validation", options.validation, 5, int64_t{1} << 40);
  if (!options.trained.empty() && options.context >= options.validation) {
    throw InvalidArgument("context: windows of " + std::to_string(options.context) + " characters do not fit the " +
                          std::to_string(options.validation) + " that trained stacks are evaluated on");
  }
  RequireRange("threads", options.threads, 1, 1024);
  if (!(options.lr > 0 && std::isfinite(options.lr))) throw InvalidArgument("lr: expected a positive number");
}

}  // namespace heed::lab
