// Dropout of arrays for every SIMD target.
#include "heed/dropout.h"

#include <algorithm>
#include <limits>
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

// Elements begin .. end - 1 of a group, of which x and y are the first.
template <class T>
void DropPart(const DropoutStream& stream, T scale, int64_t begin, int64_t end, const T* x, T* y) {
  const int64_t before = begin % kGroup;
  T group[kGroup] = {};
  std::copy_n(x, end - begin, group + before);
  DropGroup<T>(stream, scale, begin - before, group, group);
  std::copy_n(group + before, end - begin, y);
}

// Elements begin .. end - 1 of an array, of which x and y are the first.
template <class T>
void DropRange(const Dropout& dropout, int64_t begin, int64_t end, const T* x, T* y) {
  const attention::DropoutThreshold realised = attention::RealisedDropout(dropout);
  const DropoutStream stream = StreamOf({.seed = dropout.seed, .batch_offset = dropout.batch_offset}, realised, 0, 0);
  const T scale = static_cast<T>(realised.kept_scale);
  while (begin < end) {
    const int64_t next = std::min(end, begin - begin % kGroup + kGroup);
    if (next - begin == kGroup) {
      DropGroup(stream, scale, begin, x, y);
    } else {
      DropPart(stream, scale, begin, next, x, y);
    }
    x += next - begin, y += next - begin;
    begin = next;
  }
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
void DropElements(const Dropout& dropout, const T* x, T* y, int64_t count, Executor& executor, int64_t first) {
  if (count < 0) core::Refuse("count", "expected at least 0, got " + std::to_string(count));
  if (first < 0 || first > std::numeric_limits<int64_t>::max() - count) {
    core::Refuse("first", "expected at least 0 and first + count an int64, got " + std::to_string(first));
  }
  core::CheckElementCounters(dropout, first + count);
  const auto of_x = View<const T, 1>::Contiguous(x, {count});
  const auto of_y = View<T, 1>::Contiguous(y, {count});
  core::CheckPresent("x", of_x);
  core::CheckPresent("y", of_y);
  if (x != y) core::CheckApart("y", of_y, "x", of_x);
  // Tasks begin where they would without `first`, so that all but two have whole groups.
  const int64_t first_task = first / kTaskElements, last = first + count;
  core::RunTasks(executor, attention::DivideUp(last, kTaskElements) - first_task, [&](int64_t task) {
    const int64_t begin = std::max(first, (first_task + task) * kTaskElements);
    const int64_t end = std::min(last, (first_task + task + 1) * kTaskElements);
    DropRange(dropout, begin, end, x + (begin - first), y + (begin - first));
  });
}

template void DropElements(const Dropout&, const float*, float*, int64_t, Executor&, int64_t);
template void DropElements(const Dropout&, const double*, double*, int64_t, Executor&, int64_t);

}  // namespace heed
#endif
