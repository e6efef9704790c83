#include "lab/depth/depth.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <optional>

#include "heed/error.h"
#include "lab/data/baselines.h"
#include "lab/depth/stack.h"
#include "lab/report/progress.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

constexpr int64_t kStepsOfAProfile = 16;  // what a profile costs, in training steps

using Json = nlohmann::ordered_json;

// A stack to measure. `work` counts layers times steps.
struct Task {
  std::string name;
  Json settings;
  int64_t work = 0;
  std::function<bool(const Json& json)> load;  // false where the JSON does not hold the result
  std::function<Json(std::atomic<int64_t>& done)> measure;
};

// A window and the character behind it must fit each part of the text that is looked at.
void RequireLongEnough(const Corpus& corpus, const DepthOptions& options) {
  const auto shortest = static_cast<int64_t>(options.trained.empty() ? corpus.train.size()
                                                                     : std::min(corpus.train.size(), corpus.validation.size()));
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

Task TaskOf(const Corpus& corpus, const DepthOptions& options, StartedStack& stack) {
  Task task;
  task.name = "depth-start-" + ToString(stack.objective) + "-" + stack.variant + "-" + stack.position;
  task.settings = SharedSettings(options, options.layers);
  task.work = options.layers * kStepsOfAProfile;
  task.load = [&](const Json& json) {
    stack.profile = ProfileFromJson(json, options.layers, options.heads);
    return true;
  };
  task.measure = [&, work = task.work](std::atomic<int64_t>& done) {
    stack.profile = ProfileStarted(corpus, options, stack);
    done += work;
    return ToJson(stack.profile);
  };
  return task;
}

Task TaskOf(const Corpus& corpus, const DepthOptions& options, TrainedStack& stack) {
  Task task;
  task.name = "depth-trained-" + stack.variant + "-" + std::to_string(stack.layers);
  task.settings = SharedSettings(options, stack.layers);
  task.settings.update(
      {{"steps", options.steps}, {"batch", options.batch}, {"lr", options.lr}, {"validation", options.validation}});
  task.work = stack.layers * options.steps;
  task.load = [&](const Json& json) {
    TrainedStack read = TrainedStackFromJson(json, options.heads);
    if (read.variant != stack.variant || read.layers != stack.layers) return false;
    stack = std::move(read);
    return true;
  };
  task.measure = [&](std::atomic<int64_t>& done) {
    stack = TrainStack(corpus, options, VariantNamed(stack.variant), stack.layers, done);
    return ToJson(stack);
  };
  return task;
}

// Whether the store holds the result of a task, which is then taken from there.
bool Found(const Task& task, const ResultStore* store) {
  const std::optional<Json> kept = store == nullptr ? std::nullopt : store->Find(task.name, task.settings);
  if (!kept) return false;
  try {
    return task.load(*kept);
  } catch (const std::exception&) {
    return false;  // it holds something else: the stack is measured again
  }
}

void Measure(std::vector<Task> tasks, const DepthOptions& options, const std::string& what, const ResultStore* store) {
  int64_t total = 0, found = 0;
  std::vector<Task> left;
  for (Task& task : tasks) {
    total += task.work;
    if (Found(task, store)) {
      found += task.work;
    } else {
      left.push_back(std::move(task));
    }
  }
  // The longest first: else one thread would train the deepest stack alone at the end.
  std::stable_sort(left.begin(), left.end(), [](const Task& a, const Task& b) { return a.work > b.work; });
  Progress progress(what, total, options.quiet, found);
  SideBySide(static_cast<int64_t>(left.size()), options.threads, progress, found, [&](int64_t i, std::atomic<int64_t>& done) {
    const Task& task = left[static_cast<std::size_t>(i)];
    const Json result = task.measure(done);
    if (store != nullptr) store->Keep(task.name, task.settings, result);
    return task.name;
  });
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
  result.frequencies = CountBaselines(evaluated).frequencies;
  std::vector<Task> tasks;
  tasks.reserve(result.started.size() + result.trained.size());
  for (StartedStack& stack : result.started) tasks.push_back(TaskOf(corpus, options, stack));
  for (TrainedStack& stack : result.trained) tasks.push_back(TaskOf(corpus, options, stack));
  Measure(std::move(tasks), options, what, store);
  return result;
}

}  // namespace heed::lab
