#include "attention/plan.h"

#include <cmath>

#include "simd/tuning.h"

namespace heed::attention {

Plan::Plan(const Attention& attention, const Shape& shape)
    : attention_(attention),
      shape_(shape),
      scale_(attention.scale ? *attention.scale : 1.0 / std::sqrt(static_cast<double>(shape.head_dim))),
      key_offset_(attention.key_positions.offset.value_or(0)) {
  const int64_t aligned = attention.causal == Causal::kBottomRight ? key_offset_ + shape.kv_len - shape.q_len : 0;
  query_offset_ = attention.query_positions.offset.value_or(aligned);
}

QueryRow Plan::Row(int64_t b, int64_t i) const {
  const auto& query_lengths = attention_.query_lengths.values;
  if (query_lengths.present() && i >= query_lengths(b, 0)) return {};
  int64_t end = shape_.kv_len;
  const auto& key_lengths = attention_.key_lengths.values;
  if (key_lengths.present()) end = std::min(end, key_lengths(b, key_lengths.extent[1] == 1 ? 0 : i));
  if (attention_.causal != Causal::kNone) end = std::min(end, i - first_offset() + 1);
  if (end > 0) return {{0, end}, false};
  if (attention_.empty_row == EmptyRow::kUniform) return {{0, shape_.kv_len}, true};
  return {};
}

namespace {

// Widens what a panel reaches, and narrows where it needs no mask, by one row.
void Include(const QueryRow& row, PanelRange& range, bool& any) {
  if (!row.active()) return;
  // Where a row looks at keys that are not its own, every tile takes mask code.
  const KeyRange interior = row.uniform ? KeyRange{row.keys.end, row.keys.end} : row.keys;
  if (!any) {
    range = {row.keys, interior};
    any = true;
    return;
  }
  range.reach = {std::min(range.reach.begin, row.keys.begin), std::max(range.reach.end, row.keys.end)};
  range.interior = {std::max(range.interior.begin, interior.begin), std::min(range.interior.end, interior.end)};
}

}  // namespace

PanelRange Plan::Panel(int64_t b, int64_t q_begin, int64_t q_count, QueryRow* rows) const {
  PanelRange range;
  bool any = false;
  for (int64_t w = 0; w < q_count; ++w) {
    const bool same = w > 0 && SameForAllQueries();
    rows[w] = same ? rows[w - 1] : Row(b, q_begin + w);
    if (!same) Include(rows[w], range, any);
  }
  return range;
}

KeyRange Plan::Reach(int64_t b, int64_t q_begin, int64_t q_count) const {
  PanelRange range;
  bool any = false;
  for (int64_t i = q_begin; i < q_begin + q_count; ++i) Include(Row(b, i), range, any);
  return range.reach;
}

bool Plan::SameForAllQueries() const {
  return attention_.causal == Causal::kNone && !attention_.query_lengths.present() &&
         (!attention_.key_lengths.present() || attention_.key_lengths.values.extent[1] == 1);
}

Cut CutWork(const Shape& shape, int element_bytes) {
  const simd::TileSizes sizes = simd::ChooseTiles(shape.q_len, shape.head_dim, element_bytes);
  Cut cut{};
  cut.panel = sizes.panel;
  cut.tile = sizes.tile;
  cut.panels = DivideUp(shape.q_len, cut.panel);
  cut.chunk = std::max(sizes.min_chunk, RoundUp(DivideUp(shape.kv_len, simd::kMaxChunks), cut.tile));
  cut.chunks = std::max<int64_t>(1, DivideUp(shape.kv_len, cut.chunk));
  cut.head_dim = RoundUp(shape.head_dim, kLaneQuantum);
  cut.value_dim = RoundUp(shape.value_dim, kLaneQuantum);
  return cut;
}

}  // namespace heed::attention
