// The tasks of a backward call: all chunks of a block, or one of them where chunks run at the same time.
#ifndef HEED_DISPATCH_BACKWARD_TASKS_H_
#define HEED_DISPATCH_BACKWARD_TASKS_H_

#include <cstdint>
#include <optional>

#include "attention/problem.h"
#include "position/blocks.h"

namespace heed::dispatch {

class BackwardTasks {
 public:
  // apart: whether chunks of one block run at the same time.
  BackwardTasks(const position::Blocks& blocks, int64_t chunks, bool apart) : blocks_(blocks), chunks_(chunks), apart_(apart) {}

  int64_t count() const { return blocks_.count() * (apart_ ? chunks_ : 1); }

  // Calls visit(chunk, the one after it or null) for the chunks of a task in their order; the last is followed by the first of
  // task `next`, unless that is -1.
  template <class Visit>
  void ForEachChunk(int64_t task, int64_t next, const Visit& visit) const {
    std::optional<attention::ChunkPlace> held;
    Walk(task, [&](const attention::ChunkPlace& chunk) {
      if (held) visit(*held, &chunk);
      held = chunk;
    });
    if (!held) return;
    std::optional<attention::ChunkPlace> after;
    if (next >= 0)
      Walk(next, [&](const attention::ChunkPlace& chunk) {
        if (!after) after = chunk;
      });
    visit(*held, after ? &*after : nullptr);
  }

 private:
  // Chunks in their order, and for each the pairs of the block. Under causality the first chunks are the longest, so they come
  // first among all tasks too.
  template <class Visit>
  void Walk(int64_t task, const Visit& visit) const {
    const int64_t block = apart_ ? task % blocks_.count() : task, first = apart_ ? task / blocks_.count() : 0;
    for (int64_t chunk = first; chunk < (apart_ ? first + 1 : chunks_); ++chunk)
      blocks_.ForEachPair(block, [&](int64_t b, int64_t kv_head) { visit(attention::ChunkPlace{b, kv_head, chunk, block}); });
  }

  const position::Blocks& blocks_;
  int64_t chunks_;
  bool apart_;
};

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_BACKWARD_TASKS_H_
