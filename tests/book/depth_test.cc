#include "book/depth/depth.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <ATen/ATen.h>
#include <cmath>
#include <string>

#include "book/depth/output.h"
#include "book/depth/profile.h"
#include "book/depth/stack.h"
#include "heed/error.h"
#include "lab/data/batches.h"
#include "lab/report/file.h"
#include "lab/training/interrupt.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

Corpus SmallCorpus() {
  Text text{"sample", {}};
  for (int i = 0; i < 200; ++i) text.characters += U"one two, three! ";
  return MakeCorpus(text, 16);
}

StackOptions Small(const std::string& variant, int64_t layers) {
  return {.variant = VariantNamed(variant), .layers = layers, .width = 16, .heads = 2, .context = 16, .symbols = 20};
}

DepthOptions SmallDepth() {
  DepthOptions options = DepthBudget("quick");
  options.variants = {"attention", "pre"};
  options.positions = {"none", "alibi"};
  options.layers = 4;
  options.trained = {"pre", "norm"};
  options.depths = {1, 2};
  options.width = 16, options.heads = 2, options.context = 16, options.batch = 4, options.steps = 4;
  return options;
}

at::Tensor Tokens(int64_t windows, int64_t steps) { return at::arange(windows * steps, at::kLong).view({windows, steps}) % 19; }

Batch SmallBatch() { return {Tokens(2, 16), (Tokens(2, 16).flatten() + 1) % 19, {}}; }

void Copy(const torch::nn::Module& from, torch::nn::Module& to) {
  const at::NoGradGuard no_grad;
  const auto source = from.named_parameters();
  for (auto& parameter : to.named_parameters()) parameter.value().copy_(source[parameter.key()]);
}

TEST(DepthStackTest, LayersWithResidualsAreNnsBlocks) {
  for (const bool pre : {false, true}) {
    const StackModel model(Small(pre ? "pre" : "post", 1), 3);
    const StackLayer& layer = model->layers.front();
    nn::TransformerEncoderBlock block(nn::TransformerEncoderBlockOptions(16, 64, 2)
                                          .norm(pre ? nn::Norm::kPre : nn::Norm::kPost)
                                          .activation(nn::Activation::kGelu)
                                          .causal(Causal::kBottomRight));
    Copy(*layer->attention, *block->attention);
    Copy(*layer->ffn, *block->ffn);
    const at::Tensor X = at::randn({2, 16, 16});
    EXPECT_TRUE(at::equal(StackLayer(layer)->forward(X), block->forward(X))) << (pre ? "pre" : "post");
  }
}

TEST(DepthStackTest, EveryVariantAndSchemeRunsAndIsDrawnFromTheSeedAlone) {
  for (const StackVariant& variant : AllVariants()) {
    for (const std::string& position : nn::PositionSchemeNames()) {
      StackOptions options = Small(variant.id, 2);
      options.position = position;
      const at::Tensor first = StackModel(options, 5)->forward(Tokens(2, 16));
      at::rand({7});  // PyTorch's own generator goes on
      EXPECT_TRUE(at::equal(first, StackModel(options, 5)->forward(Tokens(2, 16)))) << variant.id << " " << position;
      EXPECT_FALSE(at::equal(first, StackModel(options, 6)->forward(Tokens(2, 16)))) << variant.id << " " << position;
      EXPECT_TRUE(first.isfinite().all().item<bool>());
    }
  }
}

