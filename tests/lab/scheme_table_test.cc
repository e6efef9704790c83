#include "lab/positions/scheme_table.h"

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

TEST(TrainedTable, IsNothingWhereNothingIsTrained) {
  for (const char* scheme : {"none", "sinusoidal", "rotary", "alibi"}) {
    LanguageModel model = ModelWith(scheme);
    EXPECT_FALSE(TrainedTable(model, 1)) << scheme;
  }
  LanguageModel model = ModelWith("relative");
  for (const int64_t layer : {-1, 2}) EXPECT_THROW(TrainedTable(model, layer), InvalidArgument);
}

}  // namespace
}  // namespace heed::lab
