// Models that the laboratory keeps answer the same without LibTorch: every encoder, every positional scheme, every goal.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/position_choice.h"
#include "heed/series_model.h"
#include "lab/data/random.h"
#include "lab/series/baselines.h"
#include "lab/series/forecast.h"
#include "lab/series/kept_model.h"
#include "lab/series/predictions.h"
#include "lab/training/trainer.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

constexpr int64_t kColumns = 3, kLongest = 12;

struct Shape {
  std::string goal;
  bool each_step = false, has_times = false;
  bool marks = false;  // of gaps, and of texts
  bool has_dates = false;
};

SeriesForm FormOf(const Shape& shape) {
  SeriesForm form;
  form.goal = shape.goal, form.target = "y", form.sequence = "id", form.features = {"a", "b", "y"};
  form.each_step = shape.each_step, form.has_times = shape.has_times, form.time = shape.has_times ? "t" : "";
  if (form.Classifies()) form.classes = {"low", "middle", "high"};
  if (!form.Forecasts()) form.features.back() = "c";
  form.context = 7, form.horizon = 3, form.longest = kLongest;
  form.mean = {0.1, -0.2, 0.3}, form.deviation = {1.5, 0.7, 1.1}, form.change = {0.9, 1.2, 1.3};
  if (shape.marks)
    form.marks = {.gaps = {"a", form.features.back()}, .category_columns = {"k", "k", "m"}, .category_names = {"p", "q", "p"}};
  form.target_mean = 0.2, form.target_deviation = form.target_scale = 1.4, form.typical_step = 0.5;
  form.has_dates = shape.has_dates;
  if (form.has_dates) form.periods = {"day", "year"};
  return form;
}

// Lets some of the last step's features be missing, and says which; then texts, some of which are none. A first value of the
// last feature, a forecast's target, is there.
void AddMarks(const SeriesForm& form, bool behind_first, Random& random, std::vector<double>& features) {
  const auto end = std::ssize(features);
  for (std::size_t gap = 0; gap < form.marks.gaps.size(); ++gap) {
    const bool missing = random.Uniform() < 0.4 && (gap == 0 || behind_first);
    if (missing) features[gap == 0 ? end - kColumns : end - 1] = NAN;
    features.push_back(missing ? 1 : 0);
  }
  for (int64_t text = 0; text < form.marks.texts(); ++text) {
    const double index = std::floor(3 * random.Uniform());
    features.push_back(index < (text == 0 ? 2 : 1) ? index : NAN);
  }
}

SeriesData DataOf(const SeriesForm& form, const std::vector<int64_t>& lengths, Random& random) {
  SeriesData data{form, "made", {}, {}};
  for (const int64_t steps : lengths) {
    SeriesSequence one{"s" + std::to_string(data.sequences.size()), steps, {}, {}, {}};
    double sum = 0;
    double time = 100 * random.Uniform();
    for (int64_t i = 0; i < steps; ++i, time += 0.1 + random.Uniform()) {
      for (int64_t f = 0; f < kColumns; ++f) one.features.push_back(3 * random.Uniform() - 1.5);
      AddMarks(form, i > 0, random, one.features);
      if (form.has_times) one.times.push_back(time);
      const double last = one.features[i * data.numbers() + kColumns - 1];
      sum += std::isnan(last) ? 0 : last;
      if (form.each_step) one.targets.push_back(form.Forecasts() ? last : form.Classifies() ? i % 3 : sum);
    }
    data.CarryForward(one);
    if (!form.each_step) one.targets.push_back(form.Classifies() ? static_cast<double>(data.sequences.size() % 3) : sum);
    data.sequences.push_back(one);
  }
  return data;
}

// With every parameter somewhere beside its start, so that none of them goes without a say.
KeptModel RandomModel(const SeriesForm& form, SequenceModelOptions options) {
  options.causal = form.Forecasts(), options.pooled = !form.each_step, options.outputs = form.outputs();
  options.features = form.width() + (form.Forecasts() ? kColumns : 0);
  options.layers = 2, options.heads = 2, options.width = 8, options.ffn_width = 12, options.longest = kLongest;
  KeptModel model{.name = options.encoder, .form = form, .network = options, .method = {}};
  const at::Tensor scales = form.Forecasts() ? at::rand({kColumns}) + 0.5 : at::Tensor();
  SeriesNetwork network(options, scales);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : network.module().parameters()) parameter.add_(0.3 * at::randn_like(parameter));
  for (const auto& [name, parameter] : NamedParameters(network.module())) model.method.arrays[name] = parameter.clone();
  if (scales.defined()) model.method.arrays["levels"] = scales;
  for (int64_t i = 0; !form.Classifies() && i < form.outputs(); ++i)
    model.low.push_back(-1.0 - static_cast<double>(i)), model.high.push_back(0.5);
  return model;
}

