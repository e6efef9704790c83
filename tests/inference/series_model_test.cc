// Models of labelled sequences from a folder, without LibTorch: what is refused, what a row depends on, what calls allocate.
// tests/lab/without_torch_test.cc holds their numbers to those of the laboratory.
#include "heed/series_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "damaged_folders.h"
#include "heed/error.h"
#include "stored_tensors.h"
#include "tests/counted_allocations.h"
#include "tests/error_text.h"
#include "tests/folder_fixture.h"

namespace heed {
namespace {

using Json = nlohmann::json;

constexpr int64_t kUnits = 4, kColumnsRead = 2, kTimeSteps = 6;

class SeriesModelTest : public ScratchFolderTest {
 protected:
  // An LSTM of one layer that reads both ways and tells two classes of sequences apart.
  SeriesModelTest() {
    config_ = {{"format", 1},
               {"kind", "table"},
               {"name", "LSTM"},
               {"form",
                {{"goal", "classification"},
                 {"target", "y"},
                 {"sequence", "id"},
                 {"time", ""},
                 {"features", {"a", "b"}},
                 {"classes", {"no", "yes"}},
                 {"each_step", false},
                 {"has_times", false},
                 {"has_dates", false},
                 {"context", 4},
                 {"horizon", 1},
                 {"longest", kTimeSteps},
                 {"mean", {0.5, -1.0}},
                 {"deviation", {2.0, 1.0}},
                 {"change", {1.0, 1.0}},
                 {"target_mean", 0.0},
                 {"target_deviation", 1.0},
                 {"target_scale", 1.0},
                 {"typical_step", 1.0}}},
               {"network",
                {{"encoder", "lstm"},
                 {"position", "none"},
                 {"causal", false},
                 {"symbols", 0},
                 {"features", kColumnsRead},
                 {"outputs", 2},
                 {"pooled", true},
                 {"layers", 1},
                 {"heads", 2},
                 {"width", kUnits},
                 {"ffn_width", 0},
                 {"query_key_norm", "none"},
                 {"longest", kTimeSteps}}},
               {"low", Json::array()},
               {"high", Json::array()}};
    Add("input.weight", {kUnits, kColumnsRead}), Add("input.bias", {kUnits});
    for (const std::string way : {"", "_reverse"}) {
      Add("encoder.cell0.weight_ih_l0" + way, {2 * kUnits, kUnits}), Add("encoder.cell0.bias_ih_l0" + way, {2 * kUnits});
      Add("encoder.cell0.weight_hh_l0" + way, {2 * kUnits, kUnits / 2}), Add("encoder.cell0.bias_hh_l0" + way, {2 * kUnits});
    }
    for (const std::string norm : {"encoder.norm0", "encoder.final_norm"})
      Add(norm + ".weight", {kUnits}), Add(norm + ".bias", {kUnits});
    Add("head.weight", {2, kUnits}), Add("head.bias", {2});
    for (int64_t i = 0; i < 3 * kTimeSteps * kColumnsRead; ++i) raw_.push_back(std::sin(static_cast<double>(i)));
  }

  void Add(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(static_cast<float>(generator_() % 129) / 64.0f - 1.0f);  // exact in 16 bits
    numbers_[name] = numbers;
    shapes_[name] = shape;
  }

  // Another encoder with one column a head and way.
  void ReadInLinearTime(const std::string& encoder) {
    const bool mamba = encoder == "mamba2", convolves = mamba || encoder == "gated-delta", linear = encoder == "linear";
    const int64_t half = kUnits / 2, value = mamba ? 2 * half : half, key = half, mixed = value + 2 * key;
    std::erase_if(numbers_, [](const auto& item) {
      return item.first.starts_with("encoder.cell0") || item.first.starts_with("encoder.reader0");
    });
    config_["network"]["encoder"] = encoder;
    for (const std::string reader : {"encoder.reader0.", "encoder.reader0_reverse."}) {
      const int64_t columns = mixed + (linear ? 0 : value) + (convolves ? (mamba ? 2 : 4) : 0);
      Add(reader + "in_proj.weight", {columns, kUnits}), Add(reader + "in_proj.bias", {columns});
      Add(reader + "out_proj.weight", {half, value}), Add(reader + "out_proj.bias", {half});
      if (!linear) Add(reader + "norm_weight", {mamba ? value : half / 2});
      if (mamba) Add(reader + "D", {2});
      if (!convolves) continue;
      Add(reader + "conv_weight", {mixed, 4}), Add(reader + "conv_bias", {mixed});
      Add(reader + "A_log", {2}), Add(reader + "dt_bias", {2});
    }
  }

