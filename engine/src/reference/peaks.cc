#include "reference/peaks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/peaks.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Runs `rounds` of multiply-adds; returns the floating-point operations done (two a lane and FMA). Twelve chains: two units of
// four cycles latency need eight, and twelve still fit in 16 registers.
template <class T>
double Spin(int64_t rounds) {
  const hn::ScalableTag<T> d;
  constexpr int kChains = 12;
  auto a = hn::Set(d, T(0.999)), b = hn::Set(d, T(0.001));
  hn::Vec<decltype(d)> sums[kChains];
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) sums[c] = hn::Set(d, static_cast<T>(c));
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = hn::MulAdd(sums[c], a, b);
  }
  auto total = hn::Zero(d);
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) total = hn::Add(total, sums[c]);
  // The result is used, so that the loop is not removed.
  const double zero = static_cast<double>(hn::GetLane(total)) == 12345.0 ? 1.0 : 0.0;
  return zero + 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

double SpinFloat(int64_t rounds) { return Spin<float>(rounds); }
double SpinDouble(int64_t rounds) { return Spin<double>(rounds); }

// Eight chains of additions keep more loads in flight than a core has buffers for.
float SumOf(const float* data, int64_t count) {
  const hn::ScalableTag<float> d;
  constexpr int kChains = 8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kChains];
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) sums[c] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kChains * lanes <= count; i += kChains * lanes) {
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) sums[c] = hn::Add(sums[c], hn::LoadU(d, data + i + c * lanes));
  }
  auto total = hn::Zero(d);
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) total = hn::Add(total, sums[c]);
  float sum = hn::GetLane(hn::SumOfLanes(d, total));
  for (; i < count; ++i) sum += data[i];
  return sum;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(SpinFloat);
HWY_EXPORT(SpinDouble);
HWY_EXPORT(SumOf);

double reference::FmaPeak(int element_bytes, double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kRounds = 200000;  // about a millisecond
  double best = 0, spent = 0;
  while (spent < seconds) {
    const auto start = Clock::now();
    const double operations =
        element_bytes == 4 ? HWY_DYNAMIC_DISPATCH(SpinFloat)(kRounds) : HWY_DYNAMIC_DISPATCH(SpinDouble)(kRounds);
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, operations / elapsed);
    spent += elapsed;
  }
  return best;
}

float reference::ReadAll(const float* data, int64_t count) { return HWY_DYNAMIC_DISPATCH(SumOf)(data, count); }

}  // namespace heed
#endif
