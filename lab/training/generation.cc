#include "lab/training/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "heed/error.h"
#include "lab/data/random.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

void Validate(const LanguageModel& model, const Text& prompt, const GenerateOptions& options) {
  if (model->options().objective != Objective::kCausal) {
    throw InvalidArgument("model: it was trained with the masked objective; only a causal model can continue a text");
  }
  if (prompt.characters.empty()) throw InvalidArgument("prompt: it is empty; give at least one character");
  if (options.tokens < 0) throw InvalidArgument("tokens: " + std::to_string(options.tokens) + " is not 0 or more");
  if (!(options.temperature >= 0.0) || !std::isfinite(options.temperature)) {
    throw InvalidArgument("temperature: " + std::to_string(options.temperature) + " is not 0 or more");
  }
  if (options.top_k < 0) throw InvalidArgument("top_k: " + std::to_string(options.top_k) + " is not 0 or more");
}

// The logits of the character after `tokens`, from the last `context` of them.
std::vector<float> NextLogits(LanguageModel& model, const std::vector<int32_t>& tokens) {
  const int64_t steps = std::min<int64_t>(static_cast<int64_t>(tokens.size()), model->options().context);
  const at::Tensor window = at::empty({1, steps}, at::kLong);
  std::copy(tokens.end() - steps, tokens.end(), window.mutable_data_ptr<int64_t>());
  const at::Tensor logits = model->Logits(model->forward(window).select(1, steps - 1)).contiguous();
  const float* first = logits.const_data_ptr<float>();
  return {first, first + logits.numel()};
}

int32_t Draw(const std::vector<float>& logits, const GenerateOptions& options, Random& random) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (options.temperature == 0.0) return order.front();
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(order.size())) order.resize(options.top_k);
  std::vector<double> cumulative;
  double sum = 0.0;
  for (const int32_t token : order) {
    sum += std::exp((logits[token] - logits[order.front()]) / options.temperature);
    cumulative.push_back(sum);
  }
  const auto drawn = std::upper_bound(cumulative.begin(), cumulative.end(), random.Uniform() * sum);
  return order[std::min<std::size_t>(drawn - cumulative.begin(), order.size() - 1)];
}

}  // namespace

std::u32string Generate(LanguageModel& model, const Text& prompt, const GenerateOptions& options,
                        const std::function<void(char32_t)>& on_character) {
  Validate(model, prompt, options);
  std::vector<int32_t> tokens = model->vocabulary().Encode(prompt);
  const at::NoGradGuard no_grad;
  model->eval();
  Random random(options.seed);
  std::u32string continuation;
  for (int64_t i = 0; i < options.tokens; ++i) {
    if (Interrupted()) throw Interruption("interrupted after " + std::to_string(i) + " characters");
    tokens.push_back(Draw(NextLogits(model, tokens), options, random));
    continuation.push_back(model->vocabulary().characters()[tokens.back()]);
    if (on_character) on_character(continuation.back());
  }
  return continuation;
}

}  // namespace heed::lab
