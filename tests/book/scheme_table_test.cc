#include "book/positions/positions.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/positions.h"
#include "lab/training/language_model.h"
#include "tests/lab/sample_runs.h"

namespace heed::lab {
namespace {

LanguageModel ModelWith(const std::string& position) {
  ModelOptions options = SmallModel();
  options.position = position;
  LanguageModel model(options, Vocabulary(SampleText().characters));
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters()) parameter.copy_(at::randn_like(parameter));
  return model;
}

std::vector<double> Flat(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

double Deviation(const std::vector<double>& values) { return at::tensor(values).square().mean().sqrt().item<double>(); }

// Of independent draws: the standard error of a deviation is it over sqrt(2 * count), below 1 % for the sizes here.
TEST(StartingTable, IsDrawnAsTheModulesDrawTheirs) {
  torch::manual_seed(1);
  PositionsOptions options;
  options.steps = 200, options.width = 32, options.max_distance = 50;
  const std::vector<double> learned = Flat(nn::LearnedPositions(options.width, 0.0, options.steps)->weight);
  const std::vector<double> shaw = Flat(nn::Shaw(options.width, options.max_distance)->keys);
  for (const auto& [scheme, values] : {std::pair("learned", learned), std::pair("shaw", shaw)}) {
    options.scheme = scheme;
    const SchemeTable table = StartingTable(options);
    EXPECT_EQ(table.values.size(), values.size()) << scheme;
    EXPECT_FALSE(table.trained);
    EXPECT_NEAR(Deviation(table.values) / Deviation(values), 1, 0.06) << scheme;
    EXPECT_EQ(StartingTable(options).values, table.values) << "the seed alone decides";
  }
  options.scheme = "relative";
  EXPECT_EQ(StartingTable(options).values, Flat(nn::RelativeBias(options.width, options.max_distance)->relative_bias));
  options.scheme = "t5";
  const SchemeTable t5 = StartingTable(options);
  EXPECT_EQ(t5.values, Flat(nn::T5Bias(options.width, T5Options{options.buckets, options.max_distance})->table()));
}

TEST(TrainedTable, IsWhatTheParametersOfItsLayerSay) {
  for (const char* scheme : {"relative", "t5", "shaw"}) {
    LanguageModel model = ModelWith(scheme);
    const auto parameters = model->named_parameters();
    for (int64_t layer = 0; layer < 2; ++layer) {
      const std::string prefix = "encoder.block" + std::to_string(layer) + ".attention.position.";
      const std::optional<SchemeTable> table = TrainedTable(model, layer);
      ASSERT_TRUE(table) << scheme;
      EXPECT_TRUE(table->trained);
      EXPECT_EQ(table->scheme, scheme);
      if (scheme == std::string("t5")) {
        // A causal layer: keys before the query by their distance, later ones in bucket 0; 17 offsets to either side.
        const at::Tensor weight = parameters[prefix + "weight"];
        ASSERT_EQ(table->columns, 2 * 17 + 1);
        EXPECT_EQ(table->values[17 - 5], weight[5][0].item<double>());
        EXPECT_EQ(table->values[35 + 17 + 3], weight[0][1].item<double>());
      } else {
        EXPECT_EQ(table->values, Flat(parameters[prefix + (scheme == std::string("shaw") ? "keys" : "relative_bias")]));
      }
    }
  }
  LanguageModel learned = ModelWith("learned");
  EXPECT_EQ(TrainedTable(learned, 0)->values, Flat(learned->named_parameters()["encoder.learned.weight"]));
}

TEST(StartingTable, LeavesPyTorchsGeneratorAsItWas) {
  for (const char* scheme : {"learned", "shaw", "kerple", "deberta"}) {
    PositionsOptions options;
    options.scheme = scheme;
    torch::manual_seed(5);
    const std::vector<double> expected = Flat(at::randn({4}));
    torch::manual_seed(5);
    StartingTable(options);
    EXPECT_EQ(Flat(at::randn({4})), expected) << scheme;
  }
}

TEST(TrainedTable, IsWhatAFunctionOfTheScoreAdds) {
  LanguageModel kerple = ModelWith("kerple");
  const auto parameters = kerple->named_parameters();
  const std::string prefix = "encoder.block1.attention.position.";
  const at::Tensor rate = parameters[prefix + "rate"].to(at::kDouble).clamp_min(0.01);
  const at::Tensor scale = parameters[prefix + "scale"].to(at::kDouble).clamp_min(0.01);
  const std::optional<SchemeTable> table = TrainedTable(kerple, 1);
  ASSERT_TRUE(table);
  const int64_t context = kerple->options().context;
  ASSERT_EQ(table->columns, 2 * context - 1);
  ASSERT_EQ(table->rows, kerple->options().heads);
  for (int64_t head = 0; head < table->rows; ++head) {
    const double expected = -(rate[head] * (5 * scale[head]).log1p()).item<double>();
    for (const int64_t offset : {-5, 5})
      EXPECT_NEAR(table->values[head * table->columns + context - 1 + offset], expected, 1e-12);
  }
  LanguageModel temperature = ModelWith("temperature");
  const at::Tensor factors =
      temperature->named_parameters()["encoder.block0.attention.position.log_scale"].to(at::kDouble).exp();
  const std::vector<double> measured = TrainedTable(temperature, 0)->values, expected = Flat(factors);
  ASSERT_EQ(measured.size(), expected.size());
  for (std::size_t head = 0; head < expected.size(); ++head) EXPECT_NEAR(measured[head], expected[head], 1e-12);
}

TEST(TrainedTable, IsThereAndItsIdentitiesHoldForEverySchemeThatTrains) {
  for (const char* scheme : {"relative", "t5", "shaw", "kerple", "kerple_power", "fire", "temperature", "sinusoidal_bias",
                             "transformer_xl", "deberta", "cope"}) {
    SCOPED_TRACE(scheme);
    LanguageModel model = ModelWith(scheme);
    const ModelOptions& trained = model->options();
    PositionsOptions options;
    options.scheme = scheme;
    FitToModel(options, trained.width, trained.heads, trained.context);
    const std::optional<SchemeTable> table = TrainedTable(model, 1);
    ASSERT_TRUE(table);
    EXPECT_TRUE(table->trained);
    EXPECT_GE(PositionFigures(options, table).size(), 2u);
    EXPECT_NE(table->values, TrainedTable(model, 0)->values) << "each layer has its own";
  }
}

TEST(TrainedTable, IsNothingWhereNothingIsTrained) {
  for (const char* scheme : {"none", "sinusoidal", "rotary", "alibi", "sandwich", "xpos"}) {
    LanguageModel model = ModelWith(scheme);
    EXPECT_FALSE(TrainedTable(model, 1)) << scheme;
  }
  LanguageModel model = ModelWith("relative");
  for (const int64_t layer : {-1, 2}) EXPECT_THROW(TrainedTable(model, layer), InvalidArgument);
}

}  // namespace
}  // namespace heed::lab