// What the laboratory says, row by row: probabilities, or values with the ends of their intervals.
std::vector<double> Expected(const KeptModel& model, const SeriesData& data) {
  std::vector<double> numbers;
  const Predictions predictions = Predict(model, data);
  for (const auto& row : predictions.rows) {
    for (auto cell = row.begin() + predictions.answers; cell != row.end(); ++cell) {
      if (const double* number = std::get_if<double>(&*cell)) numbers.push_back(*number);
    }
  }
  return numbers;
}

// The columns of a step as they were measured.
void Give(const SeriesData& data, const double* numbers, double* columns) {
  const int64_t gaps = std::ssize(data.marks.gaps);
  std::copy_n(numbers, kColumns, columns);
  for (int64_t gap = 0; gap < gaps; ++gap) {
    if (numbers[kColumns + gap] != 0) columns[gap == 0 ? 0 : kColumns - 1] = NAN;
  }
  std::copy_n(numbers + kColumns + gaps, data.marks.texts(), columns + kColumns);
}

std::vector<double> WithoutTorch(const std::string& folder, const SeriesData& data) {
  const heed::SeriesModel model(folder);
  const int64_t rows = std::ssize(data.sequences), steps = data.Longest();
  const int64_t columns = model.form().columns();
  std::vector<double> features(rows * steps * columns, NAN), times(rows * steps, NAN), targets = times;
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < rows; ++row) {
    const SeriesSequence& one = data.sequences[row];
    lengths.push_back(one.steps);
    for (int64_t step = 0; step < one.steps; ++step)
      Give(data, &one.features[step * data.numbers()], &features[(row * steps + step) * columns]);
    std::ranges::copy(one.times, times.begin() + row * steps);
    if (one.targets.size() > 1) std::ranges::copy(one.targets, targets.begin() + row * steps);
  }
  heed::SeriesInput input;
  input.features = View<const double, 3>::Contiguous(features.data(), {rows, steps, columns});
  if (data.has_times) input.times = View<const double, 2>::Contiguous(times.data(), {rows, steps});
  const bool alone = std::ranges::find(data.features, data.target) == data.features.end();
  if (model.form().Forecasts() && alone) input.target = View<const double, 2>::Contiguous(targets.data(), {rows, steps});
  input.lengths = View<const int64_t, 1>::Contiguous(lengths.data(), {rows});
  const std::array<int64_t, 3> extent{rows, model.Answered(steps), model.form().outputs()};
  std::vector<double> values(extent[0] * extent[1] * extent[2], NAN), low = values, high = values;
  const auto view = [&](std::vector<double>& some) { return View<double, 3>::Contiguous(some.data(), extent); };
  heed::SeriesAnswers answers{view(values)};
  const bool intervals = !model.form().Classifies();
  if (intervals) answers.low = view(low), answers.high = view(high);
  model.Predict(input, answers);
  std::vector<double> numbers;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < std::min(extent[1], lengths[row]); ++i) {
      for (int64_t o = 0; o < extent[2]; ++o) {
        numbers.push_back(answers.values(row, i, o));
        if (intervals) numbers.push_back(answers.low(row, i, o)), numbers.push_back(answers.high(row, i, o));
      }
    }
  }
  return numbers;
}

void ExpectSameAnswers(const std::filesystem::path& folder, const SeriesData& data, const std::string& what) {
  const KeptModel model = ReadModel(folder);
  const std::vector<double> expected = Expected(model, data), found = WithoutTorch(folder.string(), data);
  ASSERT_EQ(found.size(), expected.size());
  // A LayerNorm over numbers that are nearly equal multiplies their rounding, so that single answers lie farther apart.
  double largest = 0, farthest = 0, squares = 0, apart = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = found[i] - expected[i];
    largest = std::max(largest, std::abs(expected[i])), farthest = std::max(farthest, std::abs(difference));
    squares += expected[i] * expected[i], apart += difference * difference;
  }
  const std::string who = what + ", " + model.form.goal + (data.has_times ? " with times" : "");
  EXPECT_LE(std::sqrt(apart / squares), 1e-6) << who;
  EXPECT_LE(farthest, 4e-6 * largest) << who;
  EXPECT_GT(largest, 0.1);
}

