#include "lab/training/language_model.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "heed/error.h"
#include "heed/nn/positions.h"
#include "lab/training/sequence_model.h"
#include "tests/error_text.h"
#include "tests/lab/sample_runs.h"

namespace heed::lab {
namespace {

double Deviation(const at::Tensor& tensor) { return tensor.std(/*unbiased=*/false).item<double>(); }

TEST(LanguageModel, StartsByItsWidthWithLargerEmbeddings) {
  torch::manual_seed(1);
  ModelOptions options;  // the defaults: 4 layers, width 128
  const LanguageModel model(options, Vocabulary(SampleText().characters));
  int matrices = 0;
  for (const auto& parameter : model->named_parameters()) {
    const std::string& name = parameter.key();
    if (parameter.value().dim() == 2) {
      // 1400 numbers or more: an estimate of the deviation is itself off by 2 %.
      const double expected = (name == "embedding.weight" ? 4 : 1) * 0.02 * std::sqrt(768.0 / 128);
      EXPECT_NEAR(Deviation(parameter.value()), expected, 0.08 * expected) << name;
      ++matrices;
    } else if (name.ends_with("bias")) {
      EXPECT_EQ(parameter.value().abs().max().item<double>(), 0.0) << name;
    }
  }
  EXPECT_EQ(matrices, 3 + 4 * 6);  // embedding, positions, head; W_q, W_k, W_v, W_o, dense1 and dense2 of each layer
}

// What enters the first layer has the same size beside every scheme, though a sinusoidal encoding has embeddings scaled.
TEST(LanguageModel, EmbeddingsEnterAlikeBesideEveryScheme) {
  for (const std::string& scheme : PositionSchemeNames()) {
    torch::manual_seed(1);
    ModelOptions options;
    options.position = scheme;
    const LanguageModel model(options, Vocabulary(SampleText().characters));
    const double scale = scheme == "sinusoidal" ? std::sqrt(128.0) : 1;
    const double expected = 4 * 0.02 * std::sqrt(768.0 / 128);
    EXPECT_NEAR(scale * Deviation(model->named_parameters()["embedding.weight"]), expected, 0.08 * expected) << scheme;
  }
}

TEST(LanguageModel, CountsItsParameters) {
  ModelOptions options = SmallModel();
  const Vocabulary vocabulary(U"abcdef");
  options.tied = true;
  const int64_t tied = ParameterCount(*LanguageModel(options, vocabulary));
  options.tied = false;
  EXPECT_EQ(ParameterCount(*LanguageModel(options, vocabulary)), tied + 6 * options.width);
}

// What comes after a character must not change what the model says at it, whatever the encoder.
TEST(LanguageModel, CausalModelsDoNotSeeWhatFollows) {
  std::vector<ModelOptions> models;
  for (const std::string& encoder : nn::EncoderNames()) {
    if (encoder != "attention") models.push_back(SmallModel(encoder));
  }
  for (const std::string& position : nn::PositionSchemeNames()) {
    models.push_back(SmallModel());
    models.back().position = position;
  }
  for (const ModelOptions& options : models) {
    LanguageModel model(options, Vocabulary(U"abcdefgh"));
    model->eval();
    const std::string name = options.encoder + ", " + options.position;
    const at::NoGradGuard no_grad;
    const at::Tensor tokens = at::randint(0, 8, {2, 12}, at::kLong);
    at::Tensor changed = tokens.clone();
    changed.narrow(1, 7, 5).copy_((changed.narrow(1, 7, 5) + 3) % 8);
    const at::Tensor before = model->Logits(model->forward(tokens)), after = model->Logits(model->forward(changed));
    EXPECT_TRUE(at::allclose(before.narrow(1, 0, 7), after.narrow(1, 0, 7), 1e-5, 1e-6)) << name;
    EXPECT_FALSE(at::allclose(before.narrow(1, 7, 5), after.narrow(1, 7, 5), 1e-5, 1e-6)) << name;
  }
}

// The scheme's distance is half the context, or what --max-distance says; T5 never has less than its buckets need.
TEST(LanguageModel, SchemesTakeTheirDistanceFromTheOptions) {
  const auto rows = [](const std::string& position, int64_t max_distance, const std::string& parameter) {
    ModelOptions options = SmallModel();
    options.position = position;
    options.max_distance = max_distance;
    const LanguageModel model(options, Vocabulary(U"abcdefgh"));
    return model->named_parameters()["encoder.block1.attention.position." + parameter].sizes().vec();
  };
  EXPECT_EQ(rows("relative", 0, "relative_bias"), (std::vector<int64_t>{2, 17}));
  EXPECT_EQ(rows("relative", 5, "relative_bias"), (std::vector<int64_t>{2, 11}));
  EXPECT_EQ(rows("shaw", 0, "keys"), (std::vector<int64_t>{17, 8}));
  EXPECT_EQ(rows("shaw", 5, "values"), (std::vector<int64_t>{11, 8}));
  EXPECT_EQ(rows("t5", 0, "weight"), (std::vector<int64_t>{32, 2}));
  ModelOptions options = SmallModel();  // context 16
  options.position = "t5";
  EXPECT_EQ(RelativeDistance(options), 17);
  options.objective = Objective::kMasked;
  EXPECT_EQ(RelativeDistance(options), 9);
  options.context = 64;
  EXPECT_EQ(RelativeDistance(options), 32);
}

TEST(LanguageModel, MaskedModelsLearnFromBothSidesAndPredictOnlyTheHidden) {
  ModelOptions options = SmallModel();
  options.objective = Objective::kMasked;
  LanguageModel model(options, Vocabulary(U"abcdefgh"));
  model->eval();
  const at::NoGradGuard no_grad;
  const Batch batch{at::randint(0, 8, {2, 12}, at::kLong), at::tensor({3, 5}, at::kLong), at::tensor({4, 20}, at::kLong)};
  const at::Tensor logits = model->Logits(model->forward(batch.inputs)).flatten(0, 1);
  EXPECT_EQ(logits.size(1), 8);  // the mask symbol is never predicted
  const at::Tensor log_probability = logits.log_softmax(1);
  const double expected = -(log_probability[4][3] + log_probability[20][5]).item<double>() / 2;
  EXPECT_NEAR(model->Loss(batch).item<double>(), expected, 1e-5);
  Batch changed = batch;
  changed.inputs = batch.inputs.clone();
  changed.inputs[0][11] = (batch.inputs[0][11].item<int64_t>() + 1) % 8;  // after the hidden character
  EXPECT_NE(model->Loss(changed).item<double>(), model->Loss(batch).item<double>());
}

TEST(ModelOptions, BadOnesAreRefusedByName) {
  const auto expect = [](const char* word, auto change) {
    TrainOptions options;
    change(options);
    try {
      Validate(options);
      ADD_FAILURE() << word;
    } catch (const InvalidArgument& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(word)) << error.what();
    }
  };
  expect("encoder", [](TrainOptions& o) { o.model.encoder = "transformer"; });
  expect("position", [](TrainOptions& o) { o.model.encoder = "gru"; });
  expect("position: rotary turns pairs of columns and needs an even head width; width 12 over 4 heads gives 3",
         [](TrainOptions& o) { o.model.position = "rotary", o.model.width = 12; });
  expect("max_distance: expected a number in 17..",
         [](TrainOptions& o) { o.model.position = "t5", o.model.max_distance = 16; });
  expect("layers", [](TrainOptions& o) { o.model.layers = 0; });
  expect("width", [](TrainOptions& o) { o.model.width = 130; });  // 4 heads
  expect("heads", [](TrainOptions& o) { o.model.heads = 0; });
  for (const char* encoder : {"gru-attention", "decomposable", "self-attentive"}) {
    expect("width", [&](TrainOptions& o) { o.model.encoder = encoder, o.model.position = "none", o.model.width = 130; });
    expect("position", [&](TrainOptions& o) { o.model.encoder = encoder, o.model.position = "alibi"; });
  }
  expect("context", [](TrainOptions& o) { o.model.context = 0; });
  expect("kernel", [](TrainOptions& o) { o.model.kernel = 0; });
  expect("dropout", [](TrainOptions& o) { o.model.dropout = 1.0; });
  expect("dropout", [](TrainOptions& o) { o.model.dropout = std::nan(""); });
  expect("batch", [](TrainOptions& o) { o.batch = 0; });
  expect("steps", [](TrainOptions& o) { o.steps = 0; });
  expect("lr", [](TrainOptions& o) { o.lr = 0.0; });
  expect("lr", [](TrainOptions& o) { o.lr = INFINITY; });
  expect("min_lr", [](TrainOptions& o) { o.min_lr = 2e-3; });
  expect("warmup", [](TrainOptions& o) { o.warmup = -2; });
  expect("beta1", [](TrainOptions& o) { o.beta1 = 1.0; });
  expect("beta2", [](TrainOptions& o) { o.beta2 = -0.1; });
  expect("weight_decay", [](TrainOptions& o) { o.weight_decay = -1.0; });
  expect("clip", [](TrainOptions& o) { o.clip = std::nan(""); });
  expect("penalty", [](TrainOptions& o) { o.model.encoder = "self-attentive", o.model.position = "none", o.penalty = -1; });
  expect("penalty: needs the self-attentive encoder, got attention", [](TrainOptions& o) { o.penalty = 1; });
  expect("eval_every", [](TrainOptions& o) { o.eval_every = 0; });
  EXPECT_NO_THROW(Validate(TrainOptions()));
}

TEST(ModelOptions, TablesBeyondMemoryAreRefusedByName) {
  const auto expect = [](const std::string& start, const auto& change) {
    ModelOptions model;
    change(model);
    const std::string message = WhatOf<InvalidArgument>([&] { Validate(model); });
    EXPECT_TRUE(message.starts_with(start)) << message;
  };
  for (const char* position : {"transformer_xl", "deberta", "shaw"}) {
    expect("max_distance: 1048576 makes positional tables of ",
           [&](ModelOptions& m) { m.position = position, m.max_distance = 1 << 20; });
    expect("context: 1048576 makes positional tables of ",
           [&](ModelOptions& m) { m.position = position, m.context = 1 << 20; });
  }
  for (const char* position : {"relative", "t5"})
    expect("max_distance: 1048576 makes ",
           [&](ModelOptions& m) { m.position = position, m.max_distance = 1 << 20, m.heads = 128; });
  expect("max_distance: 1048576 makes positional tables of 268435584 numbers; expected at most 33554432",
         [](ModelOptions& m) { m.encoder = "decomposable", m.position = "none", m.max_distance = 1 << 20, m.heads = 32; });
  for (const char* position : {"learned", "sinusoidal"})
    expect("context: 1048576 makes ", [&](ModelOptions& m) { m.position = position, m.context = 1 << 20, m.width = 256; });
  for (const int64_t distance : {int64_t{-1}, (int64_t{1} << 20) + 1, int64_t{1'000'000'000}, int64_t{1} << 62}) {
    expect("max_distance: " + std::to_string(distance) + " is outside 0..1048576",
           [&](ModelOptions& m) { m.position = "deberta", m.max_distance = distance; });
  }
  expect("dropout: 1e+300 is not in [0, 1)", [](ModelOptions& m) { m.dropout = 1e300; });
  ModelOptions model;
  model.position = "relative";
  model.heads = 2;
  model.max_distance = 1 << 20;
  EXPECT_NO_THROW(Validate(model));
}

}  // namespace
}  // namespace heed::lab
