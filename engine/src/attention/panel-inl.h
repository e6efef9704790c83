// Moving rows between the caller's memory and the layout of the kernels: queries side by side in SIMD lanes.
#if defined(HEED_ATTENTION_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_PANEL_INL_H_
#undef HEED_ATTENTION_PANEL_INL_H_
#else
#define HEED_ATTENTION_PANEL_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "attention/problem.h"
#include "hwy/highway.h"
#include "simd/tile-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of one head: row i, element c at data[i * row_stride + c * element_stride].
template <class T>
struct HeadRows {
  T* data;
  int64_t row_stride, element_stride;

  T* Row(int64_t i) const { return data + i * row_stride; }
};

template <class T>
HeadRows<T> RowsOf(const View<T, 4>& view, int64_t b, int64_t h) {
  return {view.data + b * view.stride[0] + h * view.stride[1], view.stride[2], view.stride[3]};
}

// `count` rows from `begin` with neighbouring elements: the caller's own where they are, else a copy in `scratch`.
template <class T>
HeadRows<const T> UnitRows(const HeadRows<const T>& rows, int64_t begin, int64_t count, int64_t width, T* scratch) {
  if (rows.element_stride == 1 || width == 1) return {rows.Row(begin), rows.row_stride, 1};
  for (int64_t j = 0; j < count; ++j)
    for (int64_t c = 0; c < width; ++c) scratch[j * width + c] = rows.Row(begin + j)[c * rows.element_stride];
  return {scratch, width, 1};
}

// The lanes of one panel: which query stands in each and what it looks at.
struct Panel {
  int64_t b, h;
  int64_t begin, count;  // queries begin .. begin + count - 1 in lanes 0 .. count - 1
  int64_t width;         // lanes
  attention::PanelRange range;
};

template <class T>
Panel MakePanel(const attention::Plan& plan, const attention::Cut& cut, int64_t b, int64_t h, int64_t index,
                attention::LaneScratch<T>& lanes) {
  const int64_t begin = index * cut.panel;
  Panel panel{b, h, begin, std::min(cut.panel, plan.shape().q_len - begin), cut.panel, {}};
  panel.range = plan.Panel(b, begin, panel.count, lanes.keys);
  std::fill(lanes.keys + panel.count, lanes.keys + panel.width, attention::QueryRow{});
  return panel;
}

// Rows that a panel is packed from: those without an active query are left out (as zeros), and the uniform ones when asked.
template <class T>
struct PanelSource {
  HeadRows<const T> rows;
  int64_t elements;
  T factor;
  bool skip_uniform;

  bool Takes(const attention::QueryRow& query) const { return query.active() && !(skip_uniform && query.uniform); }
  // Whether every query of the panel is taken and rows have no gaps, so that blocks can be moved whole.
  bool Whole(const Panel& panel, const attention::LaneScratch<T>& lanes) const {
    return rows.element_stride == 1 &&
           std::all_of(lanes.keys, lanes.keys + panel.count, [this](const attention::QueryRow& query) { return Takes(query); });
  }
};

// columns[c, w] = factor * row of lane w, element c.
template <class T>
void PackColumns(const Panel& panel, const attention::LaneScratch<T>& lanes, const PanelSource<T>& source, T* columns) {
  if (source.Whole(panel, lanes)) {
    Transpose(source.rows.Row(panel.begin), source.rows.row_stride, panel.count, source.elements, source.factor, columns,
              panel.width);
    if (panel.count == panel.width) return;
    for (int64_t c = 0; c < source.elements; ++c)
      std::fill(columns + c * panel.width + panel.count, columns + (c + 1) * panel.width, T{0});
    return;
  }
  for (int64_t w = 0; w < panel.width; ++w) {
    const T* row = source.Takes(lanes.keys[w]) ? source.rows.Row(panel.begin + w) : nullptr;
    for (int64_t c = 0; c < source.elements; ++c)
      columns[c * panel.width + w] = row ? source.factor * row[c * source.rows.element_stride] : T{0};
  }
}

// packed[w, c] = factor * row of lane w, element c, as rows of `padded` elements; padding 0.
template <class T>
void PackRows(const Panel& panel, const attention::LaneScratch<T>& lanes, const PanelSource<T>& source, int64_t padded,
              T* packed) {
  for (int64_t w = 0; w < panel.width; ++w) {
    T* to = packed + w * padded;
    if (!source.Takes(lanes.keys[w])) {
      std::fill(to, to + padded, T{0});
      continue;
    }
    const T* row = source.rows.Row(panel.begin + w);
    if (source.rows.element_stride == 1) {
      for (int64_t c = 0; c < source.elements; ++c) to[c] = source.factor * row[c];
    } else {
      for (int64_t c = 0; c < source.elements; ++c) to[c] = source.factor * row[c * source.rows.element_stride];
    }
    std::fill(to + source.elements, to + padded, T{0});
  }
}

// The inner product of an array with the first of `row`'s rows; the order of the sum depends on the target alone.
template <class D, class T>
T Dot(D d, const T* a, const HeadRows<const T>& row, int64_t width) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> sums = hn::Zero(d);
  int64_t c = 0;
  if (row.element_stride == 1)
    for (; c + lanes <= width; c += lanes) sums = hn::MulAdd(hn::LoadU(d, a + c), hn::LoadU(d, row.data + c), sums);
  T rest = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; c < width; ++c) rest += a[c] * row.data[c * row.element_stride];
  return rest;
}

// Whether all of `count` rows are free of NaN and infinity.
template <class D, class T>
bool AllFinite(D d, const HeadRows<const T>& rows, int64_t count, int64_t width) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> vectors = hn::Zero(d);
  T rest = 0;
  for (int64_t j = 0; j < count; ++j) {
    const T* row = rows.Row(j);
    int64_t c = 0;
    for (; c + lanes <= width; c += lanes) vectors = hn::MulAdd(hn::LoadU(d, row + c), hn::Zero(d), vectors);
    for (; c < width; ++c) rest += row[c] * T{0};
  }
  return hn::AllTrue(d, hn::Eq(vectors, hn::Zero(d))) && rest == 0;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
