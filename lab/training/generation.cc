#include "lab/training/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "heed/error.h"
#include "lab/data/random.h"
#include "lab/training/interrupt.h"
#include "lab/training/language_model.h"

namespace heed::lab {
namespace {

void Validate(const Text& prompt, const GenerateOptions& options) {
  if (prompt.characters.empty()) throw InvalidArgument("prompt: it is empty; give at least one character");
  if (options.tokens < 0) throw InvalidArgument("tokens: " + std::to_string(options.tokens) + " is not 0 or more");
  if (!(options.temperature >= 0.0) || !std::isfinite(options.temperature)) {
    throw InvalidArgument("temperature: " + std::to_string(options.temperature) + " is not 0 or more");
  }
  if (options.top_k < 0) throw InvalidArgument("top_k: " + std::to_string(options.top_k) + " is not 0 or more");
}

// What a model says comes next in a text that grows.
class Reader {
 public:
  explicit Reader(LanguageModel& model) : model_(model), context_(model->options().context), caches_(NewCaches()) {}

  // The logits of the character after the text, which begins as that of the call before.
  std::vector<float> Next(const std::vector<int32_t>& tokens) {
    tokens_ = tokens;
    const at::Tensor hidden = model_->CanStep() ? Step() : model_->forward(Last(std::min(Count(), context_)));
    const at::Tensor logits = model_->Logits(hidden.select(1, hidden.size(1) - 1)).to(at::kFloat).contiguous();
    const float* first = logits.const_data_ptr<float>();
    return {first, first + logits.numel()};
  }

 private:
  at::Tensor Step() {
    int64_t unread = Count() - read_;
    if (caches_.length() + unread > context_) {
      caches_ = NewCaches();
      unread = std::min(Count(), read_ == 0 ? context_ : std::max<int64_t>(1, context_ * 3 / 4));
    }
    read_ = Count();
    return model_->Step(Last(unread), caches_);
  }

  nn::LayerCaches NewCaches() const { return nn::LayerCaches(model_->options().layers, context_); }
  int64_t Count() const { return static_cast<int64_t>(tokens_.size()); }
  at::Tensor Last(int64_t steps) const {
    at::Tensor last = at::empty({1, steps}, at::kLong);
    std::copy(tokens_.end() - steps, tokens_.end(), last.mutable_data_ptr<int64_t>());
    return last;
  }

  LanguageModel& model_;
  std::vector<int32_t> tokens_;
  int64_t context_, read_ = 0;  // tokens in the caches end at token read_
  nn::LayerCaches caches_;
};

// Else the first character would be taken, as the likeliest, whatever it is.
void RequireFiniteLogits(const std::vector<float>& logits, std::size_t characters) {
  if (std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) return;
  throw Error("model: its logits after " + std::to_string(characters) +
              " characters are not all finite; its weights are damaged, or its training diverged");
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

std::u32string Continuation(const Vocabulary& vocabulary, const Text& prompt, const GenerateOptions& options,
                            const std::function<std::vector<float>(const std::vector<int32_t>& tokens)>& next,
                            const std::function<void(char32_t)>& on_character) {
  Validate(prompt, options);
  std::vector<int32_t> tokens = vocabulary.Encode(prompt);
  Random random(options.seed);
  std::u32string continuation;
  for (int64_t i = 0; i < options.tokens; ++i) {
    if (Interrupted()) throw Interruption("interrupted after " + std::to_string(i) + " characters");
    const std::vector<float> logits = next(tokens);
    RequireFiniteLogits(logits, prompt.characters.size() + continuation.size());
    tokens.push_back(Draw(logits, options, random));
    continuation.push_back(vocabulary.characters()[tokens.back()]);
    if (on_character) on_character(continuation.back());
  }
  return continuation;
}

std::u32string Generate(LanguageModel& model, const Text& prompt, const GenerateOptions& options,
                        const std::function<void(char32_t)>& on_character) {
  if (model->options().objective != Objective::kCausal) {
    throw InvalidArgument("model: it was trained with the masked objective; only a causal model can continue a text");
  }
  const at::NoGradGuard no_grad;
  model->eval();
  Reader reader(model);
  const auto next = [&](const std::vector<int32_t>& tokens) { return reader.Next(tokens); };
  return Continuation(model->vocabulary(), prompt, options, next, on_character);
}

}  // namespace heed::lab
