// What a call would compute and in which tasks, without arrays: for any number of workers, on any machine.
#ifndef HEED_BENCH_PLANS_CALL_PLAN_H_
#define HEED_BENCH_PLANS_CALL_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/executor.h"

namespace heed {

// What one task does. Pairs of a query of some head and a key: those within the ranges that causality, windows, prefixes,
// lengths and positions allow; what dense masks, programs and positions out of order hide among those counts as seen. Bytes of
// the call's arrays and of sums that tasks hand on, each row once a task and chunk, whether or not a cache has it; not those of
// the worker's own scratch area.
struct TaskCost {
  int64_t pairs = 0;
  int64_t bytes_read = 0, bytes_written = 0;
};

// Tasks that may run at the same time. The next step begins when all of them have ended.
struct CallStep {
  std::string name;             // "panels", "splits", "merge"; "chunks", "sums"
  int64_t workers = 0;          // that take tasks; each the next one that is left
  std::vector<TaskCost> tasks;  // in the order in which they are taken
};

struct CallPlan {
  std::vector<CallStep> steps;
  double multiply_adds_per_pair = 0;    // of the products: D + Dv forward, 3 D + 2 Dv backward
  std::size_t shared_bytes = 0;         // of workspace, for all workers, of which only what is written takes memory
  std::size_t bytes_of_one_worker = 0;  // and of each
};

// The plan of Forward and Backward with all gradients, made by the code that those run: cut, order, workers and workspace are
// theirs. element_bytes: 4 float, 8 double, 2 the rest. Steps that clear and sum gradients of tables are left out. Throws
// InvalidArgument, also where a step has more than 2^23 tasks or panels and chunks.
CallPlan PlanForward(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);
CallPlan PlanBackward(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);

// When the last worker of a step has ended, where tasks take `seconds` and all workers begin at once: each takes tasks as those
// of a call do.
double Makespan(const CallStep& step, FunctionRef<double(const TaskCost&)> seconds);

}  // namespace heed

#endif  // HEED_BENCH_PLANS_CALL_PLAN_H_
