#include "heed/machine.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/executor.h"
#include "reference/cases.h"
#include "reference/trial.h"

namespace heed {
namespace {

// Both ends of every entry: what is asked for ahead always and never, near and far.
std::vector<Machine> Extremes() {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::vector<Machine> machines;
  const auto add = [&](auto Machine::*entry, auto value) {
    machines.push_back(ThisMachine());
    machines.back().*entry = value;
  };
  add(&Machine::pair_instruction, !ThisMachine().pair_instruction);
  add(&Machine::far, int64_t{0}), add(&Machine::far, kNever);
  add(&Machine::call_far, int64_t{0}), add(&Machine::call_far, kNever);
  machines.push_back(machines[3]), machines.back().few_ahead = 64;
  machines.push_back(machines[3]), machines.back().few_ahead = 1 << 16;
  return machines;
}

reference::Case Of(const Shape& shape, const char* name) {
  reference::Case c;
  c.name = name, c.shape = shape, c.causal = Causal::kBottomRight;
  return c;
}

class MachineTest : public ::testing::Test {
 protected:
  void TearDown() override { UseMachine(ThisMachine()); }
};

TEST_F(MachineTest, HasItsRow) {
  const Machine& machine = ThisMachine();
  EXPECT_TRUE(machine.kind == "AMD" || machine.kind == "Intel" || machine.kind == "other") << machine.kind;
  EXPECT_EQ(machine.pair_instruction, machine.kind != "Intel");
  EXPECT_EQ(machine.far, machine.second_level > 0 ? machine.second_level : 1 << 20);
  EXPECT_EQ(MachineInUse(), machine);
}

TEST_F(MachineTest, TheBestTargetIsTheOneThatPays) {
  const std::vector<std::string> all = SupportedTargets();
  Machine other = ThisMachine();
  other.pair_instruction = false;
  UseMachine(other);
  EXPECT_EQ(SupportedTargets().size(), all.size());
  EXPECT_FALSE(SupportedTargets().front().ends_with("_BF16")) << SupportedTargets().front();
  other.pair_instruction = true;
  UseMachine(other);
  if (all.size() > 1 && all[1] + "_BF16" == all[0]) {
    EXPECT_EQ(SupportedTargets(), all);
  }
}

// No bit of a result depends on an entry: calls of all lengths and types, of few queries too.
TEST_F(MachineTest, EveryEntryGivesTheSameBits) {
  std::vector<reference::Case> cases = {
      Of({1, 4, 2, 130, 150, 64, 64}, "both passes"),
      Of({2, 4, 1, 1, 700, 64, 32}, "one query a head"),
      Of({1, 8, 1, 1, 300, 17, 16}, "eight queries a key head"),
      Of({1, 2, 2, 5, 90, 33, 31}, "odd widths"),
  };
  cases.push_back(cases.front());
  cases.back().name = "fused", cases.back().precision = Precision::kFused;
  SerialExecutor serial;
  const auto hashes = [&] {
    std::vector<uint64_t> all;
    for (const reference::Case& c : cases) {
      all.push_back(reference::HashTrial<float>(c, 3, serial));
      all.push_back(reference::HashTrial<BFloat16>(c, 3, serial));
      all.push_back(reference::HashTrial<Float16>(c, 3, serial));
    }
    return all;
  };
  const std::vector<uint64_t> expected = hashes();
  for (const Machine& machine : Extremes()) {
    UseMachine(machine);
    EXPECT_EQ(hashes(), expected) << "pairs " << machine.pair_instruction << ", far " << machine.far << ", call_far "
                                  << machine.call_far << ", few_ahead " << machine.few_ahead;
  }
}

}  // namespace
}  // namespace heed
