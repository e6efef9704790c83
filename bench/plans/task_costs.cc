#include "bench/plans/task_costs.h"

#include <algorithm>
#include <string>

#include "core/checked_integer.h"
#include "core/refuse.h"

namespace heed::plans {

using attention::ChunkPlace;
using attention::KeyRange;
using attention::PanelPlace;

void CheckTasks(int64_t tasks) {
  constexpr int64_t kMost = int64_t{1} << 23;
  if (tasks > kMost)
    core::Refuse("shape", "expected a plan of at most " + std::to_string(kMost) + " tasks, got " + std::to_string(tasks));
}

PanelWorks::PanelWorks(const Attention& attention, const attention::Plan& plan, const attention::Cut& cut, PartOf* part,
                       int64_t pieces)
    : plan_(plan),
      cut_(cut),
      part_(part),
      pieces_(pieces),
      heads_alike_(!attention.mask.present() && !plan.hides()),
      rows_alike_(heads_alike_ && !attention.key_lengths.present() && !attention.query_lengths.present() &&
                  !attention.prefix_lengths.present() && !attention.packed.present() && !plan.order().listed()) {
  CheckTasks(core::CheckedProduct(cut.panels, pieces, "shape"));
}

const PanelWork& PanelWorks::Of(const PanelPlace& place, int64_t piece) {
  const bool held = !works_.empty() && (rows_alike_ || (place.b == b_ && (heads_alike_ || place.head == head_)));
  if (!held) Fill(place.b, place.head);
  return works_[static_cast<std::size_t>(place.index * pieces_ + piece)];
}

void PanelWorks::Fill(int64_t b, int64_t head) {
  b_ = b;
  head_ = head;
  works_.assign(static_cast<std::size_t>(cut_.panels * pieces_), {});
  std::vector<attention::QueryRow> rows(static_cast<std::size_t>(cut_.panel));
  for (int64_t index = 0; index < cut_.panels; ++index) {
    const int64_t begin = index * cut_.panel, count = std::min(cut_.panel, plan_.QueryCount(b) - begin);
    if (count <= 0) return;
    const KeyRange heads{head, head + cut_.group}, queries{begin, begin + count};
    const attention::PanelRange range = plan_.Panel(b, heads, begin, count, rows.data());
    const int64_t lanes = cut_.group * count;
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      const KeyRange reach = part_(range.reach, piece, cut_);
      if (reach.empty()) continue;
      const KeyRange keys = plan_.Trim(range, {b, heads, queries, reach}, cut_.tile);
      if (keys.empty()) continue;
      PanelWork& work = works_[static_cast<std::size_t>(index * pieces_ + piece)];
      work.keys = keys.end - keys.begin;
      if (range.idle == 0 && !range.NeedsMask(keys.begin, keys.end)) {
        work.pairs = lanes * work.keys;
        continue;
      }
      for (int64_t w = 0; w < lanes; ++w) {
        const KeyRange& own = rows[static_cast<std::size_t>(w)].keys;
        work.pairs += std::max<int64_t>(0, std::min(own.end, keys.end) - std::max(own.begin, keys.begin));
      }
    }
  }
}

int64_t ForwardCosts::Queries(const PanelPlace& place) const {
  const int64_t left = facts_.plan.QueryCount(place.b) - place.index * facts_.cut.panel;
  return facts_.cut.group * std::clamp<int64_t>(left, 0, facts_.cut.panel);
}

int64_t ForwardCosts::OutputBytes(const PanelPlace& place) const {
  return Queries(place) * (facts_.plan.shape().value_dim * facts_.element_bytes + facts_.sum_bytes);
}

TaskCost ForwardCosts::Of(const ForwardTask& task) {
  const Shape& shape = facts_.plan.shape();
  const PanelWork& work = works_.Of(task.place, task.split);
  return {.pairs = work.pairs,
          .bytes_read =
              (Queries(task.place) * shape.head_dim + work.keys * (shape.head_dim + shape.value_dim)) * facts_.element_bytes,
          .bytes_written = facts_.cut.splits > 1 ? part_bytes_ : OutputBytes(task.place)};
}

TaskCost ForwardCosts::OfMerge(const PanelPlace& place) const {
  return {.pairs = 0, .bytes_read = facts_.cut.splits * part_bytes_, .bytes_written = OutputBytes(place)};
}

int64_t BackwardCosts::QueriesOf(int64_t b, int64_t index) const {
  return std::clamp<int64_t>(facts_.plan.QueryCount(b) - index * facts_.cut.panel, 0, facts_.cut.panel);
}

