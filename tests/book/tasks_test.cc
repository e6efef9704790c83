#include "book/tasks/tasks.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "book/tasks/output.h"
#include "heed/error.h"
#include "lab/training/interrupt.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

// A model of one layer that learns in a second or two.
TaskOptions Small(const std::vector<std::string>& tasks, const std::vector<std::string>& encoders,
                  const std::vector<std::string>& positions = {"none"}) {
  TaskOptions options = TaskBudget("quick");
  options.tasks = tasks, options.encoders = encoders, options.positions = positions;
  options.length = 32, options.lengths = {32};
  options.width = 32, options.seeds = 1, options.evaluated = 64;
  return options;
}

TaskOptions TinyTasks() {
  TaskOptions options = Small({"copy", "adding"}, {"attention", "convolution"}, {"none", "learned"});
  options.length = 16, options.lengths = {8, 16, 32};
  options.width = 8, options.heads = 2, options.batch = 2, options.steps = 3, options.evaluated = 3, options.seeds = 2;
  return options;
}

// Mean score at the training length.
double ScoreOf(const std::string& task, const std::string& encoder, const std::string& position, int64_t steps) {
  TaskOptions options = Small({task}, {encoder}, {position});
  options.steps = steps;
  const TasksResult result = RunTasks(options, "test");
  const TaskResult& one = result.tasks.front();
  return one.scores.Over(one.scores.models().front(), one.At(options.length)).mean;
}

struct Scored {
  std::string encoder, position;
  std::vector<double> scores;  // by seed, at the training length; half of them at the other
};

TasksResult Measured(const std::string& task, const std::vector<Scored>& scored) {
  TasksResult result{TaskBudget("quick"), {}, {}};
  result.options.encoders = {"attention", "convolution", "gru"};
  result.options.length = 16, result.options.lengths = {16, 32};
  const Measure& measure = TaskNamed(task).facts().measure();
  Models models;
  for (const Scored& one : scored) models.push_back({{one.encoder, one.position}, 64, 1000});
  Measurements scores(task, {{measure, 16}, {measure, 32}}, models, 0, std::ssize(scored.front().scores));
  for (std::size_t m = 0; m < scored.size(); ++m) {
    for (std::size_t s = 0; s < scored[m].scores.size(); ++s) {
      scores.Put(m, s, {{scored[m].scores[s], scored[m].scores[s] / 2}});
    }
  }
  result.tasks.push_back({&TaskNamed(task), std::move(scores)});
  return result;
}

TEST(TasksTest, WithoutPositionsOneLayerFailsAtThePreviousTokenOfBothSides) {
  EXPECT_LE(ScoreOf("previous-of-both-1", "attention", "none", 250), 0.35);
  EXPECT_GE(ScoreOf("previous-of-both-1", "attention", "relative", 250), 0.95);
}

TEST(TasksTest, SinusoidalPositionsFindThePreviousToken) {
  EXPECT_GE(ScoreOf("previous-1", "attention", "sinusoidal", 400), 0.9);
}

TEST(TasksTest, AttentionSolvesTheAddingProblem) { EXPECT_LE(ScoreOf("adding", "attention", "none", 400), 0.03); }

TEST(TasksTest, LossesAreTheSameBitsForAnyNumberOfThreads) {
  TaskOptions options = TinyTasks();
  const TasksResult alone = RunTasks(options, "test");
  options.threads = 3;
  const TasksResult beside = RunTasks(options, "test");
  for (std::size_t t = 0; t < alone.tasks.size(); ++t) {
    const TaskResult &a = alone.tasks[t], &b = beside.tasks[t];
    for (const SizedContender& model : a.scores.models()) {
      const Column& loss = a.scores.ColumnOf("training_loss");
      EXPECT_EQ(a.scores.Values(model, loss), b.scores.Values(model, loss)) << model.Id();
      EXPECT_EQ(a.scores.Values(model, a.At(16)), b.scores.Values(model, b.At(16))) << model.Id();
      EXPECT_NE(a.scores.Values(model, loss)[0], a.scores.Values(model, loss)[1]) << "seeds differ";
    }
  }
}

TEST(TasksTest, WhatDoesNotReachALengthHasNoScoreThere) {
  const TasksResult result = RunTasks(TinyTasks(), "test");
  const TaskResult &copy = result.tasks[0], &adding = result.tasks[1];
  for (const SizedContender& model : copy.scores.models()) {
    EXPECT_FALSE(copy.scores.Reaches(model, copy.At(8))) << "copying eight symbols takes 16 steps";
    EXPECT_TRUE(copy.scores.Reaches(model, copy.At(16)));
    EXPECT_EQ(copy.scores.Reaches(model, copy.At(32)), model.position != "learned") << model.Id();
  }
  EXPECT_TRUE(adding.scores.Reaches(adding.scores.models().front(), adding.At(8))) << "adding takes 2";
}

TEST(TasksTest, ParametersAreNearlyEqual) {
  TaskOptions options = TaskBudget("default");
  for (const SequenceTask& task : AllTasks()) {
    double least = INFINITY, most = 0;
    for (const SizedContender& model : PlanTask(task, options)) {
      least = std::min<double>(least, model.parameters), most = std::max<double>(most, model.parameters);
    }
    EXPECT_LE(most, 1.1 * least) << task.facts().id;
  }
}

TEST(TasksTest, FinishedRunsAreNotRepeatedAndCtrlCStops) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {{"version", "1"}}), newer(folder.path(), {{"version", "2"}});
  const TasksResult first = RunTasks(TinyTasks(), "test", &store);
  EXPECT_EQ(folder.Names().size(), 12u);

  WatchForInterrupt();
  raise(SIGINT);
  // Everything is in the store, so nothing is left that could be interrupted.
  const TasksResult again = RunTasks(TinyTasks(), "test", &store);
  EXPECT_EQ(again.tasks[1].scores.Json().dump(), first.tasks[1].scores.Json().dump());
  EXPECT_THROW(RunTasks(TinyTasks(), "test", &newer), Interruption) << "another version is another run";
  WatchForInterrupt();
}

