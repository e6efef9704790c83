// Suites that run once for each SIMD target of this CPU.
#ifndef HEED_TESTS_ENGINE_TARGETS_H_
#define HEED_TESTS_ENGINE_TARGETS_H_

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/attention.h"

namespace heed {

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

// Instantiates a suite derived from OnTarget: the first targets in every run, the further ones among the long tests.
#define HEED_ON_TARGETS(Suite)                                                                \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite, ::testing::ValuesIn(::heed::FirstTargets()),       \
                           [](const auto& info) { return info.param; });                      \
  INSTANTIATE_TEST_SUITE_P(LongTargets, Suite, ::testing::ValuesIn(::heed::FurtherTargets()), \
                           [](const auto& info) { return info.param; })

#endif  // HEED_TESTS_ENGINE_TARGETS_H_
