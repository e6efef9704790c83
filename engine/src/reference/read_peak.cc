#include "reference/read_peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/read_peak.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
HWY_EXPORT(SumOf);

float reference::ReadAll(const float* data, int64_t count) { return HWY_DYNAMIC_DISPATCH(SumOf)(data, count); }

}  // namespace heed
#endif
