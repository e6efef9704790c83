// What the target at hand can do, asked by capability: a target that a newer Highway adds gets what its registers allow.
// Highway numbers the targets of one architecture from the best up.
#if defined(HEED_SIMD_CAPABILITIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_CAPABILITIES_INL_H_
#undef HEED_SIMD_CAPABILITIES_INL_H_
#else
#define HEED_SIMD_CAPABILITIES_INL_H_
#endif

#include "hwy/highway.h"

#undef HEED_SIMD_AVX512
#undef HEED_SIMD_REGISTERS_32
#undef HEED_SIMD_FLOAT16

// AVX-512 F, BW, CD, DQ and VL.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#define HEED_SIMD_AVX512 1
#else
#define HEED_SIMD_AVX512 0
#endif

// 32 vector registers.
#if HEED_SIMD_AVX512 || (HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_SCALAR)
#define HEED_SIMD_REGISTERS_32 1
#else
#define HEED_SIMD_REGISTERS_32 0
#endif

// Conversions between float16 and float that round to nearest, ties to even.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define HEED_SIMD_FLOAT16 1
#else
#define HEED_SIMD_FLOAT16 0
#endif

#endif  // per-target include guard
