#include "book/depth/depth.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/grad_mode.h>

#include "book/depth/stack.h"
#include "lab/data/batches.h"
#include "lab/training/fit.h"
#include "lab/training/interrupt.h"
#include "lab/training/sequence_model.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

constexpr int64_t kProfileWindows = 4;
constexpr double kWeightDecay = 0.1;

// hides: one more symbol hides characters.
StackModel ModelOf(const Corpus& corpus, const DepthOptions& options, const DepthStack& stack, bool hides) {
  return StackModel(StackOptions{.variant = VariantNamed(stack.variant),
                                 .layers = stack.layers,
                                 .width = options.width,
                                 .heads = options.heads,
                                 .context = options.context,
                                 .position = stack.position,
                                 .objective = stack.objective,
                                 .symbols = corpus.vocabulary.size() + (hides ? 1 : 0)},
                    options.seed);
}

// The windows that stacks are measured on; the same for every stack of an objective.
Batch ProfileBatch(const Corpus& corpus, const DepthOptions& options, Objective objective) {
  const auto mask_symbol = static_cast<int32_t>(corpus.vocabulary.size());
  Random random(options.seed);
  return RandomBatch(corpus.train, {objective, options.context, kProfileWindows, mask_symbol}, random);
}

// Where the numbers break, the training ends and the result tells the step.
void TrainAll(StackModel& model, const Corpus& corpus, const DepthOptions& options, DepthStack& result, const OnWork& on_work) {
  const WindowOptions windows{Objective::kCausal, options.context, options.batch, 0};
  Random random(options.seed);
  const auto loss = [&] { return model->Loss(RandomBatch(corpus.train, windows, random)); };
  int64_t under_way = 1;
  FitHooks hooks;
  hooks.on_step = [&](const FitStep& step) {
    under_way = step.number + 1;
    on_work(result.layers);
  };
  const double start = ThreadSeconds();
  try {
    Fit(*model, ShortTraining(options.steps, options.lr, kWeightDecay), loss, hooks);
  } catch (const Divergence&) {
    result.broke_at = under_way;
  }
  const int64_t trained = result.broke_at > 0 ? result.broke_at : options.steps;
  result.microseconds_per_token =
      1e6 * (ThreadSeconds() - start) / static_cast<double>(trained * options.batch * options.context);
}

double ValidationLoss(StackModel& model, const Corpus& corpus, const DepthOptions& options) {
  const at::NoGradGuard no_grad;
  const WindowOptions windows{Objective::kCausal, options.context, std::max<int64_t>(1, 1024 / options.context), 0};
  std::vector<int32_t> tokens = corpus.validation;
  tokens.resize(std::min<std::size_t>(tokens.size(), static_cast<std::size_t>(options.validation)));
  double total = 0;
  const int64_t predictions = ForEachBatch(tokens, windows, [&](const Batch& batch) {
    total += model->Loss(batch).item<double>() * static_cast<double>(batch.targets.numel());
  });
  return total / static_cast<double>(predictions);
}

}  // namespace

StackProfile ProfileStarted(const Corpus& corpus, const DepthOptions& options, const DepthStack& stack) {
  StackModel model = ModelOf(corpus, options, stack, /*hides=*/true);
  return Profile(model, ProfileBatch(corpus, options, stack.objective));
}

DepthStack TrainStack(const Corpus& corpus, const DepthOptions& options, const DepthStack& stack, const OnWork& on_work) {
  StackModel model = ModelOf(corpus, options, stack, /*hides=*/false);
  DepthStack result = stack;
  result.parameters = ParameterCount(*model);
  TrainAll(model, corpus, options, result, on_work);
  result.loss = result.broke_at > 0 ? NAN : ValidationLoss(model, corpus, options);
  if (!std::isfinite(result.loss) && result.broke_at == 0) result.broke_at = options.steps;
  result.profile = Profile(model, ProfileBatch(corpus, options, Objective::kCausal));
  return result;
}

nlohmann::ordered_json ToJson(const DepthStack& stack) {
  return {{"variant", stack.variant},        {"layers", stack.layers}, {"parameters", stack.parameters},
          {"broke_at", stack.broke_at},      {"loss", stack.loss},     {"microseconds_per_token", stack.microseconds_per_token},
          {"profile", ToJson(stack.profile)}};
}

DepthStack TrainedStackFromJson(const nlohmann::ordered_json& json, int64_t heads) {
  DepthStack stack;
  stack.variant = json.at("variant").get<std::string>();
  stack.layers = json.at("layers").get<int64_t>();
  stack.parameters = json.at("parameters").get<int64_t>();
  stack.broke_at = json.at("broke_at").get<int64_t>();
  stack.loss = stack.broke_at > 0 ? NAN : NumberFromJson(json.at("loss"));
  stack.microseconds_per_token = json.at("microseconds_per_token").get<double>();
  stack.profile = ProfileFromJson(json.at("profile"), stack.layers, heads);
  return stack;
}

}  // namespace heed::lab
