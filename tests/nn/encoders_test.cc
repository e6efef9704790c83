// The encoders that are compared: what each step may depend on, lengths, errors.
#include "heed/nn/encoders.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradient_check.h"
#include "heed/error.h"

namespace heed::nn {
namespace {

const std::vector<std::string> kEncoders = EncoderNames();

std::shared_ptr<SequenceEncoder> Make(const std::string& name, const EncoderOptions& options) {
  at::manual_seed(21);
  auto encoder = MakeEncoder(name, options);
  encoder->to(at::kDouble);
  encoder->eval();
  return encoder;
}

// depends[i][j]: whether step i of the output has a derivative by step j of the input; [steps, steps] bool.
at::Tensor Dependence(SequenceEncoder& encoder, int64_t steps, int64_t width) {
  at::manual_seed(22);
  const at::Tensor X = at::randn({1, steps, width}, at::kDouble).set_requires_grad(true);
  const at::Tensor output = encoder.forward(X);
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < steps; ++i) {
    const at::Tensor weight = at::randn({width}, at::kDouble);
    const auto gradient = torch::autograd::grad({(output[0][i] * weight).sum()}, {X}, {}, /*retain_graph=*/true);
    rows.push_back(gradient[0][0].abs().sum(-1).gt(0));
  }
  return at::stack(rows);
}

at::Tensor Distances(int64_t steps) { return at::arange(steps).unsqueeze(1) - at::arange(steps).unsqueeze(0); }  // i - j

TEST(EncodersTest, KeepTheShape) {
  for (const std::string& name : kEncoders) {
    for (const bool causal : {false, true}) {
      for (const Norm norm : {Norm::kPre, Norm::kPost}) {
        const auto encoder = Make(name, EncoderOptions(8).causal(causal).norm(norm).ffn_width(12).bias(true));
        EXPECT_EQ(encoder->forward(at::randn({2, 7, 8}, at::kDouble)).sizes(), at::IntArrayRef({2, 7, 8})) << name;
        EXPECT_EQ(encoder->forward(at::randn({2, 1, 8}, at::kDouble)).sizes(), at::IntArrayRef({2, 1, 8})) << name;
      }
    }
  }
}

TEST(EncodersTest, CausalOnesDoNotSeeTheFuture) {
  for (const std::string& name : kEncoders) {
    const auto encoder = Make(name, EncoderOptions(8).causal(true).layers(3).ffn_width(8));
    const at::Tensor depends = Dependence(*encoder, 12, 8);
    EXPECT_FALSE(depends.logical_and(Distances(12).lt(0)).any().item<bool>()) << name;
    EXPECT_TRUE(depends.diagonal().all().item<bool>()) << name;
  }
}

TEST(EncodersTest, AttentionAndRecurrenceSeeEverything) {
  for (const std::string name : {"attention", "rnn", "gru", "lstm", "gru-attention", "decomposable", "self-attentive", "lstmn",
                                 "intra-decoder", "linear", "retention", "mamba2", "gated-delta"}) {
    EXPECT_TRUE(Dependence(*Make(name, EncoderOptions(8).layers(1)), 9, 8).all().item<bool>()) << name;
  }
}

TEST(ConvolutionEncoderTest, ReceptiveFieldIsExact) {
  constexpr int64_t kSteps = 24;
  const at::Tensor distance = Distances(kSteps);
  for (const int64_t kernel : {3, 5}) {
    for (const int64_t layers : {1, 2, 3}) {
      const auto options = EncoderOptions(4).layers(layers).kernel(kernel);
      const int64_t radius = (kernel - 1) * layers / 2;
      EXPECT_TRUE(at::equal(Dependence(*Make("convolution", options), kSteps, 4), distance.abs().le(radius)));
      const at::Tensor causal = Dependence(*Make("convolution", EncoderOptions(options).causal(true)), kSteps, 4);
      EXPECT_TRUE(at::equal(causal, distance.ge(0).logical_and(distance.le(2 * radius))));
    }
  }
  // Dilated by 1 and 3: 1 + 3 steps to each side. Near the ends some paths would lead through the padding.
  const at::Tensor dilated = Dependence(*Make("dilated", EncoderOptions(4).layers(2).kernel(3)), kSteps, 4);
  EXPECT_TRUE(at::equal(dilated.slice(0, 4, kSteps - 4), distance.abs().le(4).slice(0, 4, kSteps - 4)));
  EXPECT_FALSE(dilated.logical_and(distance.abs().gt(4)).any().item<bool>());
  // An even kernel looks back only.
  const at::Tensor even = Dependence(*Make("convolution", EncoderOptions(4).layers(1).kernel(2).causal(true)), kSteps, 4);
  EXPECT_TRUE(at::equal(even, distance.ge(0).logical_and(distance.le(1))));
}

TEST(EncodersTest, PaddingHasNoInfluence) {
  const at::Tensor lens = at::tensor(std::vector<int64_t>{5, 9, 1});
  const at::Tensor padding = at::arange(9).ge(lens.unsqueeze(1)).unsqueeze(2);
  at::manual_seed(23);
  const at::Tensor X = at::randn({3, 9, 8}, at::kDouble);
  const at::Tensor poisoned = X.masked_fill(padding, std::numeric_limits<double>::quiet_NaN());
  const at::Tensor other = at::where(padding, at::randn_like(X), X);
  for (const std::string& name : kEncoders) {
    for (const bool causal : {false, true}) {
      // With biases a cell does not stay at zero where its input is.
      const auto encoder = Make(name, EncoderOptions(8).causal(causal).layers(2).ffn_width(8).bias(true));
      const at::Tensor expected = encoder->forward(X, lens).masked_fill(padding, 0.0);
      EXPECT_TRUE(at::equal(encoder->forward(other, lens).masked_fill(padding, 0.0), expected)) << name;
      // Each row as if it stood alone, without its padding.
      for (int64_t b = 0; b < 3; ++b) {
        const int64_t length = lens[b].item<int64_t>();
        const at::Tensor alone = encoder->forward(X.slice(0, b, b + 1).slice(1, 0, length));
        EXPECT_TRUE(at::allclose(alone[0], expected[b].slice(0, 0, length), 0, 1e-12)) << name << " row " << b;
      }
      EXPECT_TRUE(at::equal(encoder->forward(poisoned, lens).masked_fill(padding, 0.0), expected)) << name;
    }
  }
}

TEST(EncodersTest, EmptyRowsOfABatch) {
  const at::Tensor X = at::randn({2, 4, 8}, at::kDouble), lens = at::tensor({0, 4});
  for (const std::string& name : kEncoders) {
    const auto encoder = Make(name, EncoderOptions(8).ffn_width(8));
    const at::Tensor output = encoder->forward(X, lens);
    EXPECT_TRUE(output.isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(at::allclose(output.slice(0, 1), encoder->forward(X.slice(0, 1)), 0, 1e-12)) << name;
  }
}

TEST(EncodersTest, NotANumberInPaddingReachesNoGradient) {
  const at::Tensor lens = at::tensor(std::vector<int64_t>{3, 5});
  const at::Tensor padding = at::arange(5).ge(lens.unsqueeze(1)).unsqueeze(2);
  const at::Tensor X = at::randn({2, 5, 8}, at::kDouble).masked_fill(padding, std::numeric_limits<double>::quiet_NaN());
  for (const std::string& name : kEncoders) {
    const auto encoder = Make(name, EncoderOptions(8).ffn_width(8));
    encoder->forward(X, lens).masked_fill(padding, 0.0).sum().backward();
    for (const auto& item : encoder->named_parameters()) {
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << name << ' ' << item.key();
    }
  }
}

TEST(EncodersTest, GradientsOfTheInput) {
  for (const std::string& name : kEncoders) {
    const auto encoder = Make(name, EncoderOptions(4).heads(2).layers(1).ffn_width(4).bias(true));
    const at::Tensor lens = at::tensor({3, 2});
    testing::ExpectGradientsMatch([&](const std::vector<at::Tensor>& x) { return encoder->forward(x[0], lens); },
                                  {at::randn({2, 3, 4}, at::kDouble)});
  }
}

TEST(EncodersTest, EvaluationDropsNothing) {
  const at::Tensor X = at::randn({2, 5, 8}, at::kDouble);
  for (const std::string& name : kEncoders) {
    const auto encoder = Make(name, EncoderOptions(8).dropout(0.5));
    EXPECT_TRUE(at::equal(encoder->forward(X), encoder->forward(X))) << name;
    encoder->train();
    EXPECT_FALSE(at::equal(encoder->forward(X), encoder->forward(X))) << name;
  }
}

TEST(AttentionEncoderTest, EverySchemeOfPositionsTellsOrderApart) {
  at::manual_seed(24);
  const at::Tensor X = at::randn({1, 9, 8}, at::kDouble), order = at::randperm(9);
  for (const std::string& name : PositionSchemeNames()) {
    if (name == "xpos") continue;  // it needs causality, which tells order apart by itself
    PositionOptions position;
    position.scheme = ParsePositionScheme(name);
    const auto encoder = Make("attention", EncoderOptions(8).position(position));
    for (const auto& item : encoder->named_parameters()) {
      if (item.key().find(".position.") != std::string::npos) torch::nn::init::normal_(item.value());
    }
    const at::Tensor defect = encoder->forward(X.index_select(1, order)) - encoder->forward(X).index_select(1, order);
    if (position.scheme == PositionScheme::kNone || position.scheme == PositionScheme::kTemperature) {
      EXPECT_LT(defect.abs().max().item<double>(), 1e-12);
    } else {
      EXPECT_GT(defect.abs().max().item<double>(), 1e-3) << name;
    }
  }
}

TEST(AttentionEncoderTest, OffsetMovesTheFirstPosition) {
  PositionOptions position;
  position.scheme = PositionScheme::kSinusoidal;
  position.max_len = 12;
  const auto encoder = Make("attention", EncoderOptions(8).position(position).layers(0).norm(Norm::kPost));
  const at::Tensor X = at::randn({1, 9, 8}, at::kDouble);
  EXPECT_TRUE(at::equal(encoder->forward(X).slice(1, 4), encoder->forward(X.slice(1, 4), {}, 4)));
  EXPECT_THROW(encoder->forward(X, {}, 4), InvalidArgument);
}

TEST(AttentionEncoderTest, WeightsPerLayer) {
  AttentionEncoder encoder(EncoderOptions(8).heads(2).layers(3).keep_attention_weights(true).causal(true));
  encoder(at::randn({2, 5, 8}));
  const auto weights = encoder->attention_weights();
  ASSERT_EQ(weights.size(), 3u);
  EXPECT_EQ(weights[0].sizes(), at::IntArrayRef({4, 5, 5}));
  EXPECT_EQ(weights[0].triu(1).abs().max().item<float>(), 0.0f);
}

// One layer without norms and feed-forward sublayer is X + H + attention(H, H, H), H the states.
TEST(RecurrentAttentionEncoderTest, AttendsToTheStatesOfTheCell) {
  for (const bool causal : {false, true}) {
    const EncoderOptions options = EncoderOptions(8).heads(2).layers(1).norm(Norm::kPost).causal(causal);
    at::manual_seed(25);
    RecurrentAttentionEncoder encoder(options);
    encoder->to(at::kDouble);
    const at::Tensor X = at::randn({2, 6, 8}, at::kDouble);
    const at::Tensor H = std::get<0>(encoder->cells[0]->as<torch::nn::GRU>()->forward(X));
    const at::Tensor expected = encoder->norms[0](X + H + encoder->attentions[0](H, H, H));
    EXPECT_TRUE(at::allclose(encoder(X), expected, 0, 1e-12));
  }
}

TEST(EncodersTest, RefuseWhatTheyCannotDo) {
  const auto refused = [](const auto& f, const std::string& part) {
    try {
      f();
      ADD_FAILURE() << "nothing was thrown; expected " << part;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused([] { MakeEncoder("transformer", EncoderOptions(8)); },
          "attention, convolution, dilated, rnn, gru, lstm, gru-attention, decomposable, self-attentive, lstmn, intra-decoder, "
          "linear, "
          "retention, mamba2, gated-delta");
  refused([] { HasHeads("transformer"); }, "'transformer'");
  refused([] { MakeEncoder("convolution", EncoderOptions(8).kernel(4)); }, "odd unless causal, got 4");
  refused([] { MakeEncoder("dilated", EncoderOptions(8).layers(99)); }, "dilation that is too large");
  refused([] { MakeEncoder("gru", EncoderOptions(7)); }, "even unless causal");
  refused([] { MakeEncoder("gru-attention", EncoderOptions(7).heads(1)); }, "RecurrentAttentionEncoder: width must be even");
  refused([] { RecurrentEncoder(EncoderOptions(8).cell("elman")); }, "'elman'");
  refused([] { MakeEncoder("attention", EncoderOptions(9).heads(2)); }, "num_hiddens (9)");
  refused([] { MakeEncoder("attention", EncoderOptions(0)); }, "width of at least 1");
  refused([] { MakeEncoder("rnn", EncoderOptions(8).dropout(-0.1)); }, "dropout");
  for (const std::string& name : kEncoders) {
    const auto encoder = MakeEncoder(name, EncoderOptions(8));
    refused([&] { encoder->forward(at::zeros({2, 3, 7})); }, "[2, 3, 7]");
    refused([&] { encoder->forward(at::zeros({2, 3, 8}), at::ones({2, 3})); }, "valid_lens: expected shape [2], got [2, 3]");
  }
}

}  // namespace
}  // namespace heed::nn
