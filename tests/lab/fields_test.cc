#include "lab/options/fields.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/report/printable.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

struct SampleOptions {
  int64_t steps = 300;
  std::vector<std::string> encoders = {"gru", "lstm"}, tasks = {};
  std::vector<int64_t> lengths = {16, 32};
  std::string scheme = "alibi";
  double lr = 3e-3;
  uint64_t seed = 7;
  int threads = 2;
};

Fields FieldsOf(SampleOptions& options) {
  return {Whole("steps", &options.steps, 1, 1000, "Steps"),
          Names("encoders", &options.encoders, {"attention", "gru", "lstm"}, "Encoders"),
          OrNone(Names("tasks", &options.tasks, {"copy"}, "Tasks")),
          Whole("train_lengths", &options.lengths, 1, 64, "Lengths"),
          Names("scheme", &options.scheme, {"none", "alibi"}, "Scheme"),
          Number("lr", options.lr, 0, std::numeric_limits<double>::infinity(), "Rate"),
          Seed(options.seed),
          SideBySide(options.threads)};
}

std::string Fault(const SampleOptions& options) {
  SampleOptions own = options;
  return WhatOf<InvalidArgument>([&] { Check(FieldsOf(own)); });
}

TEST(FieldsTest, AreCheckedByTheirDescription) {
  EXPECT_EQ(Fault({}), "");
  EXPECT_EQ(Fault({.steps = 0}), "steps: 0 is outside 1..1000");
  EXPECT_EQ(Fault({.steps = 1001}), "steps: 1001 is outside 1..1000");
  EXPECT_EQ(Fault({.encoders = {}}), "encoders: none given; choose among attention, gru or lstm");
  EXPECT_EQ(Fault({.encoders = {"gru", "grue"}}), "encoders: 'grue' is unknown; choose among attention, gru or lstm");
  EXPECT_EQ(Fault({.tasks = {"copie"}}), "tasks: 'copie' is unknown; choose among copy");
  EXPECT_EQ(Fault({.lengths = {16, 65}}), "train_lengths: 65 is outside 1..64");
  EXPECT_EQ(Fault({.lengths = {}}), "train_lengths: expected one number or several");
  EXPECT_EQ(Fault({.scheme = "spiral"}), "scheme: 'spiral' is unknown; choose among none or alibi");
  EXPECT_EQ(Fault({.lr = 0}), "lr: 0 is not a positive number");
  EXPECT_NE(Fault({.lr = std::numeric_limits<double>::quiet_NaN()}), "");
  EXPECT_NE(Fault({.lr = std::numeric_limits<double>::infinity()}), "");
  EXPECT_EQ(Fault({.threads = 0}), "threads: 0 is outside 1..1024");
}

TEST(FieldsTest, SettingsHoldAllThatResultsDependOn) {
  SampleOptions options;
  EXPECT_EQ(
      SettingsOf(FieldsOf(options)).dump(),
      R"({"steps":300,"encoders":["gru","lstm"],"tasks":[],"train_lengths":[16,32],"scheme":"alibi","lr":0.003,"seed":7})");
}

TEST(FieldsTest, TheCommandNamesWhatDiffersFromTheBudget) {
  SampleOptions options, budget;
  EXPECT_EQ(CommandLine("study", "", "quick", FieldsOf(options), FieldsOf(budget), "out"),
            "heed study --budget quick --out out");
  options.steps = 12, options.encoders = {"gru"}, options.lengths = {8, 16}, options.lr = 0.1, options.seed = 8;
  options.threads = 5;
  budget.tasks = {"copy"};
  EXPECT_EQ(
      CommandLine("study", ShellWord("it's.txt"), "long", FieldsOf(options), FieldsOf(budget), "my out"),
      "heed study 'it'\\''s.txt' --budget long --steps 12 --encoders gru --tasks none --train-lengths 8,16 --lr 0.1 --seed 8 "
      "--out 'my out'");
}

TEST(FieldsTest, HelpListsTheNames) {
  SampleOptions options;
  const Fields fields = FieldsOf(options);
  EXPECT_EQ(fields[1].text, "Encoders; some of attention, gru, lstm, or all");
  EXPECT_EQ(fields[2].text, "Tasks; some of copy, or all, or none");
  EXPECT_EQ(fields[4].text, "Scheme; one of none, alibi");
}

}  // namespace
}  // namespace heed::lab
