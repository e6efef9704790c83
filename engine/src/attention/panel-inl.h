// A panel: neighbouring queries side by side in SIMD lanes, and moving their rows into that layout.
#if defined(HEED_ATTENTION_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_PANEL_INL_H_
#undef HEED_ATTENTION_PANEL_INL_H_
#else
#define HEED_ATTENTION_PANEL_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>

#include "attention/problem.h"
#include "attention/rows-inl.h"
#include "heed/machine.h"
#include "hwy/highway.h"
#include "simd/tile-inl.h"
#include "simd/transpose-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What layouts and masks take for granted: panels and padded widths are whole vectors, and a panel's lanes fit a word of bits.
static_assert(attention::kLaneQuantum % hn::MaxLanes(hn::ScalableTag<float>()) == 0);
static_assert(simd::kWidestPanelBytes / sizeof(float) <= 64);

// The queries begin .. begin + count - 1 of `heads` neighbouring heads: lane x * count + w holds query begin + w of head
// head + x. The lanes after them are idle.
struct Panel {
  int64_t b, head, heads;
  int64_t begin, count;
  int64_t width;  // lanes: as many as the queries need, in whole quanta
  attention::PanelRange range;

  int64_t used() const { return heads * count; }
};

// Which query of which head stands in each lane.
template <class T>
void NumberLanes(const Panel& panel, attention::Lanes<T>& lanes) {
  for (int64_t x = 0; x < panel.heads; ++x) {
    const int64_t first = x * panel.count;
    std::iota(lanes.query + first, lanes.query + first + panel.count, panel.begin);
    std::fill_n(lanes.head + first, panel.count, panel.head + x);
  }
  for (int64_t w = panel.used(); w < panel.width; ++w) {
    lanes.rows[w] = {};
    lanes.query[w] = 0;
    lanes.head[w] = panel.head;
  }
}

template <class T>
void RankLanes(const Panel& panel, attention::Lanes<T>& lanes) {
  for (int64_t w = 0; w < panel.width; ++w) {
    lanes.rank_first[w] = static_cast<attention::Rank<T>>(lanes.rows[w].ranks.begin);
    lanes.rank_last[w] = static_cast<attention::Rank<T>>(lanes.rows[w].ranks.end);
  }
}

// Panel `index` of the group of heads that begins with `head`. A batch row with few queries has empty panels at its end.
template <class T>
Panel MakePanel(const attention::Plan& plan, const attention::Cut& cut, int64_t b, int64_t head, int64_t index,
                attention::Lanes<T>& lanes) {
  const int64_t begin = index * cut.panel;
  Panel panel{.b = b,
              .head = head,
              .heads = cut.group,
              .begin = begin,
              .count = std::clamp<int64_t>(plan.QueryCount(b) - begin, 0, cut.panel),
              .width = 0,
              .range = {}};
  panel.width = attention::RoundUp(std::max<int64_t>(panel.used(), 1), attention::kLaneQuantum);
  panel.range = plan.Panel(b, {head, head + cut.group}, begin, panel.count, lanes.rows);
  lanes.uniform = panel.range.uniform;
  lanes.idle = panel.range.idle | (attention::LowBits(panel.width) & ~attention::LowBits(panel.used()));
  lanes.hidden = 0;
  NumberLanes(panel, lanes);
  if (plan.order().KeyRanks(b)) RankLanes(panel, lanes);
  return panel;
}

// The number of lane w among numbers of rows [B, Hq, Nq].
template <class Number, class T>
Number& RowNumber(const attention::Plan& plan, const Panel& panel, const attention::Lanes<T>& lanes,
                  const View<Number, 3>& rows, int64_t w) {
  return rows(plan.ArrayRow(panel.b), lanes.head[w], plan.FirstQuery(panel.b) + lanes.query[w]);
}

// The numbers of all lanes; `otherwise` where a lane is idle, or nothing is given.
template <class T>
void ReadRowNumbers(const attention::Plan& plan, const Panel& panel, const attention::Lanes<T>& lanes,
                    const View<const T, 3>& rows, T otherwise, T* numbers) {
  const int64_t count = rows.present() ? panel.used() : 0;
  for (int64_t w = 0; w < count; ++w) numbers[w] = RowNumber(plan, panel, lanes, rows, w);
  std::fill(numbers + count, numbers + panel.width, otherwise);
  for (uint64_t idle = lanes.idle; idle != 0; idle &= idle - 1) numbers[std::countr_zero(idle)] = otherwise;
}

// Hides the lanes without weights: those without a query, and those whose log-sum-exp is -inf because their query is padding,
// sees no key or has scores of -inf alone. Their scores, bias or gradient may be NaN, which no weight of 0 takes away.
template <class T>
void HideRowsWithoutWeights(const Panel& panel, const T* lse, attention::Lanes<T>& lanes) {
  for (int64_t w = 0; w < panel.used(); ++w)
    if (lse[w] == -std::numeric_limits<T>::infinity()) lanes.idle |= uint64_t{1} << w;
  lanes.hidden = lanes.idle;
}

// Of the keys that a panel reaches among some, those between tiles that are hidden from all of it.
inline attention::KeyRange NarrowPanel(const attention::Plan& plan, const Panel& panel, const attention::KeyRange& keys,
                                       int64_t tile) {
  const attention::PairBlock pairs{
      panel.b, {panel.head, panel.head + panel.heads}, {panel.begin, panel.begin + panel.count}, keys};
  return plan.Trim(panel.range, pairs, tile);
}

