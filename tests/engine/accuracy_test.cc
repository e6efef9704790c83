// The kernels against the double reference: every case of the table, every SIMD target this CPU has, both types.
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "reference/cases.h"
#include "reference/trial.h"

namespace heed {
namespace {

using reference::Case;

class EachTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { UseTarget(GetParam()); }
  void TearDown() override { UseTarget(""); }
};

template <class T>
void Check(const Case& c, uint64_t seed, const char* type) {
  SerialExecutor serial;
  const reference::TrialErrors errors = reference::RunTrial<T>(c, seed, serial);
  EXPECT_LT(errors.Largest(), reference::kErrorLimit)
      << "case \"" << c.name << "\", " << type << ", seed " << seed << ": " << errors.Text();
}

TEST_P(EachTarget, AgreesWithTheReferenceOnTheTable) {
  for (const Case& c : reference::Cases()) {
    Check<float>(c, 1, "float");
    Check<double>(c, 1, "double");
    Check<BFloat16>(c, 1, "bfloat16");
    Check<Float16>(c, 1, "float16");
  }
}

TEST_P(EachTarget, AgreesWithTheReferenceOnRandomCases) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const Case c = reference::RandomCase(seed);
    Check<float>(c, seed, "float");
    Check<double>(c, seed, "double");
    Check<BFloat16>(c, seed, "bfloat16");
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EachTarget, ::testing::ValuesIn(SupportedTargets()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace heed
