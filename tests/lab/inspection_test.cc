#include "lab/inspection/inspection.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "lab/inspection/page.h"
#include "lab/report/file.h"
#include "lab/series/kept_model.h"
#include "lab/training/language_model.h"
#include "tests/lab/sample_runs.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

LanguageModel Model(const Text& text, Objective objective = Objective::kCausal, const std::string& position = "alibi") {
  ModelOptions options = SmallModel();
  options.objective = objective;
  options.position = position;
  options.context = 64;
  at::manual_seed(1);
  LanguageModel model(options, Vocabulary(text.characters));
  // Larger than at the start of a training, so that attention is not nearly uniform.
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters()) {
    if (parameter.dim() > 1) parameter.mul_(12);
  }
  model->eval();
  return model;
}

Text Sample(int64_t characters) { return {"sample", SampleText().characters.substr(0, characters)}; }

void ExpectRefused(const std::string& expected, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "accepted; expected an error about " << expected;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
  }
}

TEST(ForEachHead, StatisticsAreThoseOfTheWeights) {
  const Text text = Sample(40);
  LanguageModel model = Model(text);
  std::vector<std::pair<int64_t, int64_t>> order;
  const Reading reading = ReadingOf(model, text);
  ForEachHead(reading, SelectHeads(reading, {}), [&](const HeadAttention& head) {
    order.emplace_back(head.layer, head.head);
    const at::Tensor weights = head.weights.to(at::kDouble);
    ASSERT_EQ(weights.sizes(), at::IntArrayRef({40, 40}));
    EXPECT_TRUE(at::equal(weights, weights.tril())) << "causal";
    EXPECT_TRUE(at::allclose(weights.sum(1), at::ones({40}, at::kDouble), 0, 1e-5));
    const at::Tensor position = at::arange(40, at::kDouble);
    const at::Tensor distance = (position.unsqueeze(1) - position.unsqueeze(0)).abs();
    const auto close = [](const at::Tensor& a, const at::Tensor& b) { return at::allclose(a.to(at::kDouble), b, 1e-4, 1e-5); };
    EXPECT_TRUE(close(head.entropy, -at::xlogy(weights, weights).sum(1)));
    EXPECT_TRUE(close(head.max_weight, weights.amax(1)));
    EXPECT_TRUE(close(head.mean_distance, (weights * distance).sum(1)));
    const HeadStatistics means = MeansOf(head);
    EXPECT_NEAR(means.entropy, -at::xlogy(weights, weights).sum(1).mean().item<double>(), 1e-4);
    EXPECT_NEAR(means.max_weight, weights.amax(1).mean().item<double>(), 1e-5);
    EXPECT_NEAR(means.mean_distance, (weights * distance).sum(1).mean().item<double>(), 1e-3);
    EXPECT_NEAR(means.first_token, weights.select(1, 0).mean().item<double>(), 1e-6);
  });
  EXPECT_EQ(order, (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

TEST(ForEachHead, LeavesTheModelAsItWas) {
  const Text text = Sample(20);
  LanguageModel model = Model(text);
  const Reading reading = ReadingOf(model, text);
  EXPECT_THROW(ForEachHead(reading, SelectHeads(reading, {}), [](const HeadAttention&) { throw Error("stop"); }), Error);
  for (const auto& module : model->modules(false)) {
    auto* attention = module->as<nn::MultiHeadAttentionImpl>();
    EXPECT_TRUE(attention == nullptr || !attention->observer);
  }
}

TEST(SelectHeads, TakesAllOrThoseNamed) {
  LanguageModel model = Model(Sample(20));
  const Reading reading = ReadingOf(model, Sample(20));
  EXPECT_EQ(SelectHeads(reading, {}).layers, (std::vector<int64_t>{0, 1}));
  const HeadSelection some = SelectHeads(reading, {{1}, {1, 0, 1}});
  EXPECT_EQ(some.layers, (std::vector<int64_t>{1}));
  EXPECT_EQ(some.heads, (std::vector<int64_t>{0, 1}));
  ExpectRefused("layers: 2 is outside 0..1", [&] { SelectHeads(reading, {{2}, {}}); });
  ExpectRefused("heads: -1", [&] { SelectHeads(reading, {{}, {-1}}); });
  LanguageModel recurrent(SmallModel("gru"), Vocabulary(U"ab"));
  ExpectRefused("'gru'", [&] { SelectHeads(ReadingOf(recurrent, {"sample", U"ab"}), {}); });
}

TEST(ReadingOf, RefusesWhatTheModelOrThePageCannotHold) {
  LanguageModel learned = Model(Sample(20), Objective::kCausal, "learned");
  EXPECT_EQ(ReadingOf(learned, Sample(64), 0).tokens, 64);
  ExpectRefused("--tokens 64", [&] { ReadingOf(learned, Sample(65)); });
  EXPECT_EQ(ReadingOf(learned, Sample(65), 64).tokens, 64);
  EXPECT_EQ(ReadingOf(learned, Sample(10), 64).tokens, 10);
  LanguageModel endless = Model(Sample(20));
  Text longest{"sample", std::u32string(kMostTokens + 1, U'o')};
  ExpectRefused("--tokens 4096", [&] { ReadingOf(endless, longest); });
  EXPECT_EQ(ReadingOf(endless, longest, kMostTokens).tokens, kMostTokens);
  ExpectRefused("'Q'", [&] { ReadingOf(endless, {"sample", U"oneQ"}); });
  EXPECT_EQ(ReadingOf(endless, {"sample", U"oneQ"}, 3).tokens, 3) << "what is not shown need not be known";
}

TEST(Inspect, GetsCoarserUntilItFitsTheBudgetAndSaysSo) {
  const Text text = Sample(1800);
  LanguageModel model = Model(text);
  const Reading reading = ReadingOf(model, text, 200);
  InspectionOptions options;
  const Inspection full = Inspect(reading, options);
  EXPECT_EQ(full.geometry.bin, 1);
  EXPECT_EQ(full.code.steps_per_octave(), 12);
  EXPECT_FALSE(full.reduced());
  EXPECT_EQ(PrecisionInWords(full).find("tokens"), std::string::npos);
  int64_t thumbnails = 0, codes = 0;
  for (const HeadMap& map : full.maps) {
    thumbnails += static_cast<int64_t>(2 * map.thumbnail.size());
    codes += static_cast<int64_t>(map.codes.size());
  }

  options.budget = thumbnails + codes - 1;
  std::vector<int64_t> heard;
  const Inspection rounded = Inspect(reading, options, [&](int64_t done, int64_t heads) {
    heard.push_back(done);
    EXPECT_EQ(heads, 4);
  });
  EXPECT_EQ(rounded.geometry.bin, 1);
  EXPECT_EQ(rounded.code.steps_per_octave(), 6);
  EXPECT_TRUE(rounded.reduced());
  EXPECT_EQ(heard, (std::vector<int64_t>{1, 2, 3, 4, 1, 2, 3, 4}));
  EXPECT_NE(PrecisionInWords(rounded).find("5.9 %"), std::string::npos);

  options.budget = thumbnails + codes / 3;
  const Inspection coarse = Inspect(reading, options);
  EXPECT_GT(coarse.geometry.bin, 1);
  EXPECT_EQ(coarse.maps.size(), 4u);
  EXPECT_NE(PrecisionInWords(coarse).find("stands for " + std::to_string(coarse.geometry.bin) + " tokens"), std::string::npos);
  EXPECT_EQ(coarse.maps[3].statistics.entropy, full.maps[3].statistics.entropy);

  options.budget = 1;
  ExpectRefused("do not fit a page", [&] { Inspect(reading, options); });
}

TEST(Inspect, OneCharacterIsEnough) {
  LanguageModel model = Model(Sample(20));
  const Inspection inspection = Inspect(ReadingOf(model, {"sample", U"o"}), {});
  EXPECT_EQ(inspection.thumbnail_side, 1);
  // A weight is exp(s - lse), which misses 1 by the rounding of lse: by half the spacing of float32 at up to 64.
  EXPECT_NEAR(inspection.maps.front().statistics.first_token, 1.0, 4e-6);
  EXPECT_EQ(inspection.maps.front().statistics.mean_distance, 0.0);
}

TEST(Inspect, TheMaskedObjectiveSeesBothSides) {
  const Text text = Sample(30);
  LanguageModel model = Model(text, Objective::kMasked);
  const Inspection inspection = Inspect(ReadingOf(model, text), {});
  EXPECT_FALSE(inspection.geometry.causal);
  EXPECT_NE(InspectionPage(inspection, "run").find("\"causal\":false"), std::string::npos);
}

// The numbers of a page, as its script reads them.
nlohmann::json NumbersOf(const std::string& page) {
  const std::string open = "id=\"numbers\">";
  const std::size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

// A model of three sequences of one feature, of 5 steps and more, that attends with two heads.
KeptModel SeriesModel(const SeriesData& data) {
  KeptModel model;
  model.name = "attention";
  model.form.target = "y", model.form.sequence = "id", model.form.features = data.features, model.form.classes = data.classes;
  model.form.mean = {0}, model.form.deviation = {1}, model.form.change = {1}, model.form.longest = 6;
  model.network = SequenceModelOptions{.features = 1, .outputs = 2, .pooled = true, .heads = 2, .width = 8, .longest = 6};
  at::manual_seed(1);
  SequenceModel network(*model.network);
  for (const auto& parameter : network->named_parameters())
    model.method.arrays[parameter.key()] = 4 * parameter.value().detach();
  return model;
}

SeriesData ThreeSequences() {
  SeriesData data;
  data.name = "made.csv", data.target = "y", data.sequence = "id", data.features = {"x"}, data.classes = {"no", "yes"};
  for (int64_t s = 0; s < 3; ++s) {
    SeriesSequence one{"s" + std::to_string(s), 5 + 2 * s, {}, {}, {0}};
    for (int64_t i = 0; i < one.steps; ++i) one.features.push_back(0.25 * static_cast<double>(i) + static_cast<double>(s));
    data.sequences.push_back(one);
  }
  return data;
}

TEST(Inspect, ShowsTheStepsThatAModelReadsOfASequence) {
  const SeriesData data = ThreeSequences();
  const KeptModel model = SeriesModel(data);
  const Reading reading = ReadingOf(model, data, "s1");
  EXPECT_EQ(reading.name, "made.csv, sequence s1");
  EXPECT_EQ(reading.shown, (nlohmann::ordered_json{"1.25", "1.5", "1.75", "2", "2.25", "2.5"})) << "the last six of seven";
  int64_t heads = 0;
  ForEachHead(reading, SelectHeads(reading, {}), [&](const HeadAttention& head) {
    ++heads;
    EXPECT_TRUE(at::allclose(head.weights.sum(1), at::ones({6}), 0, 1e-5));
    EXPECT_GT(head.weights.triu(1).sum().item<double>(), 0.1) << "both sides";
  });
  EXPECT_EQ(heads, 2);
  EXPECT_EQ(ReadingOf(model, data, "").tokens, 5);
  EXPECT_EQ(ReadingOf(model, data, "s1", 2).shown, (nlohmann::ordered_json{"1.25", "1.5"}));
  const std::string page = InspectionPage(Inspect(reading, {}), "report/model");
  EXPECT_NE(page.find("on 6 steps of"), std::string::npos);
  EXPECT_EQ(NumbersOf(page)["text"], nlohmann::json(reading.shown));
  ExpectRefused("only-sequence: made.csv has no sequence s9", [&] { ReadingOf(model, data, "s9"); });
  KeptModel rule;
  rule.name = "ridge regression";
  ExpectRefused("it is ridge regression, which has no attention", [&] { ReadingOf(rule, data, ""); });
}

TEST(InspectionPage, HostileTextStaysText) {
  const std::u32string hostile = U"</script><script>alert(1)</script><!--&\"'\\ {{maps}}\u202e\u0301\n\t";
  const Text text{"<b>&\u202e\"name'", hostile};
  LanguageModel model = Model(text);
  const std::string page = InspectionPage(Inspect(ReadingOf(model, text), {}), "</title><script>alert(2)</script>{{text}}");
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_NE(page.find("&lt;/title&gt;&lt;script&gt;alert(2)"), std::string::npos);
  EXPECT_NE(page.find("{{text}}"), std::string::npos) << "what is put in is not filled in again";
  EXPECT_EQ(NumbersOf(page)["text"], EncodeUtf8(hostile));
  // Three elements that hold data, one that runs, and a map for each of four heads.
  std::size_t scripts = 0;
  for (std::size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) ++scripts;
  EXPECT_EQ(scripts, 3u + 4u);
}

TEST(InspectionPage, ForbidsItselfEveryRequestAndNamesNoAddress) {
  const Text text = Sample(20);
  LanguageModel model = Model(text);
  const std::string page = InspectionPage(Inspect(ReadingOf(model, text), {}), "run");
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("://"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
}

TEST(WriteArrays, HoldTheWeightsAndSayWhatTheyAre) {
  const ScratchFolder folder;
  const Text text = Sample(12);
  LanguageModel model = Model(text);
  const Reading reading = ReadingOf(model, text);
  const HeadSelection selection = SelectHeads(reading, {{1}, {1}});
  const auto files = WriteArrays(reading, selection, folder.path() / "arrays");
  EXPECT_EQ(files.size(), 3u);
  const nlohmann::json index = nlohmann::json::parse(ReadFile(folder.path() / "arrays" / "arrays.json"));
  EXPECT_EQ(index["text"], EncodeUtf8(text.characters));
  EXPECT_EQ(index["attention"][0]["shape"], (std::vector<int64_t>{1, 12, 12}));
  EXPECT_EQ(index["statistics"]["shape"], (std::vector<int64_t>{1, 1, 4, 12}));

  std::string weights, statistics;
  const auto append = [](const at::Tensor& tensor, std::string& bytes) {
    const at::Tensor whole = tensor.contiguous();
    bytes.append(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
  };
  ForEachHead(reading, SelectHeads(reading, {}), [&](const HeadAttention& head) {
    if (head.layer != 1 || head.head != 1) return;
    append(head.weights, weights);
    append(at::stack({head.entropy, head.max_weight, head.mean_distance, head.weights.select(1, 0)}), statistics);
  });
  const auto expect = [&](const std::string& name, const std::string& shape, const std::string& values) {
    const std::string file = ReadFile(folder.path() / "arrays" / name);
    EXPECT_NE(file.find("'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }"), std::string::npos) << file;
    EXPECT_EQ(file.substr(file.size() - values.size()), values) << name;
    EXPECT_EQ((file.size() - values.size()) % 64, 0u);
  };
  expect(index["attention"][0]["file"], "(1, 12, 12)", weights);
  expect(index["statistics"]["file"], "(1, 1, 4, 12)", statistics);
}

}  // namespace
}  // namespace heed::lab
