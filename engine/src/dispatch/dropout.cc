// Dropout of arrays for every SIMD target.
#include "heed/dropout.h"

#include <algorithm>
#include <string>

#include "attention/problem.h"
#include "core/arrays.h"
#include "core/regions.h"
#include "core/task_loop.h"
#include "core/validation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/dropout.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/dropout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements in groups, in the same order on every target: as many rows as keys share a call of the generator, of as many
// elements as the widest vector has. Their counters are those of kRow queries with kRows keys.
constexpr int64_t kRow = attention::kLaneQuantum, kRows = attention::kDropoutKeys, kGroup = kRow * kRows;

// One group that begins with element `first` of the array.
template <class T>
void DropGroup(const DropoutStream& stream, T scale, int64_t first, const T* x, T* y) {
  const hn::CappedTag<T, kRow> d;
  const auto factor = hn::Set(d, scale);
  for (int64_t w = 0; w < kRow; w += static_cast<int64_t>(hn::Lanes(d))) {
    hn::Mask<decltype(d)> dropped[kRows];
    DroppedMasks(d, stream, first / kRows + w, 0, dropped);
    for (int64_t m = 0; m < kRows; ++m) {
      const int64_t at = m * kRow + w;
      hn::StoreU(hn::IfThenZeroElse(dropped[m], hn::Mul(factor, hn::LoadU(d, x + at))), d, y + at);
    }
  }
}

// Elements begin .. end - 1; begin is a multiple of the group.
template <class T>
void DropRange(const Dropout& dropout, int64_t begin, int64_t end, const T* x, T* y) {
  const attention::DropoutThreshold realised = attention::RealisedDropout(dropout);
  const DropoutStream stream = StreamOf({.seed = dropout.seed, .batch_offset = dropout.batch_offset}, realised, 0, 0);
  const T scale = static_cast<T>(realised.kept_scale);
  for (; begin + kGroup <= end; begin += kGroup) DropGroup(stream, scale, begin, x + begin, y + begin);
  if (begin == end) return;
  T rest[kGroup] = {};
  std::copy(x + begin, x + end, rest);
  DropGroup<T>(stream, scale, begin, rest, rest);
  std::copy_n(rest, end - begin, y + begin);
}

void DropFloats(const Dropout& dropout, int64_t begin, int64_t end, const float* x, float* y) {
  DropRange(dropout, begin, end, x, y);
}
void DropDoubles(const Dropout& dropout, int64_t begin, int64_t end, const double* x, double* y) {
  DropRange(dropout, begin, end, x, y);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(DropFloats);
HWY_EXPORT(DropDoubles);

namespace {

// Elements of one task: some ten microseconds of work, and whole groups.
constexpr int64_t kTaskElements = int64_t{1} << 15;
static_assert(kTaskElements % (attention::kLaneQuantum * attention::kDropoutKeys) == 0);

void DropRange(const Dropout& dropout, int64_t begin, int64_t end, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(DropFloats)(dropout, begin, end, x, y);
}
void DropRange(const Dropout& dropout, int64_t begin, int64_t end, const double* x, double* y) {
  HWY_DYNAMIC_DISPATCH(DropDoubles)(dropout, begin, end, x, y);
}

}  // namespace

template <class T>
void DropElements(const Dropout& dropout, const T* x, T* y, int64_t count, Executor& executor) {
  if (count < 0) core::Refuse("count", "expected at least 0, got " + std::to_string(count));
  core::CheckElementCounters(dropout, count);
  const auto of_x = View<const T, 1>::Contiguous(x, {count});
  const auto of_y = View<T, 1>::Contiguous(y, {count});
  core::CheckPresent("x", of_x);
  core::CheckPresent("y", of_y);
  if (x != y) core::CheckApart("y", of_y, "x", of_x);
  core::RunTasks(executor, attention::DivideUp(count, kTaskElements), [&](int64_t task) {
    DropRange(dropout, task * kTaskElements, std::min(count, (task + 1) * kTaskElements), x, y);
  });
}

template void DropElements(const Dropout&, const float*, float*, int64_t, Executor&);
template void DropElements(const Dropout&, const double*, double*, int64_t, Executor&);

}  // namespace heed
#endif
