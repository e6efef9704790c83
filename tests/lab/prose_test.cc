#include "lab/report/prose.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

using namespace fmt::literals;

TEST(ProseTest, LinesOfATextAreJoinedAndFilledIn) {
  const Prose tell("first one\n  Take {leader}:\n  it has {loss:.2f}.\n\nsecond\n  Nothing to fill in.");
  EXPECT_EQ(tell("first one", "loss"_a = 1.125, "leader"_a = "the GRU", "more"_a = 1), "Take the GRU: it has 1.12.");
  EXPECT_EQ(tell("second"), "Nothing to fill in.");
  EXPECT_THROW(tell("third"), std::out_of_range);
  EXPECT_THROW(tell("first one", "loss"_a = 1.0), fmt::format_error);
}

}  // namespace
}  // namespace heed::lab
