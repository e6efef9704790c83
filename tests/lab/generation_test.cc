#include "lab/training/generation.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/init.h>

#include "heed/error.h"
#include "lab/training/language_model.h"
#include "lab/training/train.h"
#include "tests/lab/sample_runs.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

LanguageModel TrainedModel() {
  static LanguageModel model = [] {
    TrainOptions options = SmallRun();
    options.steps = 150;
    options.lr = 1e-2;
    options.min_lr = 1e-3;
    const ScratchFolder scratch;
    return *Train(SampleText(), options, RunFolder(scratch.path() / "run")).model;
  }();
  return model;
}

TEST(Generation, ContinuesATextThatTheModelHasLearned) {
  LanguageModel model = TrainedModel();
  GenerateOptions options;
  options.tokens = 30;
  options.temperature = 0.0;
  std::u32string heard;
  const std::u32string text =
      Generate(model, Text{"prompt", U"one two, three!one two"}, options, [&](char32_t c) { heard.push_back(c); });
  EXPECT_EQ(text, U", three!one two, three!one two");
  EXPECT_EQ(heard, text);
}

TEST(Generation, TheSeedDecidesAndTopOneIsGreedy) {
  LanguageModel model = TrainedModel();
  const Text prompt{"prompt", U"one"};
  GenerateOptions options;
  options.tokens = 60;
  options.temperature = 3.0;  // flat enough for seeds to differ
  options.seed = 1;
  const std::u32string first = Generate(model, prompt, options);
  EXPECT_EQ(Generate(model, prompt, options), first);
  options.seed = 2;
  EXPECT_NE(Generate(model, prompt, options), first);
  options.top_k = 1;
  const std::u32string top_one = Generate(model, prompt, options);
  options.temperature = 0.0;
  EXPECT_EQ(Generate(model, prompt, options), top_one);
}

// The draws of the first character against the model's own softmax, restricted to its three most likely characters.
TEST(Generation, DrawsFromTheModelsDistribution) {
  LanguageModel model = TrainedModel();
  const Text prompt{"prompt", U"e"};
  GenerateOptions options;
  options.tokens = 1;
  options.temperature = 2.0;
  options.top_k = 3;
  std::map<char32_t, int> seen;
  constexpr int kDraws = 2000;
  for (options.seed = 0; options.seed < kDraws; ++options.seed) ++seen[Generate(model, prompt, options)[0]];
  const at::NoGradGuard no_grad;
  const int64_t token = model->vocabulary().Encode(prompt)[0];
  const at::Tensor logits = model->Logits(model->forward(at::full({1, 1}, token, at::kLong)))[0][0] / options.temperature;
  const auto [values, indices] = logits.topk(3);
  const at::Tensor probability = values.softmax(0);
  EXPECT_LE(seen.size(), 3u);
  for (int64_t i = 0; i < 3; ++i) {
    const double p = probability[i].item<double>();
    const char32_t character = model->vocabulary().characters()[indices[i].item<int64_t>()];
    EXPECT_NEAR(seen[character], p * kDraws, 6 * std::sqrt(p * (1 - p) * kDraws) + 1);
  }
}

// The most likely character after tokens [begin, end), by a whole pass over them.
char32_t MostLikely(LanguageModel& model, const std::vector<int32_t>& tokens, int64_t begin, int64_t end) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> window(tokens.begin() + begin, tokens.begin() + end);
  const at::Tensor hidden = model->forward(at::tensor(window).unsqueeze(0)).select(1, end - begin - 1);
  return model->vocabulary().characters()[model->Logits(hidden).argmax().item<int64_t>()];
}

// Step by step, from the window that the header promises: up to `context`, then anew from three quarters.
TEST(Generation, ReadsTheWindowThatItPromises) {
  std::vector<std::pair<std::string, std::string>> models = {
      {"linear", "none"}, {"retention", "none"}, {"mamba2", "none"}, {"gated-delta", "none"}};
  for (const std::string& position : nn::PositionSchemeNames()) models.emplace_back("attention", position);
  for (const auto& [encoder, position] : models) {
    at::manual_seed(5);
    ModelOptions options = SmallModel(encoder);
    options.position = position;
    LanguageModel model(options, TrainedModel()->vocabulary());
    ASSERT_TRUE(model->CanStep()) << encoder;
    model->eval();
    // Schemes that start at zero would hide where a query stands.
    for (const auto& item : model->named_parameters())
      if (item.key().find("position.") != std::string::npos) torch::nn::init::normal_(item.value());
    const int64_t context = options.context;
    for (const std::u32string& start : {std::u32string(U"one"), std::u32string(U"one two, three!one two, three!one")}) {
      const Text prompt{"prompt", start};
      const std::u32string text = start + Generate(model, prompt, {.tokens = 3 * context, .temperature = 0.0});
      ASSERT_EQ(text.size(), start.size() + 3 * context);
      const std::vector<int32_t> tokens = model->vocabulary().Encode(Text{"text", text});
      int64_t begin = std::max<int64_t>(0, static_cast<int64_t>(start.size()) - context);
      for (int64_t end = static_cast<int64_t>(start.size()); end < static_cast<int64_t>(text.size()); ++end) {
        if (end - begin > context) begin = end - context * 3 / 4;
        ASSERT_EQ(text[end], MostLikely(model, tokens, begin, end)) << encoder << ' ' << position << " at " << end;
      }
    }
  }
}

TEST(Generation, RefusesWhatItCannotContinue) {
  LanguageModel model = TrainedModel();
  EXPECT_THROW(Generate(model, Text{"prompt", U""}, {}), InvalidArgument);
  EXPECT_THROW(Generate(model, Text{"prompt", U"Q"}, {}), InvalidArgument);
  EXPECT_THROW(Generate(model, Text{"prompt", U"one"}, {.tokens = -1}), InvalidArgument);
  EXPECT_THROW(Generate(model, Text{"prompt", U"one"}, {.temperature = -1.0}), InvalidArgument);
  EXPECT_THROW(Generate(model, Text{"prompt", U"one"}, {.top_k = -1}), InvalidArgument);
  ModelOptions masked = SmallModel();
  masked.objective = Objective::kMasked;
  LanguageModel other(masked, model->vocabulary());
  EXPECT_THROW(Generate(other, Text{"prompt", U"one"}, {}), InvalidArgument);
}

}  // namespace
}  // namespace heed::lab
