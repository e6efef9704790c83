// How long the steps of a plan take.
#include "heed/call_plan.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "core/task_loop.h"
#include "dispatch/workers.h"

namespace heed {
namespace {

struct Worker {
  double free;  // when it has run what it took
  int64_t index;
  core::TaskQueue::Turn turn;
};
struct Later {
  bool operator()(const Worker& a, const Worker& b) const { return a.free != b.free ? a.free > b.free : a.index > b.index; }
};

}  // namespace

double Makespan(const CallStep& step, FunctionRef<double(const TaskCost&)> seconds) {
  core::TaskQueue tasks(static_cast<int64_t>(step.tasks.size()), dispatch::TasksHeldBack(step.workers));
  std::priority_queue<Worker, std::vector<Worker>, Later> workers;
  double end = 0;
  const auto run = [&](Worker worker) {
    if (worker.turn.task >= tasks.count()) return;
    worker.free += seconds(step.tasks[static_cast<std::size_t>(worker.turn.task)]);
    end = std::max(end, worker.free);
    workers.push(worker);
  };
  for (int64_t index = 0; index < step.workers; ++index) run({0, index, tasks.First()});
  while (!workers.empty()) {
    Worker worker = workers.top();
    workers.pop();
    worker.turn = tasks.After(worker.turn);
    run(worker);
  }
  return end;
}

}  // namespace heed
