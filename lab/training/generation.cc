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

// A text that grows, and what its model says comes next.
class Reader {
 public:
  Reader(LanguageModel& model, std::vector<int32_t> tokens)
      : model_(model), tokens_(std::move(tokens)), context_(model->options().context), caches_(NewCaches()) {}

  void Add(int32_t token) { tokens_.push_back(token); }

  // The logits of the character after the text.
  std::vector<float> Next() {
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
              " characters are not all finite; its weights are damaged, or its training left the finite numbers");
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
  Reader reader(model, model->vocabulary().Encode(prompt));
  const at::NoGradGuard no_grad;
  model->eval();
  Random random(options.seed);
  std::u32string continuation;
  for (int64_t i = 0; i < options.tokens; ++i) {
    if (Interrupted()) throw Interruption("interrupted after " + std::to_string(i) + " characters");
    const std::vector<float> logits = reader.Next();
    RequireFiniteLogits(logits, prompt.characters.size() + continuation.size());
    const int32_t token = Draw(logits, options, random);
    reader.Add(token);
    continuation.push_back(model->vocabulary().characters()[token]);
    if (on_character) on_character(continuation.back());
  }
  return continuation;
}

}  // namespace heed::lab
