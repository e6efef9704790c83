#include "lab/training/evaluation.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/nn/positions.h"
#include "lab/training/language_model.h"
#include "tests/lab/sample_runs.h"

namespace heed::lab {
namespace {

LanguageModel MakeModel(const ModelOptions& options) { return LanguageModel(options, Vocabulary(SampleText().characters)); }

Evaluation Evaluate(LanguageModel& model, const Text& text, int64_t context = 0) {
  return Evaluate(model, model->vocabulary().Encode(text), context);
}

TEST(Evaluation, AModelThatKnowsNothingScoresTheLogarithmOfItsVocabulary) {
  LanguageModel model = MakeModel(SmallModel());
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters()) parameter.zero_();
  const Evaluation evaluation = Evaluate(model, SampleText());
  const double size = static_cast<double>(model->vocabulary().size());
  EXPECT_EQ(evaluation.predictions, 1799);
  EXPECT_NEAR(evaluation.loss, std::log(size), 1e-5);
  EXPECT_NEAR(evaluation.perplexity, size, 1e-3);
}

// A window of one step predicts from one character alone, so the mean can be taken by hand over all pairs.
TEST(Evaluation, AveragesOverEveryPrediction) {
  LanguageModel model = MakeModel(SmallModel());
  model->eval();
  const Text text{"pairs", SampleText().characters.substr(0, 40)};
  const std::vector<int32_t> tokens = model->vocabulary().Encode(text);
  const at::NoGradGuard no_grad;
  double sum = 0.0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const at::Tensor logits = model->Logits(model->forward(at::full({1, 1}, tokens[i], at::kLong)));
    sum -= logits.log_softmax(-1)[0][0][tokens[i + 1]].item<double>();
  }
  EXPECT_NEAR(Evaluate(model, text, 1).loss, sum / 39, 1e-5);
}

TEST(Evaluation, DropsNothingAndLeavesTheModelInItsMode) {
  ModelOptions options = SmallModel();
  options.dropout = 0.5;
  LanguageModel model = MakeModel(options);
  model->train();
  const double first = Evaluate(model, SampleText()).loss;
  EXPECT_EQ(Evaluate(model, SampleText()).loss, first);
  EXPECT_TRUE(model->is_training());
}

TEST(Evaluation, ALearnedTableEndsAtItsContext) {
  LanguageModel model = MakeModel(SmallModel());
  EXPECT_NO_THROW(Evaluate(model, SampleText(), 16));
  try {
    Evaluate(model, SampleText(), 17);
    FAIL();
  } catch (const InvalidArgument& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("context: 17"), std::string::npos) << message;
    EXPECT_NE(message.find("16 rows"), std::string::npos) << message;
  }
}

// A clamped table is one whose missing rows are written out.
TEST(Evaluation, AClampedTableGoesOnWithItsLastRow) {
  const Vocabulary vocabulary(SampleText().characters);
  LanguageModel clamped(SmallModel(), vocabulary, nn::LengthPolicy::kClamp);
  ModelOptions options = SmallModel();
  options.context = 64;
  LanguageModel written(options, vocabulary);
  const at::NoGradGuard no_grad;
  const auto from = clamped->named_parameters();
  for (auto& parameter : written->named_parameters()) {
    const at::Tensor& source = from[parameter.key()];
    const at::Tensor rows = at::arange(parameter.value().size(0)).clamp_max(source.size(0) - 1);
    parameter.value().copy_(source.index_select(0, rows));
  }
  for (const int64_t context : {16, 17, 64}) {
    EXPECT_EQ(Evaluate(clamped, SampleText(), context).loss, Evaluate(written, SampleText(), context).loss) << context;
  }
  EXPECT_NE(Evaluate(clamped, SampleText(), 64).loss, Evaluate(clamped, SampleText(), 16).loss);
}

TEST(Evaluation, OtherSchemesReachBeyondTheTraining) {
  for (const std::string& position : nn::PositionSchemeNames()) {
    if (position == "learned") continue;
    ModelOptions options = SmallModel();
    options.position = position;
    LanguageModel model = MakeModel(options);
    EXPECT_TRUE(std::isfinite(Evaluate(model, SampleText(), 64).loss)) << position;
    EXPECT_TRUE(std::isfinite(Evaluate(model, SampleText(), 3000).loss)) << position;  // one window holds the whole text
  }
}

TEST(Evaluation, RefusesWhatItCannotScore) {
  LanguageModel model = MakeModel(SmallModel());
  EXPECT_THROW(Evaluate(model, Text{"short", U"o"}), InvalidArgument);
  EXPECT_THROW(Evaluate(model, Text{"unknown", U"one Z"}), InvalidArgument);
  EXPECT_THROW(Evaluate(model, SampleText(), -1), InvalidArgument);
}

}  // namespace
}  // namespace heed::lab
