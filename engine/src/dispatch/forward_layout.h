// What a forward call, weights on request and the workspace of either have in common: tasks, schemes, memory.
#ifndef HEED_DISPATCH_FORWARD_LAYOUT_H_
#define HEED_DISPATCH_FORWARD_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "attention/problem.h"
#include "dispatch/calls.h"
#include "dispatch/forward_tasks.h"
#include "dispatch/workers.h"
#include "position/scheme_set.h"

namespace heed::dispatch {

template <class T>
class ForwardLayout {
 public:
  // tangents: those of schemes in a call with tangents, else null.
  ForwardLayout(const Attention& attention, const attention::Cut& cut, const Shape& shape, Elements elements, int workers,
                const BiasGradients<T>* tangents = nullptr)
      : tasks_(shape, cut, workers, attention::Uneven(attention)),
        schemes_({.attention = attention,
                  .shape = shape,
                  .cut = cut,
                  .pass = tangents ? position::Pass::kTangent : position::Pass::kForward},
                 tangents ? *tangents : BiasGradients<T>()),
        facts_{.attention = attention,
               .cut = cut,
               .shape = shape,
               .narrow = elements == Elements::kNarrow,
               .scheme_rows = schemes_.output_rows() + (tangents ? attention::TangentArrays<T>::OutputRows(shape) : int64_t{0}),
               .tangents = tangents != nullptr} {}

  position::SchemeSet<T>& schemes() { return schemes_; }
  const attention::ScratchFacts& facts() const { return facts_; }
  ForwardTasks& tasks() { return tasks_; }
  // Elements that one split hands on.
  int64_t PartSize() const { return attention::ForwardScratch<T>::SplitPart(facts_.shape, facts_.cut, facts_.scheme_rows); }

  // Lays out what all workers share; returns the partial states of all splits, null where panels are not split.
  T* LayShared(core::Arena& arena) {
    tasks_.LayOrder(arena);
    schemes_.LayShared(arena);
    const attention::Cut& cut = facts_.cut;
    const Shape& shape = facts_.shape;
    if (cut.splits == 1) return nullptr;
    return arena.Take<T>(shape.batch, shape.q_heads / cut.group, cut.panels, cut.splits, PartSize());
  }
  CallMemory Memory(int workers) {
    core::Arena shared, own;
    LayShared(shared);
    attention::ForwardScratch<T>(own, facts_);
    schemes_.LayScratch(own);
    return {shared, own, workers};
  }

 private:
  ForwardTasks tasks_;
  position::SchemeSet<T> schemes_;
  attention::ScratchFacts facts_;
};

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_FORWARD_LAYOUT_H_
