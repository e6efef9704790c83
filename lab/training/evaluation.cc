#include "lab/training/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "lab/data/batches.h"
#include "lab/training/data_parallel.h"
#include "lab/training/fit.h"
#include "lab/training/interrupt.h"
#include "lab/training/language_model.h"
#include "lab/training/ranks.h"

namespace heed::lab {
namespace {

constexpr int64_t kTokensPerBatch = 4096;  // enough to fill matrix products, small enough to stay in the caches

// Evaluation mode for as long as it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module), training_(module.is_training()) { module_.eval(); }
  ~EvaluationMode() { module_.train(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& module_;
  bool training_;
};

constexpr const char* kInterrupted = "interrupted during evaluation";

constexpr const char* kLossesOfOthers = "the validation losses that the other ranks compute";

// The batches' losses; each is computed on one rank, or on those that share its sequences.
std::vector<double> OfAll(Ranks& ranks, std::vector<double> losses, bool interrupted) {
  losses.push_back(interrupted ? 1.0 : 0.0);
  losses = ranks.Sum(losses, kLossesOfOthers);
  if (losses.back() > 0.0) throw Interruption(kInterrupted);
  losses.pop_back();
  return losses;
}

}  // namespace

void RequireReach(const LanguageModel& model, int64_t context) {
  if (context < 1) throw InvalidArgument("context: " + std::to_string(context) + " is not 1 or more");
  if (context > model->longest()) {
    throw InvalidArgument(
        fmt::format("context: {} steps are more than the {} rows of the model's learned position table; --beyond clamp repeats "
                    "its last row",
                    context, model->longest()));
  }
}

Evaluation Evaluate(LanguageModel& model, const std::vector<int32_t>& tokens, int64_t context,
                    const std::function<void(int64_t)>& on_tokens, Ranks* ranks, int64_t stride) {
  if (context == 0) context = model->options().context;
  RequireReach(model, context);
  const Objective objective = model->options().objective;
  if (tokens.size() < (objective == Objective::kCausal ? 2u : 1u)) {
    throw InvalidArgument("text: " + std::to_string(tokens.size()) + " characters leave nothing to predict");
  }
  const WindowOptions windows{objective, context, std::max<int64_t>(1, kTokensPerBatch / context), model->mask_symbol(),
                              stride};
  const EvaluationMode mode(*model);
  const at::NoGradGuard no_grad;
  const auto start = std::chrono::steady_clock::now();
  std::vector<double> losses;  // by batch, 0 for those of other ranks
  bool interrupted = false;
  int64_t done = 0;
  const std::function<void(const Batch&)> compute = [&](const Batch& batch) {
    losses.back() = model->Loss(batch).item<double>() * static_cast<double>(batch.targets.numel());
    done += batch.inputs.numel();
  };
  const int64_t predictions = ForEachBatch(tokens, windows, [&](const Batch& batch) {
    const bool own = ranks == nullptr || std::ssize(losses) % ranks->row_groups() == ranks->row_group();
    losses.push_back(0.0);
    interrupted = interrupted || Interrupted();
    if (interrupted && ranks == nullptr) throw Interruption(kInterrupted);
    if (!own) return;
    // Ranks that share a sequence leave it out together.
    if (ranks != nullptr) interrupted = ranks->AnyOfSequence(interrupted, kLossesOfOthers);
    if (interrupted) return;
    ranks != nullptr ? WithTokens(*ranks, batch, objective, kLossesOfOthers, compute) : compute(batch);
    if (on_tokens) on_tokens(done);
  });
  if (ranks != nullptr) losses = OfAll(*ranks, std::move(losses), interrupted);
  const double total = std::accumulate(losses.begin(), losses.end(), 0.0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double loss = total / static_cast<double>(predictions);
  RequireFinite("evaluation over windows of " + std::to_string(context) + " steps", "the loss", loss);
  return {context, predictions, loss, std::exp(loss), static_cast<double>(done) / std::max(seconds, 1e-9)};
}

}  // namespace heed::lab