TEST(DepthProfileTest, DistancesHaveTheirClosedForms) {
  const auto matrix = [](std::initializer_list<double> values) {
    return at::tensor(std::vector<double>(values)).view({1, 2, 2});
  };
  EXPECT_LT(DistanceToEqualRows(matrix({3, 4, 3, 4})), 1e-15);
  EXPECT_DOUBLE_EQ(DistanceToEqualRows(matrix({3, 4, -3, -4})), 1.0);
  EXPECT_LT(DistanceToRankOne(matrix({3, 4, -3, -4})), 1e-15) << "of rank one, though its rows differ";
  EXPECT_DOUBLE_EQ(DistanceToEqualRows(matrix({1, 0, 0, 1})), std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(DistanceToRankOne(matrix({1, 0, 0, 1})), std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(DistanceToRankOne(matrix({2, 0, 0, 1})), std::sqrt(0.2));
  EXPECT_EQ(DistanceToEqualRows(at::zeros({1, 2, 2}, at::kDouble)), 0);
  const at::Tensor both = at::cat({matrix({3, 4, 3, 4}), matrix({3, 4, -3, -4})});
  EXPECT_NEAR(DistanceToEqualRows(both), 0.5, 1e-15) << "a mean over windows";
}

TEST(DepthProfileTest, GradientsAreThoseOfBackward) {
  StackModel model(Small("post", 3), 1);
  const StackProfile profile = Profile(model, SmallBatch());
  ASSERT_EQ(profile.layers.size(), 4u);
  EXPECT_EQ(model->head->weight.scalar_type(), at::kFloat) << "the model keeps its type";
  EXPECT_FALSE(model->head->weight.grad().defined()) << "and gets no gradients";

  model->to(at::kDouble);
  std::vector<at::Tensor> states;
  const at::Tensor loss = model->Loss(SmallBatch(), &states);
  for (at::Tensor& state : states) state.retain_grad();
  loss.backward();
  EXPECT_NEAR(profile.loss, loss.item<double>(), 1e-12);
  for (std::size_t l = 0; l < states.size(); ++l) {
    EXPECT_NEAR(profile.layers[l].state_gradient, states[l].grad().norm().item<double>(), 1e-12);
    if (l == 0) continue;
    double all = 0;
    for (const at::Tensor& parameter : model->layers[l - 1]->parameters())
      all += parameter.grad().square().sum().item<double>();
    EXPECT_NEAR(profile.layers[l].parameter_gradient, std::sqrt(all), 1e-12);
    const nn::MultiHeadAttention& attention = model->layers[l - 1]->attention;
    const double some = at::cat({attention->W_q->weight.grad(), attention->W_k->weight.grad()}).norm().item<double>();
    EXPECT_NEAR(profile.layers[l].query_key_gradient, some, 1e-12);
    EXPECT_LT(some, 0.9 * std::sqrt(all));
  }
}

TEST(DepthProfileTest, EvenWeightsHaveAllTheEntropyAndSharpOnesNone) {
  for (const Objective objective : {Objective::kMasked, Objective::kCausal}) {
    StackOptions options = Small("attention", 1);
    options.objective = objective;
    StackModel model(options, 2);
    {
      const at::NoGradGuard no_grad;
      model->layers[0]->attention->W_q->weight.zero_();
    }
    const LayerProfile even = Profile(model, SmallBatch()).layers[1];
    ASSERT_EQ(even.entropy.size(), 2u);
    double largest = 0;
    for (int i = 1; i <= 16; ++i) largest += (objective == Objective::kCausal ? 1.0 / i : 1.0 / 16) / 16;
    for (std::size_t head = 0; head < 2; ++head) {
      EXPECT_NEAR(even.entropy[head], 1.0, 1e-12);
      EXPECT_NEAR(even.largest_weight[head], largest, 1e-12);
    }
    {
      const at::NoGradGuard no_grad;
      model->layers[0]->attention->W_q->weight.copy_(1e4 * model->layers[0]->attention->W_k->weight);
    }
    const LayerProfile sharp = Profile(model, SmallBatch()).layers[1];
    EXPECT_LT(MeanOver(sharp.entropy), 0.05);
    EXPECT_GT(MeanOver(sharp.largest_weight), 0.95);
  }
}

TEST(DepthProfileTest, AttentionAloneMakesTokensAlikeAndResidualsKeepThemApart) {
  for (const char* variant : {"attention", "norm", "attention-residual", "pre"}) {
    StackOptions options = Small(variant, 12);
    options.objective = Objective::kMasked;
    StackModel model(options, 4);
    const StackProfile profile = Profile(model, SmallBatch());
    const double left = profile.layers.back().distance_to_equal_rows;
    if (VariantNamed(variant).residual) {
      EXPECT_GT(left, 0.1) << variant;
    } else {
      EXPECT_LT(left, 1e-4) << variant;
    }
    EXPECT_LE(profile.layers[3].distance_to_rank_one, profile.layers[3].distance_to_equal_rows + 1e-12) << variant;
    EXPECT_GT(profile.layers.front().distance_to_equal_rows, 0.5) << variant;
  }
}

TEST(DepthProfileTest, SurvivesTheWayThroughJsonBitByBit) {
  StackModel model(Small("pre", 2), 1);
  StackProfile profile = Profile(model, SmallBatch());
  profile.layers[1].distance_to_rank_one = NAN;
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(ToJson(profile).dump());
  const StackProfile read = ProfileFromJson(json, 2, 2);
  EXPECT_EQ(read.loss, profile.loss);
  EXPECT_EQ(read.layers[2].state_gradient, profile.layers[2].state_gradient);
  EXPECT_EQ(read.layers[2].entropy, profile.layers[2].entropy);
  EXPECT_TRUE(std::isnan(read.layers[1].distance_to_rank_one));
  EXPECT_THROW(ProfileFromJson(json, 3, 2), InvalidArgument);
  EXPECT_THROW(ProfileFromJson(json, 2, 4), InvalidArgument);
}

TEST(DepthTrainingTest, ShallowStacksLearnAndDeepOnesWithoutResidualsDoNot) {
  const Corpus corpus = SmallCorpus();
  DepthOptions options = SmallDepth();
  options.steps = 60;
  int64_t done = 0;
  const auto on_work = [&done](int64_t work) { done += work; };
  const DepthStack shallow = TrainStack(corpus, options, {.variant = "pre", .profile = {}, .layers = 2}, on_work);
  EXPECT_EQ(done, 120);
  const DepthStack deep = TrainStack(corpus, options, {.variant = "feed-forward", .profile = {}, .layers = 16}, on_work);
  EXPECT_LT(shallow.loss, 0.5 * std::log(static_cast<double>(corpus.vocabulary.size()))) << "half of what an even guess loses";
  EXPECT_GT(deep.loss, 2 * shallow.loss);
  EXPECT_GT(deep.microseconds_per_token, shallow.microseconds_per_token);
}

TEST(DepthTrainingTest, SaysAtWhichStepTheNumbersBroke) {
  DepthOptions options = SmallDepth();
  options.lr = 1e30;
  options.steps = 20;
  int64_t done = 0;
  const DepthStack broken = TrainStack(SmallCorpus(), options, {.variant = "residual", .profile = {}, .layers = 2},
                                       [&done](int64_t work) { done += work; });
  EXPECT_GT(broken.broke_at, 1);
  EXPECT_LE(broken.broke_at, 20);
  EXPECT_EQ(done, 2 * (broken.broke_at - 1)) << "the step itself is not done";
  const DepthStack read = TrainedStackFromJson(nlohmann::ordered_json::parse(ToJson(broken).dump()), options.heads);
  EXPECT_EQ(read.broke_at, broken.broke_at);
}

TEST(DepthTest, IsTheSameForAnyNumberOfThreadsAndTakesFinishedStacksFromTheStore) {
  const Corpus corpus = SmallCorpus();
  DepthOptions options = SmallDepth();
  const DepthResult alone = MeasureDepth(corpus, options);
  ASSERT_EQ(alone.started.size(), 5u);  // two variants twice, and ALiBi
  ASSERT_EQ(alone.trained.size(), 4u);
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {{"text", "sample"}});
  options.threads = 3;
  const DepthResult beside = MeasureDepth(corpus, options, "depth", &store);
  EXPECT_EQ(DepthCsv(alone), DepthCsv(beside));
  EXPECT_EQ(DepthHeadsCsv(alone), DepthHeadsCsv(beside));
  EXPECT_EQ(folder.Names().size(), 9u);

  WatchForInterrupt();
  raise(SIGINT);
  // All is in the store, so nothing is left that could be interrupted; even the times are those of before.
  EXPECT_EQ(DepthJson(MeasureDepth(corpus, options, "depth", &store)).dump(), DepthJson(beside).dump());
  WriteFile(folder.path() / "depth-trained-pre-2.json", "{\"settings\"");
  EXPECT_THROW(MeasureDepth(corpus, options, "depth", &store), Interruption) << "a damaged file counts as none";
  options.lr *= 2;
  EXPECT_THROW(MeasureDepth(corpus, options, "depth", &store), Interruption) << "another learning rate is another run";
  WatchForInterrupt();
}

TEST(DepthTest, WindowsMustFitTheText) {
  const Corpus corpus = SmallCorpus();
  DepthOptions options = SmallDepth();
  options.context = static_cast<int64_t>(corpus.validation.size());
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { MeasureDepth(corpus, options); }),
                    "context: windows of 320 characters do not fit the 320"));
  options.trained.clear();
  options.context = static_cast<int64_t>(corpus.train.size());
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { MeasureDepth(corpus, options); }), "context: windows of 2880 characters"));
}