// Whether so many keys and values come from farther than the second-level cache whenever they are walked.
inline bool ComeFromFar(const attention::KeyRange& walked, const Shape& shape, int64_t element_bytes) {
  return (walked.end - walked.begin) * (shape.head_dim + shape.value_dim) * element_bytes > MachineInUse().far;
}

// Whether rows of queries that look at all keys alike are packed or left out.
enum class Uniform { kTake, kSkip };

// Rows that a panel is packed from: those without an active query are left out (as zeros), and the uniform ones when asked.
template <class T>
struct PanelSource {
  core::Input operand;
  const attention::Plan& plan;
  T factor;
  Uniform uniform;
  T* scratch;  // [panel, elements]

  int64_t elements() const { return operand.extent[3]; }

  // The lanes that are left out.
  uint64_t Left(const attention::Lanes<T>& lanes) const {
    return lanes.idle | (uniform == Uniform::kSkip ? lanes.uniform : uint64_t{0});
  }
  // The rows of head x of the panel.
  HeadRows<const T> Rows(const Panel& panel, int64_t x) const {
    const auto rows = QueriesOf(plan, operand, panel.b, panel.head + x);
    return Native<T>(rows, panel.begin, panel.count, elements(), false, scratch + x * panel.count * elements());
  }
};

// packed[w, c] = factor * row of lane w, element c, as rows of `padded` elements for the first `room` lanes; padding and lanes
// without a query 0. packed may be the source's scratch, without padding.
template <class T>
void PackRows(const Panel& panel, const attention::Lanes<T>& lanes, const PanelSource<T>& source, int64_t padded, int64_t room,
              T* packed) {
  const uint64_t left = source.Left(lanes);
  for (int64_t x = 0; x < panel.heads; ++x) {
    const HeadRows<const T> rows = source.Rows(panel, x);
    for (int64_t i = 0; i < panel.count; ++i) {
      const int64_t w = x * panel.count + i;
      T* to = packed + w * padded;
      if (left >> w & 1) {
        std::fill(to, to + padded, T{0});
        continue;
      }
      const T* row = rows.Row(i);
      if (rows.element_stride == 1) {
        ScaleRow(row, source.elements(), source.factor, to);
      } else {
        for (int64_t c = 0; c < source.elements(); ++c) to[c] = source.factor * row[c * rows.element_stride];
      }
      std::fill(to + source.elements(), to + padded, T{0});
    }
  }
  std::fill(packed + panel.used() * padded, packed + room * padded, T{0});
}

// Whether the rows of each head of a panel are whole blocks of a transpose. The rest it moves element by element, so that it
// takes the rows of all heads together where there is one.
template <class T>
bool AreBlocks(const Panel& panel) {
  return panel.count % kTransposeBlock<T> == 0;
}

// columns[c, w] = factor * row of lane w, element c.
template <class T>
void PackColumns(const Panel& panel, const attention::Lanes<T>& lanes, const PanelSource<T>& source, T* columns) {
  if (!AreBlocks<T>(panel) || panel.used() < panel.width) {
    PackRows(panel, lanes, source, source.elements(), panel.width, source.scratch);
    return Transpose(source.scratch, source.elements(), panel.width, source.elements(), T{1}, columns, panel.width);
  }
  for (int64_t x = 0; x < panel.heads; ++x) {
    const HeadRows<const T> rows = source.Rows(panel, x);
    const int64_t first = x * panel.count;
    const uint64_t left = source.Left(lanes) >> first;
    if (rows.element_stride == 1 && (left & attention::LowBits(panel.count)) == 0) {
      Transpose(rows.data, rows.row_stride, panel.count, source.elements(), source.factor, columns + first, panel.width);
      continue;
    }
    for (int64_t w = 0; w < panel.count; ++w) {
      const T* row = (left >> w & 1) == 0 ? rows.Row(w) : nullptr;
      for (int64_t c = 0; c < source.elements(); ++c)
        columns[c * panel.width + first + w] = row ? source.factor * row[c * rows.element_stride] : T{0};
    }
  }
}

// Whether all of `count` rows are free of NaN and infinity.
template <class D, class T>
bool AllFinite(D d, const HeadRows<const T>& rows, int64_t count, int64_t width) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), whole = width / lanes * lanes;
  // Four rows at a time: one sum alone waits for itself.
  hn::Vec<D> v0 = hn::Zero(d), v1 = v0, v2 = v0, v3 = v0;
  const auto add = [&](int64_t j, int64_t c, hn::Vec<D>& sum)
                       HWY_ATTR { sum = hn::MulAdd(hn::LoadU(d, rows.Row(j) + c), hn::Zero(d), sum); };
  int64_t j = 0;
  for (; j + 4 <= count; j += 4)
    for (int64_t c = 0; c < whole; c += lanes) {
      add(j, c, v0);
      add(j + 1, c, v1);
      add(j + 2, c, v2);
      add(j + 3, c, v3);
    }
  for (; j < count; ++j)
    for (int64_t c = 0; c < whole; c += lanes) add(j, c, v0);
  T rest = 0;
  for (j = 0; whole < width && j < count; ++j)
    for (int64_t c = whole; c < width; ++c) rest += rows.Row(j)[c] * T{0};
  return hn::AllTrue(d, hn::Eq(hn::Add(hn::Add(v0, v1), hn::Add(v2, v3)), hn::Zero(d))) && rest == 0;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
