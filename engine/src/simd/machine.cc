#include "heed/machine.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include "hwy/base.h"
#include "simd/pair_product.h"
#if HWY_ARCH_X86
#include <cpuid.h>

#include <cstring>
#endif

namespace heed {
namespace {

// Figures are of an AMD Zen 4 and an Intel Emerald Rapids; `./dev machine` measures those of another.
//
// bench/engine/instruction_bench: VDPBF16PS, which multiplies and adds twice, takes as long as one fused multiply-add on Zen 4
// and 4.1 times as long on Emerald Rapids, where widened rows are faster.
struct Row {
  const char* kind;
  const char* vendor;  // of CPUID
  bool pair_instruction;
};
constexpr std::array kRows = {Row{"AMD", "AuthenticAMD", true}, Row{"Intel", "GenuineIntel", false}, Row{"other", "", true}};

// bench/engine/attention_bench, 2048 keys and values of width 128, which are 2 MiB: asking for them ahead costs 6 % of the
// forward pass on Emerald Rapids, whose second-level cache holds them. Zen 4's has 1 MiB, and waits for memory where sequences
// are long. Where no such cache is known, its size is taken.
constexpr int64_t kUnknownSecondLevel = 1 << 20;

// `heed bench --suite decode`, Zen 4: asked for ahead, what the last-level cache holds takes 18 % less time, and 128 MiB of
// memory that others share 15 to 20 %; asking 8 KiB ahead gains no more. Emerald Rapids reads both at its limit.
constexpr int64_t kCallFar = 12 << 20, kFewAhead = 4096;

// CPUID's; empty where the processor has none.
std::string Vendor() {
#if HWY_ARCH_X86
  unsigned highest = 0, words[3] = {};
  if (__get_cpuid(0, &highest, &words[0], &words[2], &words[1]) == 0) return {};
  char name[sizeof(words)];
  std::memcpy(name, words, sizeof(words));
  return {name, sizeof(name)};
#else
  return {};
#endif
}

// Linux tells of every cache of a core its level and its size, as "1024K"; of several kinds of cores the first one's are taken.
int64_t SecondLevel() {
  constexpr int kMostCaches = 8;
  for (int cache = 0; cache < kMostCaches; ++cache) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(cache);
    std::ifstream level_file(folder + "/level"), size_file(folder + "/size");
    int64_t level = 0, size = 0;
    char unit = 0;
    if (!(level_file >> level) || level != 2 || !(size_file >> size >> unit)) continue;
    if (size <= 0 || size > (1 << 20)) return 0;
    return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : 0;
  }
  return 0;
}

Machine FindMachine() {
  const std::string vendor = Vendor();
  const Row& row = *std::ranges::find_if(kRows, [&](const Row& one) { return one.vendor == vendor || *one.vendor == 0; });
  const int64_t second_level = SecondLevel();
  return {.kind = row.kind,
          .second_level = second_level,
          .pair_instruction = row.pair_instruction,
          .far = second_level > 0 ? second_level : kUnknownSecondLevel,
          .call_far = kCallFar,
          .few_ahead = kFewAhead};
}

Machine& InUse() {
  static Machine machine = ThisMachine();
  return machine;
}

}  // namespace

const Machine& ThisMachine() {
  static const Machine machine = FindMachine();
  return machine;
}

const Machine& MachineInUse() { return InUse(); }

void UseMachine(const Machine& machine) {
  InUse() = machine;
  simd::UsePairProducts(machine.pair_instruction);
}

}  // namespace heed
