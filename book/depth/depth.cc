#include "book/depth/depth.h"

#include <algorithm>
#include <utility>

#include "heed/error.h"
#include "lab/data/ngrams.h"
#include "lab/runs/job.h"

namespace heed::lab {
namespace {

constexpr double kDiscount = 0.5;         // of counted frequencies
constexpr int64_t kStepsOfAProfile = 16;  // what a profile costs, in training steps

// A window and the character behind it must fit each part of the text that is looked at.
void RequireLongEnough(const Corpus& corpus, const DepthOptions& options) {
  const auto shortest =
      options.trained.empty() ? corpus.train.size() : std::min<int64_t>(corpus.train.size(), std::ssize(corpus.validation));
  if (options.context < shortest) return;
  throw InvalidArgument("context: windows of " + std::to_string(options.context) + " characters do not fit the " +
                        std::to_string(shortest) + " of the text that are set apart for them");
}

std::vector<DepthStack> PlanStarted(const DepthOptions& options) {
  std::vector<DepthStack> stacks;
  const auto add = [&](const std::string& variant, const std::string& position, Objective objective) {
    stacks.push_back(
        {.variant = variant, .position = position, .objective = objective, .profile = {}, .layers = options.layers});
  };
  for (const Objective objective : {Objective::kMasked, Objective::kCausal}) {
    for (const std::string& variant : options.variants) add(variant, "none", objective);
  }
  for (const std::string& position : options.positions) {
    const bool planned = position == "none" && std::count(options.variants.begin(), options.variants.end(), "attention") != 0;
    if (!planned) add("attention", position, Objective::kMasked);
  }
  return stacks;
}

// The outcome is JSON alone, of which `check` knows whether it is whole; the work counts layers times steps. What they refer to
// must outlive the jobs.
Job JobOf(const Corpus& corpus, const DepthOptions& options, const DepthStack& stack, bool trained) {
  Job job;
  job.settings = {{"layers", stack.layers},
                  {"width", options.width},
                  {"heads", options.heads},
                  {"context", options.context},
                  {"seed", options.seed}};
  job.work = stack.layers * (trained ? options.steps : kStepsOfAProfile);
  job.timed = trained;
  if (trained) {
    job.name = "depth-trained-" + stack.variant + "-" + std::to_string(stack.layers);
    job.settings.update(
        {{"steps", options.steps}, {"batch", options.batch}, {"lr", options.lr}, {"validation", options.validation}});
    job.compute = [&corpus, &options, &stack](const OnWork& on_work) {
      return Outcome{.more = ToJson(TrainStack(corpus, options, stack, on_work))};
    };
    job.check = [&options, &stack](const Outcome& outcome) {
      const DepthStack read = TrainedStackFromJson(outcome.more, options.heads);
      if (read.variant != stack.variant || read.layers != stack.layers)
        throw InvalidArgument("stack: expected another variant or depth");
    };
  } else {
    job.name = "depth-start-" + ToString(stack.objective) + "-" + stack.variant + "-" + stack.position;
    job.compute = [&corpus, &options, &stack, work = job.work](const OnWork& on_work) {
      Outcome outcome{.more = ToJson(ProfileStarted(corpus, options, stack))};
      on_work(work);
      return outcome;
    };
    job.check = [&options](const Outcome& outcome) { ProfileFromJson(outcome.more, options.layers, options.heads); };
  }
  job.label = job.name;
  return job;
}

}  // namespace

const DepthStack* DepthResult::Started(const std::string& variant, const std::string& position, Objective objective) const {
  const auto found = std::find_if(started.begin(), started.end(), [&](const DepthStack& stack) {
    return stack.variant == variant && stack.position == position && stack.objective == objective;
  });
  return found == started.end() ? nullptr : &*found;
}

const DepthStack* DepthResult::Trained(const std::string& variant, int64_t layers) const {
  const auto found = std::find_if(trained.begin(), trained.end(),
                                  [&](const DepthStack& stack) { return stack.variant == variant && stack.layers == layers; });
  return found == trained.end() ? nullptr : &*found;
}

std::vector<NamedProfile> DepthResult::Variants(Objective objective) const {
  std::vector<NamedProfile> stacks;
  for (const std::string& id : options.variants) {
    if (const DepthStack* stack = Started(id, "none", objective)) stacks.push_back({VariantNamed(id).label, &stack->profile});
  }
  return stacks;
}

std::vector<NamedProfile> DepthResult::Positions() const {
  std::vector<NamedProfile> stacks;
  for (const std::string& position : options.positions) {
    if (const DepthStack* stack = Started("attention", position, Objective::kMasked))
      stacks.push_back({position, &stack->profile});
  }
  return stacks;
}

DepthResult MeasureDepth(const Corpus& corpus, const DepthOptions& options, const std::string& what, const ResultStore* store) {
  Validate(options);
  RequireLongEnough(corpus, options);
  DepthResult result;
  result.options = options;
  result.started = PlanStarted(options);
  for (const std::string& variant : options.trained) {
    for (const int64_t depth : options.depths) {
      result.trained.push_back({.variant = variant, .profile = {}, .layers = depth});
    }
  }
  Corpus evaluated = corpus;
  evaluated.validation.resize(std::min<std::size_t>(corpus.validation.size(), static_cast<std::size_t>(options.validation)));
  const NGrams frequencies(evaluated.train.tokens, evaluated.train.ends, evaluated.vocabulary.size(), 1);
  result.frequencies = frequencies.Losses(evaluated.validation, kDiscount).front();
  std::vector<Job> jobs;
  jobs.reserve(result.started.size() + result.trained.size());
  for (const DepthStack& stack : result.started) jobs.push_back(JobOf(corpus, options, stack, false));
  for (const DepthStack& stack : result.trained) jobs.push_back(JobOf(corpus, options, stack, true));
  const std::vector<Outcome> outcomes = DoJobs(what, jobs, store, options.threads, options.quiet);
  auto next = outcomes.begin();
  for (DepthStack& stack : result.started) stack.profile = ProfileFromJson((next++)->more, options.layers, options.heads);
  for (DepthStack& stack : result.trained) stack = TrainedStackFromJson((next++)->more, options.heads);
  return result;
}

}  // namespace heed::lab
