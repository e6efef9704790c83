// The tasks of a backward call: all chunks of a block; or one of them, or a piece of its queries, where those run at the same
// time.
#ifndef HEED_DISPATCH_BACKWARD_TASKS_H_
#define HEED_DISPATCH_BACKWARD_TASKS_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "attention/problem.h"
#include "dispatch/task_order.h"
#include "position/blocks.h"

namespace heed::dispatch {

// What of one block may run at the same time.
enum class Apart { kNothing, kChunks, kPieces };

// As little as gives every worker something to do: what runs apart keeps sums of its own, which are added in the same order
// whether they were apart or not.
inline Apart ApartOf(const attention::Cut& cut, int64_t blocks, int64_t workers) {
  if (workers == 1) return Apart::kNothing;
  if (cut.pieces > 1 && blocks * cut.chunks < 4 * workers) return Apart::kPieces;
  return cut.chunks > 1 && blocks < 2 * workers ? Apart::kChunks : Apart::kNothing;
}

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

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_BACKWARD_TASKS_H_
