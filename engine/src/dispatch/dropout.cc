// Dropout of arrays for every SIMD target.
#include "heed/dropout.h"

#include <algorithm>
#include <string>

#include "attention/problem.h"
#include "core/arrays.h"
#include "core/validation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/dropout.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "simd/philox-inl.h"

// Elements in groups, in the same order on every target: eight rows of sixteen, whose counters are those of sixteen queries
// with eight keys.
#ifndef HEED_DISPATCH_DROPOUT_GROUP
#define HEED_DISPATCH_DROPOUT_GROUP
namespace heed {
constexpr int64_t kDropoutRow = 16, kDropoutRows = 8, kDropoutGroup = kDropoutRow * kDropoutRows;
}  // namespace heed
#endif

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One group that begins with element `first` of the array.
template <class T>
void DropGroup(const DropoutStream& stream, T scale, int64_t first, const T* x, T* y) {
  const hn::CappedTag<T, kDropoutRow> d;
  const auto factor = hn::Set(d, scale);
  for (int64_t w = 0; w < kDropoutRow; w += static_cast<int64_t>(hn::Lanes(d))) {
    hn::Mask<decltype(d)> kept[kDropoutRows];
    KeptMasks(d, stream, first / kDropoutRows + w, 0, kept);
    for (int64_t m = 0; m < kDropoutRows; ++m) {
      const int64_t at = m * kDropoutRow + w;
      hn::StoreU(hn::IfThenElseZero(kept[m], hn::Mul(factor, hn::LoadU(d, x + at))), d, y + at);
    }
  }
}

// Elements begin .. end - 1; begin is a multiple of the group.
template <class T>
void DropRange(const DropoutStream& stream, T scale, int64_t begin, int64_t end, const T* x, T* y) {
  for (; begin + kDropoutGroup <= end; begin += kDropoutGroup) DropGroup(stream, scale, begin, x + begin, y + begin);
  if (begin == end) return;
  T rest[kDropoutGroup] = {};
  std::copy(x + begin, x + end, rest);
  DropGroup<T>(stream, scale, begin, rest, rest);
  std::copy_n(rest, end - begin, y + begin);
}

template <class T>
void DropElementRange(const Dropout& dropout, int64_t begin, int64_t end, const T* x, T* y) {
  const attention::DropoutThreshold realised = attention::RealisedDropout(dropout);
  const DropoutStream stream{dropout.seed, static_cast<uint32_t>(dropout.batch_offset), 0, realised.of_65536};
  DropRange(stream, static_cast<T>(realised.kept_scale), begin, end, x, y);
}
void DropFloats(const Dropout& dropout, int64_t begin, int64_t end, const float* x, float* y) {
  DropElementRange(dropout, begin, end, x, y);
}
void DropDoubles(const Dropout& dropout, int64_t begin, int64_t end, const double* x, double* y) {
  DropElementRange(dropout, begin, end, x, y);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(DropFloats);
HWY_EXPORT(DropDoubles);

namespace {

// Elements of one task: some ten microseconds of work.
constexpr int64_t kTaskElements = 256 * kDropoutGroup;

void DropRange(const Dropout& dropout, int64_t begin, int64_t end, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(DropFloats)(dropout, begin, end, x, y);
}
void DropRange(const Dropout& dropout, int64_t begin, int64_t end, const double* x, double* y) {
  HWY_DYNAMIC_DISPATCH(DropDoubles)(dropout, begin, end, x, y);
}

}  // namespace

template <class T>
void DropElements(const Dropout& dropout, const T* x, T* y, int64_t count, Executor& executor) {
  core::CheckDropout(dropout);
  if (count < 0) core::Refuse("count", "expected at least 0, got " + std::to_string(count));
  if (count > 0 && (!x || !y)) core::Refuse("x, y", "no memory behind " + std::to_string(count) + " elements");
  const int64_t tasks = (count + kTaskElements - 1) / kTaskElements;
  const auto run = [&](int64_t task) {
    DropRange(dropout, task * kTaskElements, std::min(count, (task + 1) * kTaskElements), x, y);
  };
  if (tasks == 1) {
    run(0);
  } else if (tasks > 1) {
    executor.ParallelFor(tasks, run);
  }
}

template void DropElements(const Dropout&, const float*, float*, int64_t, Executor&);
template void DropElements(const Dropout&, const double*, double*, int64_t, Executor&);

}  // namespace heed
#endif
