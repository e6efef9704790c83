#include "book/companions/companions.h"

#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

TEST(CompanionOptionsTest, StepsOfTheStudyReachEveryPage) {
  CompanionOptions options = CompanionBudget("quick");
  StudyOptions study = BudgetOptions("quick");
  EXPECT_FALSE(DeepStacks(options, study)) << "a page of the long budget, or on request";
  EXPECT_FALSE(Tasks(options, study));
  study.all_steps = 7, options.deepest = 2, options.tasks.tasks = {"copy"};
  EXPECT_EQ(DeepStacks(options, study)->steps, 7);
  EXPECT_EQ(DeepStacks(options, study)->layers, 2);
  EXPECT_EQ(DeepStacks(options, study)->depths, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(Tasks(options, study)->steps, 7);
  EXPECT_EQ(Tasks(options, study)->encoders, study.encoders);
  study.encoders = {"gru"};
  EXPECT_FALSE(DeepStacks(options, study)) << "stacks of attention";
}

TEST(CompanionOptionsTest, TheLongBudgetHasEveryPage) {
  const StudyOptions study = BudgetOptions("long");
  CompanionOptions options = CompanionBudget("long");
  Validate(options, study);
  EXPECT_TRUE(DeepStacks(options, study) && Tasks(options, study));
  EXPECT_EQ(options.compared_lengths.back(), 1024);
  EXPECT_EQ(CompanionBudget("default").compared_lengths.back(), 512);
  options.tasks.tasks = {"juggling"};
  const std::string message = WhatOf<InvalidArgument>([&] { Validate(options, study); });
  EXPECT_TRUE(Holds(message, "'juggling'") && Holds(message, "parity")) << message;
}

TEST(LearntTableTest, KnowsOneThatIsNotWhole) {
  EXPECT_FALSE(LearntTableOf(nlohmann::ordered_json()));
  nlohmann::ordered_json json = {{"scheme", "relative"}, {"rows", 2}, {"columns", 3}, {"values", {1.0 / 3, 2, 3, 4, 5, 6}}};
  const std::optional<SchemeTable> table = LearntTableOf(json);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->values, (std::vector<double>{1.0 / 3, 2, 3, 4, 5, 6}));
  EXPECT_EQ(table->columns, 3);
  json["values"].erase(0);
  EXPECT_THROW(LearntTableOf(json), InvalidArgument);
}

}  // namespace
}  // namespace heed::lab
