#include "lab/options/fields.h"

#include <limits>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

// What is refused; empty where nothing is.
TEST(RequireKnownTest, TakesSomeOfTheKnownInAnyOrder) {
  EXPECT_EQ(WhatOf<InvalidArgument>([] { RequireKnown("encoders", {"gru"}, {"attention", "gru", "lstm"}); }), "");
  EXPECT_EQ(WhatOf<InvalidArgument>([] {
              RequireKnown("encoders", {"lstm", "attention", "gru"}, {"attention", "gru", "lstm"});
            }),
            "");
}

TEST(RequireKnownTest, NamesTheOptionAndWhatThereIsToChoose) {
  const auto error = [](const std::vector<std::string>& chosen) {
    return WhatOf<InvalidArgument>([&] { RequireKnown("encoders", chosen, {"attention", "gru", "lstm"}); });
  };
  EXPECT_EQ(error({}), "encoders: none given; choose among attention, gru or lstm");
  EXPECT_EQ(error({"gru", "mamba"}), "encoders: 'mamba' is unknown; choose among attention, gru or lstm");
  EXPECT_EQ(error({"GRU"}), "encoders: 'GRU' is unknown; choose among attention, gru or lstm");
  EXPECT_EQ(error({""}), "encoders: '' is unknown; choose among attention, gru or lstm");
  EXPECT_EQ(error({"gru", "lstm", "gru"}), "encoders: 'gru' is given twice");
  EXPECT_EQ(WhatOf<InvalidArgument>([] { RequireKnown("task", {"a"}, {"copy"}); }), "task: 'a' is unknown; choose among copy");
  EXPECT_EQ(WhatOf<InvalidArgument>([] {
              RequireKnown("task", {"a"}, {"copy", "adding"});
            }),
            "task: 'a' is unknown; choose among copy or adding");
}

TEST(RequireRangeTest, AllowsBothEnds) {
  for (const int64_t value : {3, 4, 7})
    EXPECT_EQ(WhatOf<InvalidArgument>([&] { RequireRange("seeds", value, 3, 7); }), "") << value;
  EXPECT_EQ(WhatOf<InvalidArgument>([] { RequireRange("seeds", 2, 3, 7); }), "seeds: 2 is outside 3..7");
  EXPECT_EQ(WhatOf<InvalidArgument>([] { RequireRange("seeds", 8, 3, 7); }), "seeds: 8 is outside 3..7");
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(WhatOf<InvalidArgument>([] { RequireRange("seeds", kLeast, 0, 7); }),
            "seeds: -9223372036854775808 is outside 0..7");
}

TEST(RequireHeadsTest, NamesWhatDoesNotFit) {
  const auto error = [](int64_t width, int64_t heads, const std::vector<std::string>& positions) {
    return WhatOf<InvalidArgument>([&] { RequireHeads(width, heads, positions); });
  };
  EXPECT_EQ(error(16, 4, {"none", "rotary"}), "");
  EXPECT_EQ(error(16, 16, {"none", "alibi"}), "") << "heads of one feature";
  EXPECT_EQ(error(16, 0, {}), "heads: 0 is outside 1..16");
  EXPECT_EQ(error(16, 17, {}), "heads: 17 is outside 1..16");
  EXPECT_EQ(error(16, 3, {}), "width: 16 is not even and divisible by 3 heads");
  EXPECT_EQ(error(15, 3, {}), "width: 15 is not even and divisible by 3 heads");
  EXPECT_EQ(error(12, 4, {"alibi", "rotary"}),
            "width: 12 leaves each of 4 heads 3 features; rotary turns pairs of them and needs an even number");
  EXPECT_EQ(error(12, 4, {"alibi", "sinusoidal"}), "");
}

}  // namespace
}  // namespace heed::lab
