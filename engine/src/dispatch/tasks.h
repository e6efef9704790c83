// The tasks of a call's steps, and in which order they are begun.
#ifndef HEED_DISPATCH_TASKS_H_
#define HEED_DISPATCH_TASKS_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "attention/problem.h"
#include "core/checked_integer.h"
#include "position/scheme.h"
#include "simd/tuning.h"

namespace heed::dispatch {

// In which order the tasks of a step are begun, which changes who computes what and when, and no result: as they are numbered,
// or the longest first: where workers get few tasks each, what is begun last should be short.
class TaskOrder {
 public:
  TaskOrder() = default;
  // uneven: whether tasks may differ in their work.
  TaskOrder(int64_t tasks, int workers, bool uneven)
      : tasks_(uneven && workers > simd::kFewWorkers && tasks <= simd::kOrderedTasks * workers ? tasks : 0) {}

  // Memory for an order of its own, if it has one.
  void Lay(core::Arena& arena) {
    if (tasks_ > 0) places_ = arena.Take<Place>(tasks_);
  }
  // estimate(task): its work in any unit.
  template <class Estimate>
  void Sort(const Estimate& estimate) {
    if (!places_) return;
    for (int64_t task = 0; task < tasks_; ++task) places_[task] = {estimate(task), task};
    std::sort(places_, places_ + tasks_,
              [](const Place& a, const Place& b) { return a.work != b.work ? a.work > b.work : a.task < b.task; });
  }
  int64_t operator[](int64_t place) const { return places_ ? places_[place].task : place; }

 private:
  struct Place {
    int64_t work, task;
  };
  int64_t tasks_ = 0;
  Place* places_ = nullptr;
};

struct ForwardTask {
  int64_t panel = 0;  // among those of all rows and groups of heads
  int64_t split = 0;
  attention::PanelPlace place{};
};

// Of a forward call: panels of queries, or splits of their keys where panels are split.
class ForwardTasks {
 public:
  // Throws InvalidArgument where the tasks cannot be counted.
  ForwardTasks(const Shape& shape, const attention::Cut& cut, int workers, bool uneven)
      : cut_(cut), groups_(shape.q_heads / cut.group) {
    const int64_t rows = core::CheckedProduct(shape.batch, groups_, "q");
    panels_ = core::CheckedProduct(rows, cut.panels, "q");
    count_ = core::CheckedProduct(panels_, cut.splits, "q");
    order_ = TaskOrder(count_, workers, uneven);
  }

  int64_t count() const { return count_; }
  int64_t panels() const { return panels_; }

  // Memory for the order, and the order itself; both before the first task.
  void LayOrder(core::Arena& arena) { order_.Lay(arena); }
  void Sort(const attention::Plan& plan) {
    order_.Sort([&](int64_t task) { return Estimate(plan, Numbered(task)); });
  }

  // The task that is begun at a place of the order. Last panels come first: under causality they are the longest.
  ForwardTask At(int64_t place) const { return Numbered(order_[place]); }
  attention::PanelPlace PlaceOf(int64_t panel) const {
    const int64_t row = panel / cut_.panels;
    return {row / groups_, row % groups_ * cut_.group, panel % cut_.panels};
  }

 private:
  ForwardTask Numbered(int64_t task) const {
    const int64_t at = count_ - 1 - task;
    return {at / cut_.splits, at % cut_.splits, PlaceOf(at / cut_.splits)};
  }
  // The keys of the panel's first and last query.
  int64_t Estimate(const attention::Plan& plan, const ForwardTask& task) const {
    const int64_t first = task.place.index * cut_.panel;
    const int64_t last = std::min(first + cut_.panel, plan.QueryCount(task.place.b)) - 1;
    if (last < first) return 0;
    const attention::KeyRange reach{plan.Row(task.place.b, task.place.head, first).keys.begin,
                                    plan.Row(task.place.b, task.place.head, last).keys.end};
    const attention::KeyRange walked = attention::SplitOf(reach, task.split, cut_);
    return plan.KeysSeen(task.place.b, task.place.head, first, walked) +
           plan.KeysSeen(task.place.b, task.place.head, last, walked);
  }

  const attention::Cut& cut_;
  int64_t groups_, panels_ = 0, count_ = 0;
  TaskOrder order_;
};

// What of one block may run at the same time.
enum class Apart { kNothing, kChunks, kPieces };

// As little as gives every worker something to do: what runs apart keeps sums of its own, which are added in the same order
// whether they were apart or not.
inline Apart ApartOf(const attention::Cut& cut, int64_t blocks, int64_t workers) {
  if (workers == 1) return Apart::kNothing;
  if (cut.pieces > 1 && blocks * cut.chunks < 4 * workers) return Apart::kPieces;
  return cut.chunks > 1 && blocks < 2 * workers ? Apart::kChunks : Apart::kNothing;
}

// Of a backward call: all chunks of a block; or one of them, or a piece of its queries, where those run at the same time.
class BackwardTasks {
 public:
  BackwardTasks(const position::Blocks& blocks, const attention::Cut& cut, Apart apart, int workers, bool uneven)
      : blocks_(blocks),
        cut_(cut),
        chunks_apart_(apart == Apart::kNothing ? 1 : cut.chunks),
        pieces_apart_(apart == Apart::kPieces ? cut.pieces : 1),
        order_(count(), workers, uneven) {}

  int64_t count() const { return blocks_.count() * chunks_apart_ * pieces_apart_; }

