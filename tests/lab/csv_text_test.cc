#include "lab/report/figure.h"

#include <limits>

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

TEST(CsvTextTest, QuotesWhatWouldEndACellOrALine) {
  CsvText csv;
  csv.Row("plain", "a,b", "a\"b", "a\nb", "a\rb", "");
  EXPECT_EQ(csv.text(), "plain,\"a,b\",\"a\"\"b\",\"a\nb\",\"a\rb\",\n");
}

TEST(CsvTextTest, NumbersReadBackAsTheSame) {
  CsvText csv;
  csv.Row(int64_t{-3}, uint64_t{1} << 63, 0.1, 1.0 / 3, 1e300, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(csv.text(), "-3,9223372036854775808,0.1,0.3333333333333333,1e+300,nan\n");
}

TEST(CsvTextTest, LinesFollowEachOther) {
  CsvText csv;
  csv.Line({"a", "b"});
  csv.Row(1, 2);
  EXPECT_EQ(csv.text(), "a,b\n1,2\n");
}

}  // namespace
}  // namespace heed::lab
