// What the table of machines rests on (engine/src/simd/machine.cc): the time of an instruction over that of a fused
// multiply-add of whole vectors, each in a loop of sixteen independent chains.
//
//   instruction_bench
//
// Prints a line an instruction, the least of many short rounds that take turns: "VDPBF16PS 1.00".
#include <cstdio>

#include "hwy/base.h"

#if HWY_ARCH_X86_64
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>

namespace {

constexpr int kChains = 16, kRounds = 400;
constexpr int64_t kSteps = 2000;  // a round takes some 20 microseconds

volatile float sink;  // so that a loop is not left out

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512bf16")

// step(chain, one) makes the next of a chain.
template <class Vector, class Step>
HWY_INLINE void RunChains(const Step& step) {
  Vector one = Vector{} + 1.0F, chains[kChains];
  asm volatile("" : "+v"(one));
#pragma GCC unroll 16
  for (Vector& chain : chains) chain = one;
  for (int64_t i = 0; i < kSteps; ++i)
#pragma GCC unroll 16
    for (Vector& chain : chains) step(chain, one);
  sink = chains[0][0];
}

// In assembler: compilers add moves of registers, which take the time of an instruction.
HWY_NOINLINE void FullFma() {
  RunChains<__m512>([](__m512& x, const __m512& one) { asm volatile("vfmadd231ps %1, %1, %0" : "+v"(x) : "v"(one)); });
}
HWY_NOINLINE void HalfFma() {
  RunChains<__m256>([](__m256& x, const __m256& one) { asm volatile("vfmadd231ps %1, %1, %0" : "+v"(x) : "v"(one)); });
}
HWY_NOINLINE void PairProducts() {
  RunChains<__m512>([](__m512& x, const __m512& one) { asm volatile("vdpbf16ps %1, %1, %0" : "+v"(x) : "v"(one)); });
}
HWY_NOINLINE void Scale() {
  RunChains<__m512>([](__m512& x, const __m512& one) { asm volatile("vscalefps %1, %0, %0" : "+v"(x) : "v"(one)); });
}
HWY_NOINLINE void Round() {
  RunChains<__m512>([](__m512& x, const __m512&) { asm volatile("vrndscaleps $0, %0, %0" : "+v"(x)); });
}
HWY_NOINLINE void Maximum() {
  RunChains<__m512>([](__m512& x, const __m512& one) { asm volatile("vmaxps %1, %0, %0" : "+v"(x) : "v"(one)); });
}

HWY_POP_ATTRIBUTES

struct Instruction {
  const char* name;
  bool present;
  void (*run)();
};

int Run() {
  const bool wide = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (!wide || __builtin_cpu_supports("fma") == 0) {
    std::puts("this processor has no AVX-512");
    return 0;
  }
  const Instruction instructions[] = {
      {"VFMADD-512", true, &FullFma},
      {"VFMADD-256", true, &HalfFma},
      {"VDPBF16PS", __builtin_cpu_supports("avx512bf16") != 0, &PairProducts},
      {"VSCALEFPS", true, &Scale},
      {"VRNDSCALEPS", true, &Round},
      {"VMAXPS", true, &Maximum},
  };
  std::array<double, std::size(instructions)> least;
  least.fill(std::numeric_limits<double>::infinity());
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < std::size(instructions); ++i) {
      if (!instructions[i].present) continue;
      const auto begin = std::chrono::steady_clock::now();
      instructions[i].run();
      least[i] = std::min(least[i], std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  for (std::size_t i = 0; i < std::size(instructions); ++i)
    if (instructions[i].present) std::printf("%s %.2f\n", instructions[i].name, least[i] / least[0]);
  return 0;
}

}  // namespace

int main() { return Run(); }
#else
int main() { std::puts("this processor has no AVX-512"); }
#endif