TEST(DepthOptionsTest, NamesWhatIsWrong) {
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([] { DepthBudget("huge"); }), "'huge'"));
  const auto error = [](const auto& change) {
    DepthOptions options = SmallDepth();
    change(options);
    return WhatOf<InvalidArgument>([&] { Validate(options); });
  };
  EXPECT_EQ(error([](DepthOptions&) {}), "");
  EXPECT_TRUE(
      Holds(error([](DepthOptions& o) { o.variants = {"rezero"}; }), "variants: 'rezero' is unknown; choose among attention,"));
  EXPECT_TRUE(Holds(error([](DepthOptions& o) { o.trained = {"pre", "pre"}; }), "trained: 'pre' is given twice"));
  EXPECT_TRUE(Holds(error([](DepthOptions& o) { o.depths = {4, 2}; }), "depths"));
  EXPECT_TRUE(Holds(error([](DepthOptions& o) { o.depths = {0}; }), "depths: 0"));
  EXPECT_TRUE(Holds(error([](DepthOptions& o) { o.layers = 0; }), "layers: 0"));
  EXPECT_TRUE(Holds(error([](DepthOptions& o) { o.depths = {2, 2}; }), "depths"));
  EXPECT_TRUE(Holds(error([](DepthOptions& o) { o.width = 17; }), "width: 17"));
  EXPECT_EQ(error([](DepthOptions& o) { o.width = 18; }), "");
  EXPECT_TRUE(
      Holds(error([](DepthOptions& o) { o.width = 18, o.positions = {"rotary"}; }), "width: 18 leaves each of 2 heads 9"));
  EXPECT_TRUE(
      Holds(error([](DepthOptions& o) { o.context = 4096; }), "context: windows of 4096 characters do not fit the 4096"));
  EXPECT_EQ(error([](DepthOptions& o) { o.context = 4096, o.trained.clear(); }), "") << "nothing is evaluated";
}