  template <class T>
  void Write(const char* type, const std::function<T(float)>& convert) {
    std::map<std::string, Stored> tensors;
    for (const auto& [name, numbers] : numbers_) {
      std::vector<T> converted;
      for (const float number : numbers) converted.push_back(convert(number));
      tensors[name] = {type, shapes_[name], Bytes(converted)};
    }
    WriteTensors(At("model.safetensors"), tensors);
    std::ofstream(At("config.json")) << config_;
  }
  void Write() {
    Write<float>("F32", [](float number) { return number; });
  }

  SeriesModel Open() const { return SeriesModel(folder().string()); }
  std::string Refusal() {
    Write();
    return WhatOf<FileError>([&] { Open(); });
  }

  SeriesInput Rows(int64_t rows, int64_t steps = kTimeSteps) const {
    return {.features = View<const double, 3>::Contiguous(raw_.data(), {rows, steps, kColumnsRead})};
  }
  std::vector<double> Answers(const SeriesModel& model, const SeriesInput& input) {
    const std::array<int64_t, 3> extent{input.features.extent[0], model.Answered(input.features.extent[1]),
                                        model.form().outputs()};
    std::vector<double> values(static_cast<std::size_t>(extent[0] * extent[1] * extent[2]), -7.0);
    model.Predict(input, {.values = View<double, 3>::Contiguous(values.data(), extent)}, workspace_, serial_);
    return values;
  }
  std::string RefusedInput(const SeriesModel& model, const SeriesInput& input) {
    return WhatOf<InvalidArgument>([&] { Answers(model, input); });
  }

  // A value of each step in place of classes of sequences.
  void TellValues() {
    config_["form"]["goal"] = "regression", config_["form"]["classes"] = Json::array(), config_["form"]["each_step"] = true;
    config_["network"]["pooled"] = false, config_["network"]["outputs"] = 1;
    config_["low"] = {-1.0}, config_["high"] = {2.0};
    Add("head.weight", {1, kUnits}), Add("head.bias", {1});
  }

  void RefusesDamage(int64_t folders);

  Json config_;
  std::map<std::string, std::vector<float>> numbers_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::mt19937 generator_{11};
  std::vector<double> raw_;
  ModelWorkspace workspace_;
  SerialExecutor serial_;
};

TEST_F(SeriesModelTest, ProbabilitiesAreOfARowAlone) {
  Write();
  const SeriesModel model = Open();
  const std::vector<double> all = Answers(model, Rows(3));
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_NEAR(all[2 * row] + all[2 * row + 1], 1, 1e-12);
    SeriesInput alone = Rows(1);
    alone.features.data += row * kTimeSteps * kColumnsRead;
    EXPECT_EQ(Answers(model, alone), std::vector<double>(all.begin() + 2 * row, all.begin() + 2 * row + 2)) << row;
  }
  EXPECT_NE(all[0], all[2]);
  ThreadPool pool(3);
  std::vector<double> threaded(6);
  model.Predict(Rows(3), {.values = View<double, 3>::Contiguous(threaded.data(), {3, 1, 2})}, workspace_, pool);
  EXPECT_EQ(threaded, all);
}

// By hand: no weight but the head's bias is other than 0.
TEST_F(SeriesModelTest, ValuesAreInUnitsOfTheTarget) {
  TellValues();
  for (auto& [name, numbers] : numbers_) std::ranges::fill(numbers, 0.0f);
  numbers_["head.bias"] = {0.25f};
  config_["form"]["target_mean"] = 10.0, config_["form"]["target_scale"] = 4.0;
  Write();
  const SeriesModel model = Open();
  std::vector<double> values(kTimeSteps), low(kTimeSteps), high(kTimeSteps);
  const auto view = [](std::vector<double>& some) { return View<double, 3>::Contiguous(some.data(), {1, kTimeSteps, 1}); };
  model.Predict(Rows(1), {view(values), view(low), view(high)});
  EXPECT_EQ(values, std::vector<double>(kTimeSteps, 11));
  EXPECT_EQ(low, std::vector<double>(kTimeSteps, 10));
  EXPECT_EQ(high, std::vector<double>(kTimeSteps, 13));
}

TEST_F(SeriesModelTest, WhatStandsBehindALengthIsNotRead) {
  TellValues();
  Write();
  const SeriesModel model = Open();
  const std::vector<int64_t> lengths = {2, kTimeSteps};
  SeriesInput input = Rows(2);
  input.lengths = View<const int64_t, 1>::Contiguous(lengths.data(), {2});
  const std::vector<double> before = Answers(model, input);
  std::fill(raw_.begin() + 2 * kColumnsRead, raw_.begin() + kTimeSteps * kColumnsRead, NAN);
  EXPECT_EQ(Answers(model, input), before);
  EXPECT_EQ(std::vector<double>(before.begin() + 2, before.begin() + kTimeSteps), std::vector<double>(kTimeSteps - 2, 0.0));
  SeriesInput shorter = Rows(1, 2);
  EXPECT_EQ(Answers(model, shorter), std::vector<double>(before.begin(), before.begin() + 2));
}

TEST_F(SeriesModelTest, WeightsOfOtherTypesAreTheSame) {
  Write();
  const std::vector<double> expected = Answers(Open(), Rows(3));
  Write<double>("F64", [](float number) { return static_cast<double>(number); });
  EXPECT_EQ(Answers(Open(), Rows(3)), expected);
  Write<uint16_t>("BF16", [](float number) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16); });
  EXPECT_EQ(Answers(Open(), Rows(3)), expected);
  Write<uint16_t>("F16", [](float number) {
    const auto bits = std::bit_cast<uint32_t>(number);
    if ((bits & 0x7fffffff) == 0) return uint16_t{0};
    const uint32_t exponent = ((bits >> 23) & 0xff) - 127 + 15;
    return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3ff));
  });
  EXPECT_EQ(Answers(Open(), Rows(3)), expected);
}

