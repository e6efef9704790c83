// The tasks at the end of a backward call: some panels of dQ of a query head, then dK and dV of a chunk of a key head.
#ifndef HEED_DISPATCH_FINISH_TASKS_H_
#define HEED_DISPATCH_FINISH_TASKS_H_

#include <algorithm>
#include <cstdint>

#include "attention/plan.h"
#include "core/checked_integer.h"
#include "simd/tuning.h"

namespace heed::dispatch {

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

#endif  // HEED_DISPATCH_FINISH_TASKS_H_
