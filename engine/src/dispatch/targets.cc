// Which SIMD targets were compiled in and which of them runs.
#include "hwy/targets.h"

#include <string>

#include "heed/attention.h"
#include "heed/machine.h"
#include "hwy/highway.h"
#include "simd/pair_product.h"

namespace heed {
namespace {

struct Target {
  std::string name;
  int64_t bit;  // Highway's
  bool pairs;   // whether products of pairs are the processor's own
};

// Those that run here, best first.
std::vector<Target> Targets() {
  std::vector<Target> targets;
  // A lower bit is a better target.
  for (int64_t bits = hwy::SupportedTargets() & HWY_TARGETS; bits != 0; bits &= bits - 1) {
    const int64_t bit = bits & -bits;
    const std::string name = hwy::TargetName(bit);
#if HWY_ARCH_X86
    if (simd::HasPairProducts() && bit <= HWY_AVX3) {
      targets.push_back({name, bit, false});
      targets.insert(targets.end() - (MachineInUse().pair_instruction ? 1 : 0), {name + "_BF16", bit, true});
      continue;
    }
#endif
    targets.push_back({name, bit, false});
  }
  return targets;
}

}  // namespace

std::vector<std::string> SupportedTargets() {
  std::vector<std::string> names;
  for (const Target& target : Targets()) names.push_back(target.name);
  return names;
}

void UseTarget(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  simd::UsePairProducts(MachineInUse().pair_instruction);
  if (!name.empty()) {
    std::string known;
    const Target* chosen = nullptr;
    const std::vector<Target> targets = Targets();
    for (const Target& target : targets) {
      known += (known.empty() ? "" : ", ") + target.name;
      if (target.name == name) chosen = &target;
    }
    if (!chosen) throw InvalidArgument("target: expected one of " + known + ", got " + name);
    hwy::SetSupportedTargetsForTest(chosen->bit);
    simd::UsePairProducts(chosen->pairs);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace heed
