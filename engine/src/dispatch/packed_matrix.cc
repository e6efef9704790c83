// Products with a packed matrix for every SIMD target.
#include "heed/packed_matrix.h"

#include <algorithm>

#include "attention/problem.h"
#include "core/arrays.h"
#include "core/checked_integer.h"
#include "core/regions.h"
#include "core/task_loop.h"
#include "core/validation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/packed_matrix.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "simd/tile-inl.h"

// Sizes and the description of a task are the same on every target.
#ifndef HEED_DISPATCH_PACKED_MATRIX_ONCE_
#define HEED_DISPATCH_PACKED_MATRIX_ONCE_
namespace heed::packed {

// Columns of a panel: the widest register tile, four AVX-512 vectors.
constexpr int64_t kPanel = 64;
// Rows of a block: their results, 48 x 64 floats, stay in L1 beside the part of the panel that is read.
constexpr int64_t kRows = 48;

// Some rows of x with some panels.
struct Block {
  View<const float, 2> x;
  View<const float, 1> bias;
  View<float, 2> y;
  const float* panels;
  int64_t first_row, last_row, first_panel, last_panel;  // the last ones do not belong to it
};

}  // namespace heed::packed
#endif

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

void MultiplyBlock(const packed::Block& block) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, attention::kLaneQuantum> d;
  const int64_t rows = block.last_row - block.first_row, in = block.x.extent[1], out = block.y.extent[1];
  alignas(Workspace::kAlignment) float results[packed::kRows * packed::kPanel];
  for (int64_t panel = block.first_panel; panel < block.last_panel; ++panel) {
    Product<decltype(d), float>(d, {block.x.data + block.first_row * block.x.stride[0], block.x.stride[0], block.x.stride[1]},
                                {block.panels + panel * in * packed::kPanel, packed::kPanel}, {rows, in, packed::kPanel},
                                Fresh(results, packed::kPanel));
    const int64_t first = panel * packed::kPanel, columns = std::min(packed::kPanel, out - first);
    for (int64_t r = 0; r < rows; ++r) {
      const float* result = results + r * packed::kPanel;
      const float* bias = block.bias.data + first * block.bias.stride[0];
      float* y = block.y.data + (block.first_row + r) * block.y.stride[0] + first * block.y.stride[1];
      for (int64_t c = 0; c < columns; ++c) {
        y[c * block.y.stride[1]] = block.bias.present() ? result[c] + bias[c * block.bias.stride[0]] : result[c];
      }
    }
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(MultiplyBlock);

namespace {

// Multiply-adds of one task, at least: some ten microseconds of work, below which waking a thread costs more than it brings.
constexpr int64_t kTaskWork = int64_t{1} << 18;

}  // namespace

PackedMatrix::PackedMatrix(View<const float, 2> w) {
  core::CheckPresent("w", w);
  const int64_t panels = attention::DivideUp(w.extent[0], packed::kPanel);
  const int64_t elements = core::CheckedProduct(core::CheckedProduct(panels, packed::kPanel, "w"), w.extent[1], "w");
  panels_.Reserve(static_cast<std::size_t>(core::CheckedProduct(elements, int64_t{sizeof(float)}, "w")));
  out_ = w.extent[0];
  in_ = w.extent[1];
  auto* packed = reinterpret_cast<float*>(panels_.data());
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (int64_t i = 0; i < in_; ++i) {
      for (int64_t c = 0; c < packed::kPanel; ++c) {
        const int64_t row = panel * packed::kPanel + c;
        *packed++ = row < out_ ? w(row, i) : 0.0f;
      }
    }
  }
}

void PackedMatrix::Multiply(View<const float, 2> x, View<const float, 1> bias, View<float, 2> y, Executor& executor) const {
  const int64_t rows = x.extent[0];
  core::Regions regions;
  regions.Read("x", x, {rows, in_}, "[rows, in]");
  if (bias.present()) regions.Read("bias", bias, {out_}, "[out]");
  regions.Write("y", y, {rows, out_}, "[rows, out]");
  regions.CheckApart();

  const int64_t panels = attention::DivideUp(out_, packed::kPanel), row_blocks = attention::DivideUp(rows, packed::kRows);
  const int64_t panel_work = std::max<int64_t>(1, std::min(rows, packed::kRows) * in_ * packed::kPanel);
  const int64_t together = std::clamp<int64_t>(attention::DivideUp(kTaskWork, panel_work), 1, std::max<int64_t>(1, panels));
  const int64_t groups = attention::DivideUp(panels, together);
  const auto* packed = reinterpret_cast<const float*>(panels_.data());
  core::RunTasks(executor, row_blocks * groups, [&](int64_t task) {
    const int64_t row = task / groups * packed::kRows, panel = task % groups * together;
    HWY_DYNAMIC_DISPATCH(MultiplyBlock)
    ({x, bias, y, packed, row, std::min(rows, row + packed::kRows), panel, std::min(panels, panel + together)});
  });
}

}  // namespace heed
#endif