void ExpectSame(const Shape& shape, const SequenceModelOptions& options) {
  const ScratchFolder folder;
  const SeriesForm form = FormOf(shape);
  Random random(17);
  // Rows of 1 step and of more than are read at once, too.
  const SeriesData data = DataOf(form, {1, 5, 12, 3, 31, 7, 24, 2}, random);
  WriteModel(RandomModel(form, options), folder.path());
  ExpectSameAnswers(folder.path(), data, options.encoder + ", " + options.position + ", " + options.query_key_norm);
}

void ExpectAllSame(const Shape& shape) {
  at::manual_seed(5);
  for (const std::string& encoder : nn::EncoderNames()) ExpectSame(shape, {.encoder = encoder});
  for (const std::string& position : nn::PositionSchemeNames()) {
    if (!nn::NeedsCausal(nn::ParsePositionScheme(position)) || shape.goal == "forecast")
      ExpectSame(shape, {.position = position});
  }
  for (const char* norm : {"l2", "rms"}) ExpectSame(shape, {.position = "rotary", .query_key_norm = norm});
}

TEST(WithoutTorchTest, ClassesOfSequences) { ExpectAllSame({.goal = "classification"}); }
TEST(WithoutTorchTest, ClassesOfStepsAtTimes) {
  ExpectAllSame({.goal = "classification", .each_step = true, .has_times = true});
}
TEST(WithoutTorchTest, ValuesOfSequencesAtTimes) { ExpectAllSame({.goal = "regression", .has_times = true}); }
TEST(WithoutTorchTest, ValuesOfSteps) { ExpectAllSame({.goal = "regression", .each_step = true}); }
TEST(WithoutTorchTest, Forecasts) { ExpectAllSame({.goal = "forecast", .each_step = true}); }
TEST(WithoutTorchTest, ForecastsAtTimes) { ExpectAllSame({.goal = "forecast", .each_step = true, .has_times = true}); }

TEST(WithoutTorchTest, ForecastsOfDates) {
  at::manual_seed(6);
  const Shape shape{.goal = "forecast", .each_step = true, .has_times = true, .has_dates = true};
  for (const char* encoder : {"gru", "convolution"}) ExpectSame(shape, {.encoder = encoder});
  ExpectSame(shape, {.position = "rotary"});
}

TEST(WithoutTorchTest, GapsAndTexts) {
  at::manual_seed(7);
  for (const char* goal : {"classification", "regression", "forecast"}) {
    for (const bool has_times : {false, true})
      ExpectSame({.goal = goal, .each_step = std::string(goal) != "regression", .has_times = has_times, .marks = true},
                 {.encoder = "gru"});
  }
}

TEST(WithoutTorchTest, WhatIsNoCategoryAndNoGapIsNamed) {
  const ScratchFolder folder;
  SeriesForm form = FormOf({.goal = "regression", .marks = true});
  WriteModel(RandomModel(form, {.encoder = "gru"}), folder.path());
  const heed::SeriesModel model(folder.path().string());
  ASSERT_EQ(model.form().columns(), 5);
  EXPECT_EQ(model.form().marks.Category("k", "q"), 1);
  EXPECT_EQ(model.form().marks.Category("m", "q"), -1);
  std::vector<double> value(1);
  const auto refusal = [&](std::vector<double> step) {
    heed::SeriesInput input;
    input.features = View<const double, 3>::Contiguous(step.data(), {1, 1, 5});
    return WhatOf<InvalidArgument>([&] { model.Predict(input, {View<double, 3>::Contiguous(value.data(), {1, 1, 1})}); });
  };
  EXPECT_EQ(refusal({NAN, 0, NAN, NAN, 0}), "");
  EXPECT_TRUE(Holds(refusal({0, NAN, 0, 0, 0}), "column \"b\"")) << refusal({0, NAN, 0, 0, 0});
  EXPECT_TRUE(Holds(refusal({0, 0, 0, 2, 0}), "column \"k\"") && Holds(refusal({0, 0, 0, 2, 0}), "expected 0 to 1"));
  EXPECT_TRUE(Holds(refusal({0, 0, 0, 0, 0.5}), "expected 0 to 0"));
  form.marks.category_columns.push_back("k"), form.marks.category_names.emplace_back("last");
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(form); }), "the categories of \"k\" one behind the other"));
  form.marks.category_columns.pop_back(), form.marks.category_names.pop_back();
  form.marks.category_names.pop_back();
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(form); }), "category_columns, category_names"));
  form.marks = {.gaps = {"c", "a"}};
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(form); }), "gaps: \"a\""));
}

