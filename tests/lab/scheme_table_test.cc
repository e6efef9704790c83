#include "lab/positions/scheme_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "heed/error.h"
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
