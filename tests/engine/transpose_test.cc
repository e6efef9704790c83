// Transposes of every size around that of a block and of a vector, on every target; nothing outside the result may change.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transpose_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// transpose(from, from_stride, to, to_stride) makes factor times the transpose of rows x columns entries. Both sides begin one
// entry behind an aligned address.
template <class T, class Call>
std::string TransposeFault(int64_t rows, int64_t columns, T factor, const Call& transpose) {
  const int64_t from_stride = columns + 3, to_stride = rows + 2;
  std::vector<T> from(static_cast<std::size_t>(rows * from_stride + 1)), to(static_cast<std::size_t>(columns * to_stride + 1));
  for (std::size_t x = 0; x < from.size(); ++x) from[x] = static_cast<T>(x + 1);
  transpose(from.data() + 1, from_stride, to.data() + 1, to_stride);
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < to_stride; ++r) {
      const T expected = r < rows ? factor * static_cast<T>(r * from_stride + c + 2) : T{0};
      if (to[static_cast<std::size_t>(c * to_stride + r + 1)] != expected)
        return std::to_string(rows) + " x " + std::to_string(columns) + ": row " + std::to_string(r) + ", column " +
               std::to_string(c);
    }
  return to[0] == T{0} ? "" : "the entry before the result";
}

template <class T>
std::string OfNumbers(int64_t rows, int64_t columns) {
  return TransposeFault<T>(rows, columns, T{3}, [&](const T* from, int64_t from_stride, T* to, int64_t to_stride) {
    Transpose(from, from_stride, rows, columns, T{3}, to, to_stride);
  });
}

std::string FirstFault() {
  for (int64_t rows = 0; rows <= 37; ++rows)
    for (const int64_t columns : {0, 1, 2, 3, 4, 5, 8, 15, 16, 33}) {
      std::string fault = OfNumbers<float>(rows, columns);
      if (fault.empty()) fault = OfNumbers<double>(rows, columns);
      if (fault.empty())
        fault = TransposeFault<uint32_t>(rows, columns, 1U,
                                         [&](const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
                                           TransposeBits(from, from_stride, rows, columns, to, to_stride);
                                         });
      if (!fault.empty()) return fault;
    }
  return {};
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "targets.h"

namespace heed {
HWY_EXPORT(FirstFault);

namespace {

class TransposeOf : public OnTarget {};

TEST_P(TransposeOf, AnySizeIsExactAndTouchesNothingElse) { EXPECT_EQ(HWY_DYNAMIC_DISPATCH(FirstFault)(), ""); }

HEED_ON_TARGETS(TransposeOf);

}  // namespace
}  // namespace heed
#endif
