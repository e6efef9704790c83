// Products of register tiles against sums in plain loops, for every number of rows, steps and columns around those of a tile,
// on every target. All numbers are small and whole, so that sums are exact in any order.
#include <cstdint>
#include <string>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "core/arena.h"
#include "heed/workspace.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// What is wrong with a product of columns that are read along rows or along steps, or nothing. The target stands in rows with
// room behind their columns, and nothing but the product's columns may change.
template <class T>
std::string ProductFault(int64_t rows, int64_t steps, int64_t columns, bool along_rows, bool accumulates) {
  const hn::ScalableTag<T> d;
  const int64_t width = ProductWidth(d, columns), stride = (width + 15) / 16 * 16 + 16;
  Workspace workspace(static_cast<std::size_t>((rows * steps + (steps + rows) * stride) * sizeof(T)) + 1024);
  core::Arena arena(workspace.data());
  T *a = arena.Take<T>(rows, steps), *b = arena.Take<T>(steps, stride), *c = arena.Take<T>(rows, stride);
  for (int64_t x = 0; x < rows * steps; ++x) a[x] = static_cast<T>(x % 7 - 3);
  for (int64_t x = 0; x < steps * stride; ++x) b[x] = static_cast<T>(x % 5 - 2);
  for (int64_t x = 0; x < rows * stride; ++x) c[x] = static_cast<T>(x % 11);
  const Scalars<T> scalars = along_rows ? Scalars<T>{a, steps, 1} : Scalars<T>{a, 1, rows};
  Product(d, scalars, {b, stride}, {rows, steps, width}, Target<T>{c, stride, accumulates});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t w = 0; w < stride; ++w) {
      const T before = static_cast<T>((r * stride + w) % 11);
      T sum = accumulates || w >= width ? before : T{0};
      for (int64_t step = 0; step < steps && w < width; ++step)
        sum += a[r * scalars.row_stride + step * scalars.step_stride] * b[step * stride + w];
      if (c[r * stride + w] != sum) return "row " + std::to_string(r) + ", column " + std::to_string(w);
    }
  return {};
}

template <class T>
std::string FirstProductFault() {
  for (int64_t rows = 0; rows <= 27; ++rows)
    for (const int64_t steps : {0, 1, 2, 7})
      for (const int64_t columns : {1, 8, 16, 17, 31, 48, 100})
        for (const bool along_rows : {true, false})
          for (const bool accumulates : {true, false})
            if (const std::string fault = ProductFault<T>(rows, steps, columns, along_rows, accumulates); !fault.empty())
              return std::to_string(rows) + " x " + std::to_string(steps) + " x " + std::to_string(columns) + ": " + fault;
  return {};
}

std::string FirstFaultInFloats() { return FirstProductFault<float>(); }
std::string FirstFaultInDoubles() { return FirstProductFault<double>(); }

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "targets.h"

namespace heed {
HWY_EXPORT(FirstFaultInFloats);
HWY_EXPORT(FirstFaultInDoubles);

namespace {

class Tile : public OnTarget {};

TEST_P(Tile, MultipliesAnySize) {
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(FirstFaultInFloats)(), "");
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(FirstFaultInDoubles)(), "");
}

HEED_ON_TARGETS(Tile);

}  // namespace
}  // namespace heed
#endif
