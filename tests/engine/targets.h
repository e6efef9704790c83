// Suites that run once for each SIMD target of this CPU.
#ifndef HEED_TESTS_ENGINE_TARGETS_H_
#define HEED_TESTS_ENGINE_TARGETS_H_

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/attention.h"

namespace heed {

// Whether the test that runs is one of the long ones.
inline bool IsLong() {
  const std::string suite = ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name();
  return suite.starts_with("Long");
}

// Shares a test's types out among the cases of a table: the long tests try each case in every type, the others the first case
// in the first type, the second in the second and so on.
class Turn {
 public:
  // Calls one of the functions, or each.
  template <class... Try>
  void Of(const Try&... tries) {
    std::size_t i = 0;
    const std::size_t own = turn_++ % sizeof...(tries);
    const bool all = IsLong();
    ((all || i == own ? tries() : void(), ++i), ...);
  }

 private:
  std::size_t turn_ = 0;
};

// What runs while a test of the suite does is the target that the test is named after.
class OnTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { UseTarget(GetParam()); }
  void TearDown() override { UseTarget(""); }
};

// The best target and the baseline, whose vectors are the longest and the shortest; then all others.
inline std::vector<std::string> FirstTargets() {
  const std::vector<std::string> all = SupportedTargets();
  return all.size() == 1 ? all : std::vector{all.front(), all.back()};
}
inline std::vector<std::string> FurtherTargets() {
  std::vector<std::string> further = SupportedTargets();
  std::erase_if(further, [](const std::string& target) {
    const auto first = FirstTargets();
    return std::count(first.begin(), first.end(), target) > 0;
  });
  return further;
}

}  // namespace heed

// Instantiates a suite derived from OnTarget. Every run tries the first targets; the long tests try the further ones or, for
// tests that take turns, all of them.
#define HEED_ON_TARGETS(Suite) HEED_FIRST_AND_LONG_TARGETS(Suite, FurtherTargets)
#define HEED_IN_TURN_ON_TARGETS(Suite) HEED_FIRST_AND_LONG_TARGETS(Suite, SupportedTargets)
#define HEED_FIRST_AND_LONG_TARGETS(Suite, LongTargetsOf)                                    \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite, ::testing::ValuesIn(::heed::FirstTargets()),      \
                           [](const auto& info) { return info.param; });                     \
  INSTANTIATE_TEST_SUITE_P(LongTargets, Suite, ::testing::ValuesIn(::heed::LongTargetsOf()), \
                           [](const auto& info) { return info.param; })

#endif  // HEED_TESTS_ENGINE_TARGETS_H_
