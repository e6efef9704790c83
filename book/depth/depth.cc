#include "book/depth/depth.h"

#include <algorithm>
#include <utility>

#include "book/depth/profiler.h"
#include "book/depth/stack.h"
#include "heed/error.h"
#include "lab/data/ngrams.h"
#include "lab/runs/run.h"

namespace heed::lab {
namespace {

constexpr double kDiscount = 0.5;         // of counted frequencies
constexpr int64_t kStepsOfAProfile = 16;  // what a profile costs, in training steps

using Json = nlohmann::ordered_json;

// A window and the character behind it must fit each part of the text that is looked at.
void RequireLongEnough(const Corpus& corpus, const DepthOptions& options) {
  const auto shortest =
      options.trained.empty() ? corpus.train.size() : std::min<int64_t>(corpus.train.size(), std::ssize(corpus.validation));
  if (options.context < shortest) return;
  throw InvalidArgument("context: windows of " + std::to_string(options.context) + " characters do not fit the " +
                        std::to_string(shortest) + " of the text that are set apart for them");
}

std::vector<StartedStack> PlanStarted(const DepthOptions& options) {
  std::vector<StartedStack> stacks;
  for (const Objective objective : {Objective::kMasked, Objective::kCausal}) {
    for (const std::string& variant : options.variants) stacks.push_back({variant, "none", objective, {}});
  }
  for (const std::string& position : options.positions) {
    const bool planned = position == "none" && std::count(options.variants.begin(), options.variants.end(), "attention") != 0;
    if (!planned) stacks.push_back({"attention", position, Objective::kMasked, {}});
  }
  return stacks;
}

StackProfile ProfileStarted(const Corpus& corpus, const DepthOptions& options, const StartedStack& stack) {
  StackModel model(StackOptions{.variant = VariantNamed(stack.variant),
                                .layers = options.layers,
                                .width = options.width,
                                .heads = options.heads,
                                .context = options.context,
                                .position = stack.position,
                                .objective = stack.objective,
                                .symbols = corpus.vocabulary.size() + 1},  // the last one hides characters
                   options.seed);
  return Profile(model, ProfileBatch(corpus, options, stack.objective));
}

Json SharedSettings(const DepthOptions& options, int64_t layers) {
  return {{"layers", layers},
          {"width", options.width},
          {"heads", options.heads},
          {"context", options.context},
          {"seed", options.seed}};
}

// What they refer to must outlive the runs, whose work counts layers times steps.
Run RunOf(const Corpus& corpus, const DepthOptions& options, StartedStack& stack) {
  Run run;
  run.name = "depth-start-" + ToString(stack.objective) + "-" + stack.variant + "-" + stack.position;
  run.settings = SharedSettings(options, options.layers);
  run.work = options.layers * kStepsOfAProfile;
  run.timed = false;
  run.compute = [&corpus, &options, &stack, work = run.work](const OnWork& on_work) {
    Json result = ToJson(ProfileStarted(corpus, options, stack));
    on_work(work);
    return result;
  };
  run.take = [&options, &stack, name = run.name](const Json& result) {
    stack.profile = ProfileFromJson(result, options.layers, options.heads);
    return name;
  };
  return run;
}

Run RunOf(const Corpus& corpus, const DepthOptions& options, TrainedStack& stack) {
  Run run;
  run.name = "depth-trained-" + stack.variant + "-" + std::to_string(stack.layers);
  run.settings = SharedSettings(options, stack.layers);
  run.settings.update(
      {{"steps", options.steps}, {"batch", options.batch}, {"lr", options.lr}, {"validation", options.validation}});
  run.work = stack.layers * options.steps;
  run.compute = [&corpus, &options, &variant = VariantNamed(stack.variant), layers = stack.layers](const OnWork& on_work) {
    return ToJson(TrainStack(corpus, options, variant, layers, on_work));
  };
  run.take = [&options, &stack, name = run.name](const Json& result) {
    TrainedStack read = TrainedStackFromJson(result, options.heads);
    if (read.variant != stack.variant || read.layers != stack.layers) throw InvalidArgument("stack: it is another one");
    stack = std::move(read);
    return name;
  };
  return run;
}

}  // namespace

const StartedStack* DepthResult::Started(const std::string& variant, const std::string& position, Objective objective) const {
  const auto found = std::find_if(started.begin(), started.end(), [&](const StartedStack& stack) {
    return stack.variant == variant && stack.position == position && stack.objective == objective;
  });
  return found == started.end() ? nullptr : &*found;
}

const TrainedStack* DepthResult::Trained(const std::string& variant, int64_t layers) const {
  const auto found = std::find_if(trained.begin(), trained.end(), [&](const TrainedStack& stack) {
    return stack.variant == variant && stack.layers == layers;
  });
  return found == trained.end() ? nullptr : &*found;
}

DepthResult MeasureDepth(const Corpus& corpus, const DepthOptions& options, const std::string& what, const ResultStore* store) {
  Validate(options);
  RequireLongEnough(corpus, options);
  DepthResult result;
  result.options = options;
  result.started = PlanStarted(options);
  for (const std::string& variant : options.trained) {
    for (const int64_t depth : options.depths) {
      result.trained.emplace_back();
      result.trained.back().variant = variant;
      result.trained.back().layers = depth;
    }
  }
  Corpus evaluated = corpus;
  evaluated.validation.resize(std::min<std::size_t>(corpus.validation.size(), static_cast<std::size_t>(options.validation)));
  result.frequencies = NGrams(evaluated.train, evaluated.vocabulary.size(), 1).Losses(evaluated.validation, kDiscount).front();
  std::vector<Run> runs;
  runs.reserve(result.started.size() + result.trained.size());
  for (StartedStack& stack : result.started) runs.push_back(RunOf(corpus, options, stack));
  for (TrainedStack& stack : result.trained) runs.push_back(RunOf(corpus, options, stack));
  DoRuns(what, runs, store, options.threads, options.quiet);
  return result;
}

}  // namespace heed::lab
