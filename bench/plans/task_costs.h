// What the tasks of a call compute, read and write, counted from the plan that they follow.
#ifndef HEED_BENCH_PLANS_TASK_COSTS_H_
#define HEED_BENCH_PLANS_TASK_COSTS_H_

#include <cstdint>
#include <vector>

#include "attention/problem.h"
#include "bench/plans/call_plan.h"
#include "dispatch/tasks.h"

namespace heed::plans {

using dispatch::Apart;
using dispatch::BackwardTasks;
using dispatch::FinishTasks;
using dispatch::ForwardTask;

// Refuses steps of more tasks than a plan lists.
void CheckTasks(int64_t tasks);

// A panel of queries with one piece of the keys.
struct PanelWork {
  int64_t pairs = 0, keys = 0;  // seen; walked
};

// All panels of a row and group of heads with all pieces of its keys, kept until another one is asked for that may differ.
class PanelWorks {
 public:
  // part: the piece `index` of what a panel reaches.
  using PartOf = attention::KeyRange(const attention::KeyRange& reach, int64_t index, const attention::Cut& cut);
  PanelWorks(const Attention& attention, const attention::Plan& plan, const attention::Cut& cut, PartOf* part, int64_t pieces);

  const PanelWork& Of(const attention::PanelPlace& place, int64_t piece);

 private:
  void Fill(int64_t b, int64_t head);

  const attention::Plan& plan_;
  const attention::Cut& cut_;
  PartOf* part_;
  int64_t pieces_;
  bool heads_alike_, rows_alike_;
  int64_t b_ = -1, head_ = -1;
  std::vector<PanelWork> works_;  // [panels, pieces]
};

// What the bytes of a call follow from.
struct CostFacts {
  const Attention& attention;
  const attention::Plan& plan;
  const attention::Cut& cut;
  int64_t element_bytes, sum_bytes;
};

class ForwardCosts {
 public:
  // part_bytes: of what a split hands on.
  ForwardCosts(const CostFacts& facts, int64_t part_bytes)
      : facts_(facts),
        part_bytes_(part_bytes),
        works_(facts.attention, facts.plan, facts.cut, attention::SplitOf, facts.cut.splits) {}

  TaskCost Of(const ForwardTask& task);
  TaskCost OfMerge(const attention::PanelPlace& place) const;

 private:
  int64_t OutputBytes(const attention::PanelPlace& place) const;
  int64_t Queries(const attention::PanelPlace& place) const;

  CostFacts facts_;
  int64_t part_bytes_;
  PanelWorks works_;
};

class BackwardCosts {
 public:
  // parts: whether dQ is kept apart.
  BackwardCosts(const CostFacts& facts, Apart apart, bool parts)
      : facts_(facts),
        apart_(apart),
        parts_(parts),
        works_(facts.attention, facts.plan, facts.cut, attention::ChunkOf, facts.cut.chunks) {}

  TaskCost Of(const BackwardTasks& tasks, int64_t place);
  TaskCost OfFinish(const FinishTasks& tasks, int64_t task);

 private:
  int64_t QueriesOf(int64_t b, int64_t index) const;
  int64_t KeysOf(int64_t b, int64_t chunk) const;
  bool narrow() const { return facts_.element_bytes < facts_.sum_bytes; }
  void Add(const attention::ChunkPlace& chunk, TaskCost& cost);
  bool Sees(int64_t b, int64_t kv_head, int64_t chunk, int64_t piece);

  CostFacts facts_;
  Apart apart_;
  bool parts_;
  PanelWorks works_;
};

}  // namespace heed::plans

#endif  // HEED_BENCH_PLANS_TASK_COSTS_H_