TEST_F(SeriesModelTest, CallsAfterTheFirstAllocateNothing) {
  if (HEED_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "not counted under a sanitizer";
  std::vector<double> values(6);
  const SeriesAnswers answers{.values = View<double, 3>::Contiguous(values.data(), {3, 1, 2})};
  ThreadPool pool(2);
  for (const char* encoder : {"lstm", "linear", "retention", "mamba2", "gated-delta"}) {
    if (std::string(encoder) != "lstm") ReadInLinearTime(encoder);
    Write();
    const SeriesModel model = Open();
    workspace_.Release();
    const int64_t none = allocations.load();
    model.Predict(Rows(3), answers, workspace_, pool);
    const int64_t before = allocations.load();
    ASSERT_GT(before, none) << "the first call makes the workspace";
    for (int64_t call = 0; call < 20; ++call) {
      model.Predict(Rows(3), answers, workspace_, pool);
      SeriesAnswers fewer = answers;
      fewer.values.extent[0] = 2;
      model.Predict(Rows(2), fewer, workspace_, pool);
    }
    EXPECT_EQ(allocations.load(), before) << encoder;
  }
}

TEST_F(SeriesModelTest, MethodsOfThePastAllocateNothingEither) {
  if (HEED_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "not counted under a sanitizer";
  Json& form = config_["form"];
  form["goal"] = "forecast", form["target"] = "a", form["classes"] = Json::array(), form["each_step"] = true;
  form["time"] = "day", form["has_times"] = form["has_dates"] = true, form["typical_step"] = 86400.0;
  config_.erase("network"), config_["low"] = {-1.0}, config_["high"] = {1.0};
  constexpr int64_t kSteps = 30;
  std::vector<double> values, days, foretold(2);
  for (int64_t i = 0; i < 2 * kSteps; ++i) {
    values.insert(values.end(), {2 + std::sin(static_cast<double>(i)), 0.0});
    days.push_back(86400.0 * static_cast<double>(i % kSteps));
  }
  SeriesInput input;
  input.features = View<const double, 3>::Contiguous(values.data(), {2, kSteps, kColumnsRead});
  input.times = View<const double, 2>::Contiguous(days.data(), {2, kSteps});
  const SeriesAnswers answers{.values = View<double, 3>::Contiguous(foretold.data(), {2, 1, 1})};
  const Json rates = {{"level", 0.5}, {"trend", 0.1}, {"season_rate", 0.1}, {"damping", 0.9}, {"season", 7}, {"logs", true}};
  const Json week = {{"periods", {"week"}}, {"harmonics", 2}, {"step", 86400}, {"line", true}, {"logs", false}};
  for (const auto& [kind, settings] :
       std::map<std::string, Json>{{"season", rates}, {"smoothing", rates}, {"calendar", week}}) {
    config_["method"] = {{"kind", kind}, {"settings", settings}};
    Write();
    const SeriesModel model = Open();
    model.Predict(input, answers, workspace_, serial_);
    const int64_t before = allocations.load();
    for (int64_t call = 0; call < 5; ++call) model.Predict(input, answers, workspace_, serial_);
    EXPECT_EQ(allocations.load(), before) << kind;
    EXPECT_NE(foretold[0], foretold[1]) << kind;
  }
}

TEST_F(SeriesModelTest, FoldersThatContradictThemselvesAreRefusedByFieldAndFile) {
  const Json whole = config_;
  const auto refusal = [&](const std::function<void(Json&)>& change) {
    config_ = whole;
    change(config_);
    return Refusal();
  };
  EXPECT_EQ(refusal([](Json&) {}), "");
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["format"] = 2; }), "config.json: 'format' is not an integer in 1..1"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["kind"] = "text"; }), "'kind' is not \"table\""));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json.erase("kind"), json["model"] = Json::object(); }),
                    "it holds a model that continues texts; heed::CharacterModel opens it"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["form"].erase("mean"); }), "'mean' is missing"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["form"]["mean"] = {1.0, "x"}; }), "'mean' is not a list of numbers"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["form"]["goal"] = "guess"; }), "goal: \"guess\" is unknown"))
      << refusal([](Json& json) { json["form"]["goal"] = "guess"; });
  EXPECT_TRUE(Holds(refusal([](Json& json) {
                      json["form"]["deviation"] = {1.0, 0.0};
                    }),
                    "deviation: 0 is not a finite number above 0"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["form"]["classes"] = {"no", "no"}; }), "classes: \"no\" stands twice"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["form"]["longest"] = 1 << 21; }), "longest: 2097152 is not in 1 to"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["form"]["periods"] = {"day"}; }), "periods: expected none"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["low"] = {1.0}; }), "'low' and 'high': expected 0 numbers each"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["network"]["encoder"] = "oracle"; }), "encoder:"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["network"]["position"] = "alibi"; }), "needs the attention encoder"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["network"]["outputs"] = 3; }), "'network' and 'form' contradict each other"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["network"]["layers"] = 1000, json["network"]["width"] = 65536; }),
                    "more weights than model.safetensors holds"));
  EXPECT_TRUE(Holds(refusal([](Json& json) { json["network"]["width"] = 2; }), "encoder.cell0"));
  EXPECT_TRUE(Holds(refusal([](Json& json) {
                      json.erase("network");
                      json["method"] = {{"kind", "smoothing"}, {"settings", Json::object()}};
                    }),
                    "'smoothing' only forecasts"));
  config_ = whole;
  numbers_["head.bias"][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(Holds(Refusal(), "model.safetensors: tensor 'head.bias' holds numbers that are not finite"));
  EXPECT_FALSE(WhatOf<FileError>([] { SeriesModel("/nowhere"); }).empty());
}

