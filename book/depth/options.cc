#include "book/depth/options.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "heed/error.h"
#include "lab/options/fields.h"
#include "lab/report/printable.h"
#include "lab/training/options.h"

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
  options.budget = budget;
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

Fields FieldsOf(DepthOptions& options) {
  return {Names("variants", &options.variants, VariantIds(), "Stacks to measure as they start"),
          OrNone(Names("positions", &options.positions, PositionSchemeNames(), "Schemes for attention alone")),
          Whole("layers", &options.layers, 1, 1024, "Layers of the stacks to measure as they start"),
          OrNone(Names("trained", &options.trained, VariantIds(), "Stacks to train")),
          OrNone(Whole("depths", &options.depths, 1, 1024, "Layers of the trained stacks, as 1,2,4")),
          Whole("steps", &options.steps, 1, int64_t{1} << 32, "Training steps of a stack"),
          Whole("width", &options.width, 4, 4096, "Features of a step"),
          Whole("heads", &options.heads, 1, 4096, "Heads of a layer; divides the width"),
          Whole("context", &options.context, 4, 1 << 16, "Characters of a window"),
          Whole("batch", &options.batch, 1, 1 << 16, "Windows a step"),
          Number("lr", options.lr, 0, std::numeric_limits<double>::infinity(), "Learning rate after the warm-up"),
          Whole("validation", &options.validation, 5, int64_t{1} << 40, "Most characters in the evaluation of trained stacks"),
          Seed(options.seed),
          SideBySide(options.threads)};
}

void Validate(const DepthOptions& options) {
  DepthOptions checked = options;
  Check(FieldsOf(checked));
  const auto end = options.depths.end();
  if (std::adjacent_find(options.depths.begin(), end, std::greater_equal<>()) != end) {
    throw InvalidArgument("depths: expected rising numbers");
  }
  RequireHeads(options.width, options.heads, options.positions);
  if (!options.trained.empty() && options.context >= options.validation) {
    throw InvalidArgument("context: windows of " + std::to_string(options.context) + " characters do not fit the " +
                          std::to_string(options.validation) + " that trained stacks are evaluated on");
  }
}

std::string CommandOf(const DepthOptions& options, const std::string& text, const std::filesystem::path& folder) {
  DepthOptions own = options, budget = DepthBudget(options.budget);
  return CommandLine("depth", text.empty() ? "" : ShellWord(text), options.budget, FieldsOf(own), FieldsOf(budget), folder);
}

}  // namespace heed::lab
