#include "lab/series/date.h"

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

TEST(SecondsOfDateTest, ReadsWhatIso8601Writes) {
  EXPECT_EQ(SecondsOfDate("1970-01-01"), 0.0);
  EXPECT_EQ(SecondsOfDate("1969-12-31"), -86400.0);
  EXPECT_EQ(SecondsOfDate("2024-02-29"), 1709164800.0);
  EXPECT_EQ(SecondsOfDate("2024-03-01T12:30:05Z"), 1709296205.0);
  EXPECT_EQ(SecondsOfDate("2024-03-01 12:30:05"), 1709296205.0);
  EXPECT_EQ(SecondsOfDate("2024-03-01T12:30"), 1709296200.0);
  EXPECT_EQ(SecondsOfDate("2024-03-01T12:30:05.25+01:00"), 1709292605.25);
  EXPECT_EQ(SecondsOfDate("2024-03-01T12:30:05-0530"), 1709316005.0);
  EXPECT_EQ(SecondsOfDate("2024-03-01T12:30:05+01"), 1709292605.0);
  EXPECT_EQ(SecondsOfDate("2024-02-29T24:00"), SecondsOfDate("2024-03-01"));
}

TEST(SecondsOfDateTest, TakesNothingElse) {
  for (const char* text : {"",
                           "2024",
                           "2024-03",
                           "2024-3-1",
                           "2024-13-01",
                           "2024-00-10",
                           "2023-02-29",
                           "2024-04-31",
                           "2024-03-01T",
                           "2024-03-01T1",
                           "2024-03-01T25:00",
                           "2024-03-01T12:60",
                           "2024-03-01T12:30:61",
                           "2024-03-01T24:00:01",
                           "2024-03-01T12:30:05.",
                           "2024-03-01T12:30:05x",
                           "2024-03-01T12:30:05+",
                           "2024-03-01T12:30:05+1",
                           "2024-03-01T12:30:05+24:00",
                           "2024-03-01T12:30:05Zx",
                           "2024-03-01x12:30",
                           "01.03.2024",
                           "2024/03/01",
                           "-024-03-01",
                           "２０２４-03-01"}) {
    EXPECT_FALSE(SecondsOfDate(text)) << text;
  }
}

}  // namespace
}  // namespace heed::lab
