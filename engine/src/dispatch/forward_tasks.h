// The tasks of a forward call: panels of queries, or splits of their keys where panels are split.
#ifndef HEED_DISPATCH_FORWARD_TASKS_H_
#define HEED_DISPATCH_FORWARD_TASKS_H_

#include <algorithm>
#include <cstdint>

#include "attention/problem.h"
#include "core/checked_integer.h"
#include "dispatch/task_order.h"

namespace heed::dispatch {

struct ForwardTask {
  int64_t panel = 0;  // among those of all rows and groups of heads
  int64_t split = 0;
  attention::PanelPlace place{};
};

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

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_FORWARD_TASKS_H_
