// Properties of a machine that change the speed of calls and no bit of their results; `heed info` prints them.
#ifndef HEED_MACHINE_H_
#define HEED_MACHINE_H_

#include <cstdint>
#include <string>

namespace heed {

// Sizes are in bytes. engine/src/simd/machine.cc has the table, and says what was measured where.
struct Machine {
  std::string kind;  // the row of the table: "AMD", "Intel" or "other"
  // A core's second-level cache, as the system reports it; 0: it does not.
  int64_t second_level = 0;
  // Whether pairs of bfloat16 numbers are multiplied by the processor's instruction where it has one (VDPBF16PS), rather than
  // as two fused multiply-adds of widened numbers.
  bool pair_instruction = true;
  // Where the keys and values that a panel of queries meets have more bytes than this, the kernel asks for the next tile.
  int64_t far = 0;
  // Where the keys and values of a call have more bytes than this, few queries ask for those `few_ahead` bytes further on.
  int64_t call_far = 0, few_ahead = 0;

  bool operator==(const Machine&) const = default;
};

// This machine's row, with its own second-level cache.
const Machine& ThisMachine();
// What calls take: ThisMachine(), unless UseMachine said otherwise.
const Machine& MachineInUse();
// For every later call in this process; UseTarget decides anew on the instruction. For tests and benches; do not call it while
// other threads compute.
void UseMachine(const Machine& machine);

}  // namespace heed

#endif  // HEED_MACHINE_H_
