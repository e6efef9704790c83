// Which SIMD targets were compiled in and which of them runs.
#include "hwy/targets.h"

#include <string>

#include "heed/attention.h"
#include "hwy/highway.h"

namespace heed {

std::vector<std::string> SupportedTargets() {
  std::vector<std::string> names;
  // A lower bit is a better target.
  const int64_t runnable = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t bits = runnable; bits != 0; bits &= bits - 1) names.emplace_back(hwy::TargetName(bits & -bits));
  return names;
}

void UseTarget(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  if (!name.empty()) {
    std::string known;
    int64_t chosen = 0;
    for (int64_t bits = hwy::SupportedTargets() & HWY_TARGETS; bits != 0; bits &= bits - 1) {
      const std::string candidate = hwy::TargetName(bits & -bits);
      known += (known.empty() ? "" : ", ") + candidate;
      if (candidate == name) chosen = bits & -bits;
    }
    if (chosen == 0) throw InvalidArgument("target: expected one of " + known + ", got " + name);
    hwy::SetSupportedTargetsForTest(chosen);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace heed
