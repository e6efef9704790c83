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
                           "2024.03",
                           "20240301",
                           "01/03/2024",
                           "01/03/24",
                           "2024/02/30",
                           "1991 Jux",
                           "Jun",
                           "2024 Q5",
                           "12/31/2000 13:00 PM",
                           "2024-03-01T12:30 CET",
                           "-024-03-01",
                           "２０２４-03-01"}) {
    EXPECT_FALSE(SecondsOfDate(text)) << text;
  }
}

TEST(SecondsOfDateTest, ReadsTheCommonForms) {
  const std::optional<double> day = SecondsOfDate("2000-01-31"), july = SecondsOfDate("1991-07-01");
  for (const char* text : {"2000/01/31", "2000/1/31", "2000.01.31", "31.01.2000", "31.1.2000", "Jan 31 2000", "Jan. 31, 2000",
                           "january 31, 2000", "31 Jan 2000", "31-JAN-2000", "2000-Jan-31", "2000 January 31"})
    EXPECT_EQ(SecondsOfDate(text), day) << text;
  for (const char* text :
       {"1991-07", "1991/07", "1991/7", "1991 Jul", "Jul 1991", "July-1991", "1991-Jul", "1991 Q3", "1991q3"})
    EXPECT_EQ(SecondsOfDate(text), july) << text;
  const double afternoon = *day + 15 * 3600 + 30 * 60;
  for (const char* text : {"2000/01/31 15:30", "Jan 31 2000 03:30:00 PM", "31 Jan 2000 15:30 UTC", "2000-01-31 15:30:00 GMT",
                           "2000-01-31 16:30 +01:00", "2000-01-31T15:30z", "31.01.2000 3:30 pm"})
    EXPECT_EQ(SecondsOfDate(text), afternoon) << text;
  EXPECT_EQ(SecondsOfDate("2000-01-31 12:00 AM"), day);
}

TEST(SecondsOfDateTest, AnOrderTellsDaysAndMonthsApart) {
  EXPECT_EQ(SecondsOfDate("01/02/2000", DateOrder::kDay), SecondsOfDate("2000-02-01"));
  EXPECT_EQ(SecondsOfDate("01/02/2000", DateOrder::kMonth), SecondsOfDate("2000-01-02"));
  EXPECT_EQ(SecondsOfDate("1-2-2000 06:00", DateOrder::kMonth), *SecondsOfDate("2000-01-02") + 6 * 3600);
  EXPECT_FALSE(SecondsOfDate("31/01/2000", DateOrder::kMonth));
  EXPECT_EQ(OrderIn("01/02/2000"), DateOrder::kNone);
  EXPECT_EQ(OrderIn("31/01/2000"), DateOrder::kDay);
  EXPECT_EQ(OrderIn("01/31/2000"), DateOrder::kMonth);
  for (const char* text : {"2000-01-31", "31.01.2000", "7", "31/31/2000", "walk"}) EXPECT_FALSE(OrderIn(text)) << text;
}

}  // namespace
}  // namespace heed::lab