TEST_F(SeriesModelTest, InputThatDoesNotFitIsRefusedByNameAndPlace) {
  Write();
  const SeriesModel model = Open();
  SeriesInput wide = Rows(1);
  wide.features.extent[2] = 1;
  EXPECT_TRUE(Holds(RefusedInput(model, wide), "features: expected [rows, steps, 2] with at least one step, got [1, 6, 1]"));
  SeriesInput timed = Rows(1);
  timed.times = View<const double, 2>::Contiguous(raw_.data(), {1, kTimeSteps});
  EXPECT_TRUE(Holds(RefusedInput(model, timed), "times: expected none"));
  const std::vector<int64_t> lengths = {3, 7, 1};
  SeriesInput long_row = Rows(3);
  long_row.lengths = View<const int64_t, 1>::Contiguous(lengths.data(), {3});
  EXPECT_TRUE(Holds(RefusedInput(model, long_row), "lengths: row 1: expected 1 to 6, got 7"));
  SeriesInput told = Rows(1);
  told.target = View<const double, 2>::Contiguous(raw_.data(), {1, kTimeSteps});
  EXPECT_TRUE(Holds(RefusedInput(model, told), "target: expected none"));
  std::vector<double> values(2, -7.0);
  const auto one = View<double, 3>::Contiguous(values.data(), {1, 1, 2});
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { model.Predict(Rows(1), {one, one, {}}); }), "low: expected none"));
  raw_[5] = NAN;
  EXPECT_TRUE(
      Holds(WhatOf<InvalidArgument>([&] { model.Predict(Rows(1), {one}); }), "row 0, step 2: nan is not a finite number"));
  raw_[5] = 1e200;
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { model.Predict(Rows(1), {one}); }), "is beyond 1e100"));
  EXPECT_EQ(values, std::vector<double>(2, -7.0)) << "nothing was written";
}

TEST_F(SeriesModelTest, AnswersThatAreNotFiniteAreAnError) {
  for (float& number : numbers_["head.weight"]) number = std::numeric_limits<float>::max();
  for (float& number : numbers_["encoder.final_norm.weight"]) number = 1e30f;
  Write();
  const SeriesModel model = Open();
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { Answers(model, Rows(1)); }), "its answers to row 0 are not all finite"));
}

void SeriesModelTest::RefusesDamage(int64_t folders) {
  Write();
  EXPECT_GT(RefusedOfDamaged(folder().string(), folders, generator_, [&] { Answers(Open(), Rows(1)); }), folders / 2);
}

TEST_F(SeriesModelTest, DamagedFoldersAreRefused) { RefusesDamage(120); }
using LongSeriesModelTest = SeriesModelTest;
TEST_F(LongSeriesModelTest, TwentyThousandDamagedFoldersAreRefused) { RefusesDamage(20000); }

}  // namespace
}  // namespace heed