TEST(TaskOptionsTest, RefusesWhatCannotBe) {
  TaskOptions options = TinyTasks();
  options.length = 12, options.lengths = {12};
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "copy needs at least 16"))
      << WhatOf<InvalidArgument>([&] { Validate(options); });
  options = TinyTasks();
  options.lengths = {8, 32};
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "training length 16"));
  options = TinyTasks();
  options.tasks = {"copy", "sorting"};
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "'sorting'"));
  options = TinyTasks();
  options.encoders = {"mamba"};
  EXPECT_TRUE(
      Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "encoders: 'mamba' is unknown; choose among attention,"));
  options = TinyTasks();
  options.lengths = {16, 16};
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "lengths: expected increasing"));
  options = TinyTasks();
  options.width = 12, options.heads = 4, options.positions = {"none"};
  EXPECT_EQ(WhatOf<InvalidArgument>([&] { Validate(options); }), WhatOf<InvalidArgument>([] {}));
  options.positions = {"none", "rotary"};
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "width: 12 leaves each of 4 heads 3 features"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([] { TaskBudget("huge"); }), "'huge'"));
}

TEST(TasksTest, AllAreThoseThatTheLengthHolds) {
  TaskOptions options = TaskBudget("quick");
  options.tasks = TaskNames();
  Validate(options);
  const std::vector<std::string> tasks = TasksOf(options);
  EXPECT_EQ(std::count(tasks.begin(), tasks.end(), "copy"), 1);
  EXPECT_EQ(std::count(tasks.begin(), tasks.end(), "recall-8"), 0);
  options.length = 64, options.lengths = {64};
  EXPECT_EQ(TasksOf(options), TaskNames());
}

TEST(TaskFindingsTest, SaysWhichSolveAndWhichAreAtChance) {
  const TasksResult result = Measured("parity", {{"attention", "none", {0.52, 0.54}}, {"gru", "none", {0.99, 1.0}}});
  const std::string text = TaskFinding(result.tasks.front(), result.options);
  EXPECT_TRUE(Holds(text, "1 of 2 models solve it with every seed: the GRU (0.99 (0.99 to 1.00))")) << text;
  EXPECT_TRUE(Holds(text, "No better than chance: attention without positions")) << text;
  EXPECT_TRUE(Holds(text, "At 32 steps no model does better than chance.")) << text;
  const TasksResult adding = Measured("adding", {{"attention", "none", {0.002, 0.004}}, {"gru", "none", {0.005, 0.02}}});
  const std::string errors = TaskFinding(adding.tasks.front(), adding.options);
  EXPECT_TRUE(Holds(errors, "1 of 2 models solve it with every seed: attention")) << "a seed of the GRU does not: " << errors;
}

TEST(TaskFindingsTest, AFamilyWinsOnlyWhereSpreadsDoNotTouch) {
  const auto finding = [](const std::vector<double>& attention, const std::vector<double>& gru) {
    const TasksResult result = Measured("parity", {{"attention", "none", attention}, {"gru", "none", gru}});
    return FamilyFinding(result, 16);
  };
  EXPECT_TRUE(Holds(finding({0.5, 0.6}, {0.7, 0.8}), "Recurrence beats attention at parity"))
      << finding({0.5, 0.6}, {0.7, 0.8});
  EXPECT_TRUE(Holds(finding({0.8, 0.9}, {0.6, 0.7}), "Recurrence loses at parity"));
  EXPECT_TRUE(Holds(finding({0.5, 0.75}, {0.7, 0.8}), "cannot be told apart from it at 1 of the 1 tasks"));
  const TasksResult alone = Measured("parity", {{"attention", "none", {0.5}}});
  EXPECT_EQ(FamilyFinding(alone, 16), "");
}

TEST(TaskFindingsTest, SchemesAreComparedWithNoneByTheirSpreads) {
  const TasksResult helped = Measured("parity", {{"attention", "none", {0.5, 0.6}}, {"attention", "alibi", {0.7, 0.8}}});
  EXPECT_TRUE(Holds(SchemeFinding(helped), "helps attention at 1 of 1 tasks: Parity (")) << SchemeFinding(helped);
  const TasksResult equal = Measured("parity", {{"attention", "none", {0.5, 0.9}}, {"attention", "alibi", {0.7, 0.8}}});
  EXPECT_TRUE(Holds(SchemeFinding(equal), "At none of 1 tasks")) << SchemeFinding(equal);
}

TEST(TasksOutputTest, TableJsonAndFigureHoldEveryScore) {
  const TasksResult result = RunTasks(TinyTasks(), "test");
  const Table table = TaskTable(result.tasks[0], result.options);
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.header.size(), 5u);
  EXPECT_EQ(table.rows[0][2], "n/a") << "8 steps are too few";
  const nlohmann::ordered_json json = TasksJson(result);
  EXPECT_TRUE(json["tasks"][0]["models"][1]["accuracy"]["32"].is_null()) << "a learned table ends";
  EXPECT_TRUE(json["tasks"][1]["models"][0]["squared_error"]["8"]["mean"].is_number());
  const Figure figure = TaskFigure(result.tasks[0], result.options);
  EXPECT_EQ(std::get<LinePlot>(figure.content).series[1].x, std::vector<double>{16}) << "nor before nor behind";
}

}  // namespace
}  // namespace heed::lab
