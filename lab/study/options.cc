#include "lab/study/options.h"

#include <algorithm>
#include <set>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"

namespace heed::lab {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text;
}

void RequireKnown(const char* option, const std::vector<std::string>& chosen, const std::vector<std::string>& known) {
  if (chosen.empty()) throw InvalidArgument(std::string(option) + ": none given; choose among " + Listed(known));
  std::set<std::string> seen;
  for (const std::string& name : chosen) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InvalidArgument(std::string(option) + ": '" + name + "' is unknown; choose among " + Listed(known));
    }
    if (!seen.insert(name).second) throw InvalidArgument(std::string(option) + ": '" + name + "' is given twice");
  }
}

void RequireRange(const char* option, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    throw InvalidArgument(std::string(option) + ": " + std::to_string(value) + " is outside " + std::to_string(low) + ".." +
                          std::to_string(high));
  }
}

}  // namespace

StudyOptions BudgetOptions(const std::string& budget) {
  StudyOptions options;
  options.budget = budget;
  options.depth = DepthBudget(budget);
  options.layers = 2, options.heads = 4, options.width = 64, options.context = 64, options.batch = 8;
  if (budget == "quick") {
    options.causal_steps = 200, options.masked_steps = 300, options.validation = 8192;
    options.compared_lengths = {16, 32, 64, 128, 256};
  } else if (budget == "default") {
    options.causal_steps = 600, options.masked_steps = 1000, options.validation = 16384;
    options.compared_lengths = {16, 32, 64, 128, 256, 512};
  } else if (budget == "long") {
    options.layers = 4, options.width = 96, options.context = 128, options.batch = 16;
    options.causal_steps = 1000, options.masked_steps = 1500, options.validation = 65536;
    options.compared_lengths = {16, 32, 64, 128, 256, 512, 1024};
  } else {
    throw InvalidArgument("budget: '" + budget + "' is unknown; choose quick, default or long");
  }
  return options;
}

std::optional<DepthOptions> DeepStacks(const StudyOptions& options) {
  const bool attends = std::find(options.encoders.begin(), options.encoders.end(), "attention") != options.encoders.end();
  if (!attends || options.depth.layers == 0) return std::nullopt;
  DepthOptions depth = options.depth;
  depth.context = std::min(depth.context, options.context);
  depth.validation = std::min(depth.validation, options.validation);
  depth.seed = options.seed, depth.threads = options.threads, depth.quiet = options.quiet;
  return depth;
}

void Validate(const StudyOptions& options) {
  RequireKnown("encoders", options.encoders, nn::EncoderNames());
  RequireKnown("positions", options.positions, nn::PositionSchemeNames());
  RequireRange("layers", options.layers, 1, 64);
  RequireRange("width", options.width, 4, 4096);
  RequireRange("heads", options.heads, 1, options.width);
  if (options.width % options.heads != 0 || options.width % 2 != 0) {
    throw InvalidArgument("width: " + std::to_string(options.width) + " is not even and divisible by " +
                          std::to_string(options.heads) + " heads");
  }
  RequireRange("context", options.context, 4, 1 << 16);
  RequireRange("batch", options.batch, 1, 1 << 16);
  for (const int64_t steps : {options.causal_steps, options.masked_steps}) RequireRange("steps", steps, 1, int64_t{1} << 32);
  RequireRange("seeds", options.seeds, 1, 1000);
  RequireRange("validation", options.validation, kLengthMultiples[2] * options.context + 1, int64_t{1} << 40);
  RequireRange("threads", options.threads, 1, 1024);
  if (const std::optional<DepthOptions> depth = DeepStacks(options)) Validate(*depth);
}

}  // namespace heed::lab