// A stack whose distance falls by this factor from layer to layer.
StackProfile Falling(int64_t layers, double factor) {
  StackProfile profile;
  for (int64_t l = 0; l <= layers; ++l) {
    LayerProfile layer;
    layer.distance_to_equal_rows = std::pow(factor, l);
    layer.state_gradient = 8, layer.parameter_gradient = 4, layer.query_key_gradient = 1;
    if (l > 0) layer.entropy = {0.9, 0.7}, layer.largest_weight = {0.5, 0.25};
    profile.layers.push_back(layer);
  }
  profile.layers.front().state_gradient = 2;
  return profile;
}

DepthResult Fabricated() {
  DepthResult result;
  result.options = SmallDepth();
  result.started = {{"attention", "none", Objective::kMasked, Falling(4, 1e-2)},
                    {"pre", "none", Objective::kMasked, Falling(4, 0.5)},
                    {"attention", "alibi", Objective::kMasked, Falling(4, 1e-3)}};
  result.frequencies = 3;
  for (const char* variant : {"pre", "norm"}) {
    for (const int64_t depth : {1, 2}) {
      result.trained.push_back({});
      DepthStack& stack = result.trained.back();
      stack.variant = variant, stack.layers = depth;
      stack.loss = variant == std::string("pre") || depth == 1 ? 2.5 : 2.95;
      stack.microseconds_per_token = 3 + 4.0 * static_cast<double>(depth);
      stack.profile = Falling(depth, 0.5);
    }
  }
  return result;
}

std::string FindingBeside(const std::string& figure, const DepthResult& result) {
  for (const DepthFinding& finding : DepthFindings(result)) {
    if (finding.figures.front() == figure) return finding.text;
  }
  return "none";
}

