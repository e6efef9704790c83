#include "lab/report/environment.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <torch/version.h>

#include "heed/attention.h"
#include "heed/executor.h"

namespace heed::lab {
namespace {

TEST(EnvironmentTest, IsThisProcess) {
  const Environment environment = ThisEnvironment();
  EXPECT_EQ(environment.libtorch, TORCH_VERSION);
  EXPECT_EQ(environment.compiler, __VERSION__);
  EXPECT_EQ(environment.simd_targets, SupportedTargets());
  EXPECT_EQ(environment.threads_available, AvailableThreads());
  EXPECT_EQ(std::ranges::count(environment.version, '.'), 2) << environment.version;
  EXPECT_EQ(MachineName().find(environment.cpu + ", "), 0u);
}

TEST(EnvironmentTest, JsonHoldsAllOfIt) {
  const Environment environment = {"1.2.3", "2.13.0", "g++", "a \"fast\" one", {"AVX3", "AVX2"}, 7, "0123456789abcdef"};
  EXPECT_EQ(ToJson(environment).dump(), R"({"version":"1.2.3","libtorch":"2.13.0","compiler":"g++","cpu":"a \"fast\" one",)"
                                        R"("simd_targets":["AVX3","AVX2"],"threads_available":7,"build":"0123456789abcdef"})");
}

// What changes numbers is part of a kept result's settings; what does not (threads), is none.
TEST(EnvironmentTest, AKeptResultDependsOnVersionLibTorchProcessorTargetAndBuild) {
  const Environment environment = {"1.2.3", "2.13.0", "g++", "cpu", {"AVX3"}, 7, "a"};
  const auto settings = ResultSettings(environment);
  const auto changed = [&](auto change) {
    Environment other = environment;
    change(other);
    return ResultSettings(other) != settings;
  };
  EXPECT_TRUE(changed([](Environment& e) { e.version = "1.2.4"; }));
  EXPECT_TRUE(changed([](Environment& e) { e.libtorch = "2.14.0"; }));
  EXPECT_TRUE(changed([](Environment& e) { e.cpu = "another"; }));
  EXPECT_TRUE(changed([](Environment& e) { e.simd_targets = {"AVX2"}; }));
  EXPECT_TRUE(changed([](Environment& e) { e.build = "b"; }));
  EXPECT_FALSE(changed([](Environment& e) { e.threads_available = 1; }));
}

}  // namespace
}  // namespace heed::lab
