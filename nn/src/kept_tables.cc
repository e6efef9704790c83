#include "kept_tables.h"

#include <algorithm>
#include <bit>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

namespace heed::nn {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 16;  // 32 MiB for 64 pairs in float32; rows beyond are made for each call
constexpr int64_t kFewestRows = 64;

at::Tensor Counted(int64_t first, int64_t steps) { return at::arange(first, first + steps, at::kLong); }

}  // namespace

RotaryTables KeptTables::Rows(const Make& make, int64_t first, int64_t steps, std::optional<int64_t> last,
                              at::ScalarType type) {
  if (first < 0 || first > kMostRows - steps) return make(Counted(first, steps));
  const int64_t end = first + steps;
  const std::scoped_lock lock(mutex_);
  Kept& kept = kept_[type];
  if (!kept.tables.cos.defined() || kept.last != last || kept.tables.cos.size(0) < end) {
    // Another length of the text makes these rows worthless: then no more of them than one call asks for.
    const auto doubled = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(end)));
    const int64_t rows = last ? std::max(end, *last + 1) : std::max(kFewestRows, doubled);
    const c10::InferenceMode off(false);  // tensors of that mode could not be saved for a backward pass
    kept = {last, make(Counted(0, std::min(rows, kMostRows)))};
  }
  return {kept.tables.cos.narrow(0, first, steps), kept.tables.sin.narrow(0, first, steps)};
}

}  // namespace heed::nn