TEST(DepthFindingsTest, SayWhereTokensBecomeAlike) {
  const DepthResult result = Fabricated();
  EXPECT_EQ(FindingBeside("depth-rank", result),
            "With all tokens in sight: All tokens have the same state to one part in a million from layer 4 on (attention "
            "alone). After layer 4 the distance from that is 0.062 (pre-norm).");
  EXPECT_EQ(FindingBeside("depth-rank-causal", result), "");
  EXPECT_TRUE(
      Holds(FindingBeside("depth-rank-positions", result), "from layer 4 on (no positions) and from layer 3 on (alibi)"))
      << FindingBeside("depth-rank-positions", result);
}

TEST(DepthFindingsTest, SayWhatAttentionAndGradientsDo) {
  const DepthResult result = Fabricated();
  EXPECT_TRUE(Holds(FindingBeside("depth-entropy", result), "80 % with a largest weight of 0.38 (attention alone)"))
      << FindingBeside("depth-entropy", result);
  EXPECT_TRUE(Holds(FindingBeside("depth-gradient", result), "a factor of 0.25 (attention alone)"))
      << FindingBeside("depth-gradient", result);
  EXPECT_TRUE(Holds(FindingBeside("depth-gradient", result), "a share of 0.25 (attention alone)"))
      << FindingBeside("depth-gradient", result);
}

TEST(DepthFindingsTest, SayWhichStacksLearn) {
  DepthResult result = Fabricated();
  std::string text = FindingBeside("depth-loss", result);
  EXPECT_TRUE(Holds(text, "pre-norm learns at every depth (2.500 at 2 layers)")) << text;
  EXPECT_TRUE(Holds(text, "no residual fails at 2 layers")) << text;
  EXPECT_FALSE(Holds(text, "finite")) << text;
  EXPECT_TRUE(Holds(FindingBeside("depth-time", result), "4.0 µs a token and layer (pre-norm)"))
      << FindingBeside("depth-time", result);
  result.trained[3].broke_at = 7;
  result.trained[2].loss = result.trained[3].loss = NAN;
  text = FindingBeside("depth-loss", result);
  EXPECT_TRUE(Holds(text, "no residual learns at none")) << text;
  EXPECT_TRUE(Holds(text, "with 2 layers at step 7")) << text;
  EXPECT_TRUE(Holds(text, "The best is pre-norm with 1 layer: 2.500")) << text;
  result.trained[0].loss = NAN;
  EXPECT_TRUE(Holds(FindingBeside("depth-loss", result), "The best is pre-norm with 2 layers: 2.500"))
      << FindingBeside("depth-loss", result);
  for (DepthStack& stack : result.trained) stack.loss = NAN;
  EXPECT_FALSE(Holds(FindingBeside("depth-loss", result), "best")) << FindingBeside("depth-loss", result);
  EXPECT_FALSE(Holds(FindingBeside("depth-loss", result), "nan")) << FindingBeside("depth-loss", result);
}

TEST(DepthFiguresTest, HoldACurveForEveryStack) {
  const std::vector<Figure> figures = DepthFigures(Fabricated());
  for (const Figure& figure : figures) {
    EXPECT_EQ(figure.seeds, "seed 0") << figure.name;
  }
  const auto find = [&](const std::string& name) {
    const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& figure) { return figure.name == name; });
    EXPECT_NE(found, figures.end()) << name;
    return std::get<LinePlot>(found->content);
  };
  EXPECT_EQ(find("depth-rank").series.size(), 2u);
  EXPECT_EQ(find("depth-rank").series[1].y, (std::vector<double>{1, 0.5, 0.25, 0.125, 0.0625}));
  EXPECT_EQ(find("depth-rank-positions").series[1].name, "alibi");
  EXPECT_EQ(find("depth-entropy").series[0].y, (std::vector<double>{0.8, 0.8, 0.8, 0.8}));
  EXPECT_EQ(find("depth-gradient").series[0].y.front(), 2);
  EXPECT_EQ(find("depth-loss").series.back().y, (std::vector<double>{3, 3}));
  EXPECT_EQ(find("depth-time").series[0].y, (std::vector<double>{7, 11}));
}

}  // namespace
}  // namespace heed::lab