// What the study keeps where a baseline won.
TEST(WithoutTorchTest, Baselines) {
  std::set<std::string> kinds;
  for (const Shape& shape :
       {Shape{"classification"}, Shape{"classification", true, true}, Shape{"regression"}, Shape{"regression", true},
        Shape{"forecast", true}, Shape{"regression", false, false, /*marks=*/true},
        Shape{"forecast", true, false, /*marks=*/true}}) {
    Random random(3);
    const SeriesForm form = FormOf(shape);
    std::vector<int64_t> lengths(form.Forecasts() ? 2 : 40, form.Forecasts() ? 90 : 12);
    for (std::size_t i = 0; !form.Forecasts() && i < lengths.size(); ++i) lengths[i] -= static_cast<int64_t>(i % 4);
    const SeriesData data = DataOf(form, lengths, random);
    SeriesCut cut;
    cut.context = 7, cut.horizon = 3, cut.longest = kLongest;
    const SeriesBatches batches(data, cut);
    for (const Baseline& baseline : SeriesBaselines(batches, 1)) {
      const ScratchFolder folder;
      KeptModel model{.name = baseline.name, .form = batches.form(), .method = baseline.kept};
      Calibrate(model, batches);
      WriteModel(model, folder.path());
      ExpectSameAnswers(folder.path(), data, baseline.name);
      kinds.insert(model.method.kind);
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"simple", "linear", "neighbours", "season", "smoothing"}));
}

// Days, of which one sequence has a year and a half and another two weeks; the target is a feature, or stands alone.
SeriesData Days(SeriesForm& form, bool alone) {
  form = FormOf({"forecast", true, true});
  if (alone) form.target = "sold";
  form.has_dates = true, form.typical_step = 86400, form.horizon = 9, form.periods = {"year", "week"};
  Random random(23);
  SeriesData data = DataOf(form, {560, 15, 400}, random);
  data.has_dates = true;
  for (SeriesSequence& one : data.sequences) {
    for (int64_t i = 0; i < one.steps; ++i) {
      const int64_t day = i + i / 100;  // a day is left out after each hundred
      one.times[i] = 1.6e9 + 86400.0 * static_cast<double>(day);
      double& value = alone ? one.targets[i] : one.features[i * kColumns + 2];
      value = 5 + std::sin(static_cast<double>(i) / 58) + (i % 7 == 0 ? 1 : 0) + 0.3 * random.Uniform();
      one.targets[i] = value;
    }
  }
  return data;
}

// Both stand on the same formulas, so that no more than the order of a few sums differs.
TEST(WithoutTorchTest, MethodsOfThePast) {
  const std::vector<KeptMethod> methods = {{"season", KeptFields(RepeatedSeason{7})},
                                           {"smoothing", KeptFields(Smoothing{1, false, 0.3, 0.1, 0, 0.9})},
                                           {"smoothing", KeptFields(Smoothing{14, true, 0.2, 0.03, 0.1, 0.98})},
                                           {"calendar", KeptFields(Calendar{{"year", "week"}, 2, 86400, true, false})},
                                           {"calendar", KeptFields(Calendar{{"week"}, 6, 86400, false, true})}};
  for (const bool alone : {false, true}) {
    KeptModel model{.name = "the past", .form = {}, .method = {}};
    const SeriesData data = Days(model.form, alone);
    for (int64_t h = 0; h < model.form.horizon; ++h) model.low.push_back(-1), model.high.push_back(2);
    for (const KeptMethod& method : methods) {
      const ScratchFolder folder;
      model.method = method;
      WriteModel(model, folder.path());
      const std::vector<double> expected = Expected(model, data), found = WithoutTorch(folder.path().string(), data);
      ASSERT_EQ(found.size(), expected.size());
      ASSERT_EQ(found.size(), 3 * 3 * 9U);
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 1e-12) << method.kind << " " << i;
        EXPECT_TRUE(expected[i] > 3 && expected[i] < 10) << method.kind << " " << expected[i];
      }
    }
  }
}

}  // namespace
}  // namespace heed::lab