int64_t BackwardCosts::KeysOf(int64_t b, int64_t chunk) const {
  return std::clamp<int64_t>(facts_.plan.KeyCount(b) - chunk * facts_.cut.chunk, 0, facts_.cut.chunk);
}

TaskCost BackwardCosts::Of(const BackwardTasks& tasks, int64_t place) {
  TaskCost cost;
  tasks.ForEachPart(place, [&](const ChunkPlace& chunk) { Add(chunk, cost); });
  return cost;
}

void BackwardCosts::Add(const ChunkPlace& chunk, TaskCost& cost) {
  const Shape& shape = facts_.plan.shape();
  const attention::Cut& cut = facts_.cut;
  const int64_t group = shape.q_heads / shape.kv_heads, keys = KeysOf(chunk.b, chunk.chunk);
  const int64_t d_query_bytes =
      shape.head_dim * (narrow() || (parts_ && chunk.chunk > 0) ? facts_.sum_bytes : facts_.element_bytes);
  const auto [begin, end] = attention::PanelsOfPiece(cut, group, chunk.piece);
  bool sees = false;
  for (int64_t panel = begin; panel < end; ++panel) {
    const PanelPlace place{chunk.b, attention::FirstHead(cut, chunk.kv_head, group, panel), panel % cut.panels};
    const PanelWork& work = works_.Of(place, chunk.chunk);
    const int64_t queries = cut.group * QueriesOf(chunk.b, place.index);
    if (work.keys > 0 || chunk.chunk == 0) cost.bytes_written += queries * d_query_bytes;
    if (work.keys == 0) continue;
    sees = true;
    cost.pairs += work.pairs;
    cost.bytes_read += queries * ((shape.head_dim + 2 * shape.value_dim) * facts_.element_bytes + facts_.sum_bytes);
    if (chunk.chunk > 0 && !parts_) cost.bytes_read += queries * d_query_bytes;
  }
  if (sees) cost.bytes_read += keys * (shape.head_dim + shape.value_dim) * facts_.element_bytes;
  if (apart_ == Apart::kPieces) {
    if (sees) cost.bytes_written += keys * (cut.head_dim + cut.value_dim) * facts_.sum_bytes;
  } else if (chunk.piece + 1 == cut.pieces) {
    cost.bytes_written += keys * (shape.head_dim + shape.value_dim) * facts_.element_bytes;
  }
}

bool BackwardCosts::Sees(int64_t b, int64_t kv_head, int64_t chunk, int64_t piece) {
  const int64_t group = facts_.plan.shape().q_heads / facts_.plan.shape().kv_heads;
  const auto [begin, end] = attention::PanelsOfPiece(facts_.cut, group, piece);
  for (int64_t panel = begin; panel < end; ++panel)
    if (works_.Of({b, attention::FirstHead(facts_.cut, kv_head, group, panel), panel % facts_.cut.panels}, chunk).keys > 0)
      return true;
  return false;
}

TaskCost BackwardCosts::OfFinish(const FinishTasks& tasks, int64_t task) {
  const Shape& shape = facts_.plan.shape();
  const attention::Cut& cut = facts_.cut;
  TaskCost cost;
  const auto queries = [&](int64_t b, int64_t h, int64_t first, int64_t last) {
    for (int64_t index = first; index < last; ++index) {
      const int64_t elements = QueriesOf(b, index) * shape.head_dim;
      const int64_t sum_bytes = narrow() ? facts_.sum_bytes : facts_.element_bytes;
      int64_t parts = 0;
      const PanelPlace place{b, h / cut.group * cut.group, index};
      for (int64_t chunk = 1; parts_ && chunk < cut.chunks; ++chunk) parts += works_.Of(place, chunk).keys > 0 ? 1 : 0;
      cost.bytes_read += elements * (parts * facts_.sum_bytes + (parts > 0 || narrow() ? sum_bytes : 0));
      if (parts > 0 || narrow()) cost.bytes_written += elements * facts_.element_bytes;
    }
  };
  const auto keys = [&](int64_t b, int64_t kv_head, int64_t chunk) {
    int64_t pieces = 0;
    for (int64_t piece = 0; piece < cut.pieces; ++piece) pieces += Sees(b, kv_head, chunk, piece) ? 1 : 0;
    const int64_t rows = KeysOf(b, chunk);
    cost.bytes_read += rows * pieces * (cut.head_dim + cut.value_dim) * facts_.sum_bytes;
    cost.bytes_written += rows * (shape.head_dim + shape.value_dim) * facts_.element_bytes;
  };
  tasks.Run(task, queries, keys);
  return cost;
}

}  // namespace heed::plans