  // Memory for the order, and the order itself; both before the first task.
  void LayOrder(core::Arena& arena) { order_.Lay(arena); }
  void Sort(const attention::Plan& plan) {
    order_.Sort([&](int64_t task) {
      int64_t work = 0;
      Walk(task, [&](const attention::ChunkPlace& chunk) { work += Estimate(plan, chunk); });
      return work;
    });
  }

  // Calls visit(chunk) for what the task at a place of the order consists of, in its order.
  template <class Visit>
  void ForEachPart(int64_t place, const Visit& visit) const {
    Walk(order_[place], visit);
  }
  int64_t PartsOf(int64_t place) const {
    int64_t parts = 0;
    ForEachPart(place, [&](const attention::ChunkPlace&) { ++parts; });
    return parts;
  }
  // Calls visit(chunk, the one after it or null); the last is followed by the first of the task at `next`, unless that is -1.
  template <class Visit>
  void ForEachChunk(int64_t place, int64_t next, const Visit& visit) const {
    std::optional<attention::ChunkPlace> held;
    ForEachPart(place, [&](const attention::ChunkPlace& chunk) {
      if (held) visit(*held, &chunk);
      held = chunk;
    });
    if (!held) return;
    std::optional<attention::ChunkPlace> after;
    if (next >= 0)
      ForEachPart(next, [&](const attention::ChunkPlace& chunk) {
        if (!after) after = chunk;
      });
    visit(*held, after ? &*after : nullptr);
  }

 private:
  // Chunks in their order, for each the pairs of the block, and for those the pieces. Under causality the first chunks are the
  // longest, so they come first among all tasks too.
  template <class Visit>
  void Walk(int64_t task, const Visit& visit) const {
    const int64_t blocks = std::max<int64_t>(1, blocks_.count()), block = task % blocks, at = task / blocks;
    const Span chunks = SpanOf(at / pieces_apart_, chunks_apart_, cut_.chunks);
    const Span pieces = SpanOf(at % pieces_apart_, pieces_apart_, cut_.pieces);
    for (int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk)
      blocks_.ForEachPair(block, [&](int64_t b, int64_t kv_head) {
        for (int64_t piece = pieces.begin; piece < pieces.end; ++piece)
          visit(attention::ChunkPlace{b, kv_head, chunk, piece, block});
      });
  }

  struct Span {
    int64_t begin, end;
  };
  // One of `all`, or all of them where they do not run apart.
  static Span SpanOf(int64_t index, int64_t apart, int64_t all) { return apart == 1 ? Span{0, all} : Span{index, index + 1}; }

  // The keys of the chunk that some queries of the piece see, one of each of up to 8 panels.
  int64_t Estimate(const attention::Plan& plan, const attention::ChunkPlace& chunk) const {
    constexpr int64_t kPanels = 8;
    const Shape& shape = plan.shape();
    const int64_t group = shape.q_heads / shape.kv_heads;
    const auto [begin, end] = attention::PanelsOfPiece(cut_, group, chunk.piece);
    const attention::KeyRange keys{chunk.chunk * cut_.chunk, (chunk.chunk + 1) * cut_.chunk};
    const int64_t step = std::max<int64_t>(1, attention::DivideUp(end - begin, kPanels));
    int64_t seen = 0;
    for (int64_t panel = begin + step / 2; panel < end; panel += step) {
      const int64_t query = panel % cut_.panels * cut_.panel + cut_.panel / 2;
      if (query >= plan.QueryCount(chunk.b)) continue;
      seen += plan.KeysSeen(chunk.b, attention::FirstHead(cut_, chunk.kv_head, group, panel), query, keys);
    }
    return seen;
  }

  const position::Blocks& blocks_;
  const attention::Cut& cut_;
  int64_t chunks_apart_, pieces_apart_;
  TaskOrder order_;
};

// At the end of a backward call: some panels of dQ of a query head, then dK and dV of a chunk of a key head.
class FinishTasks {
 public:
  // queries, keys: whether there is anything to sum or to round of dQ, of dK and dV.
  FinishTasks(const Shape& shape, const attention::Cut& cut, bool queries, bool keys)
      : cut_(cut), q_heads_(shape.q_heads), kv_heads_(shape.kv_heads) {
    if (queries) of_queries_ = core::CheckedProduct(core::CheckedProduct(shape.batch, q_heads_, "q"), Groups(), "q");
    if (keys) of_keys_ = core::CheckedProduct(core::CheckedProduct(shape.batch, kv_heads_, "k"), cut.chunks, "k");
  }

  int64_t count() const { return of_queries_ + of_keys_; }

  // Calls queries(batch row, query head, first panel, panel behind the last) or keys(batch row, key head, chunk).
  template <class Queries, class Keys>
  void Run(int64_t task, const Queries& queries, const Keys& keys) const {
    if (task < of_queries_) {
      const int64_t row = task / Groups(), first = task % Groups() * simd::kFinishPanels;
      queries(row / q_heads_, row % q_heads_, first, std::min(first + simd::kFinishPanels, cut_.panels));
    } else {
      const int64_t at = task - of_queries_, row = at / cut_.chunks;
      keys(row / kv_heads_, row % kv_heads_, at % cut_.chunks);
    }
  }

 private:
  int64_t Groups() const { return attention::DivideUp(cut_.panels, simd::kFinishPanels); }

  const attention::Cut& cut_;
  int64_t q_heads_, kv_heads_, of_queries_ = 0, of_keys_ = 0;
};

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_TASKS_H_
