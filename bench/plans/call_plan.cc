#include "bench/plans/call_plan.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "attention/plan.h"
#include "bench/plans/task_costs.h"
#include "core/task_loop.h"
#include "dispatch/calls.h"
#include "dispatch/layouts.h"
#include "position/scheme_set.h"

namespace heed {
namespace plans {
namespace {

using dispatch::BackwardLayout;
using dispatch::CallMemory;
using dispatch::Elements;
using dispatch::ForwardLayout;
using dispatch::ForwardTasks;
using dispatch::kBackwardWork;
using dispatch::ScoreWork;
using dispatch::WorkersOf;

template <class T>
CallPlan PlanOfForward(const Attention& attention, const Shape& shape, Elements elements, int workers) {
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const attention::Cut cut = attention::CutForward(attention, shape, sizeof(T));
  ForwardLayout<T> layout(attention, cut, shape, elements, workers);
  ForwardTasks& tasks = layout.tasks();
  CheckTasks(tasks.count());
  const CallMemory memory = layout.Memory(workers);
  core::Arena order;
  tasks.LayOrder(order);
  Workspace held(order.used());
  core::Arena arena(held.data());
  if (order.used() > 0) tasks.LayOrder(arena);
  tasks.Sort(plan);

  ForwardCosts costs({attention, plan, cut, elements == Elements::kNarrow ? 2 : int64_t{sizeof(T)}, sizeof(T)},
                     layout.PartSize() * int64_t{sizeof(T)});
  const double work = ScoreWork(shape, attention::LongestReach(attention, shape, 1));
  CallPlan call{.steps = {},
                .multiply_adds_per_pair = static_cast<double>(shape.head_dim + shape.value_dim),
                .shared_bytes = memory.bytes() - static_cast<std::size_t>(workers) * memory.own_bytes(),
                .bytes_of_one_worker = memory.own_bytes()};
  CallStep& step = call.steps.emplace_back();
  step.name = cut.splits == 1 ? "panels" : "splits";
  step.workers = WorkersOf(workers, work, tasks.count());
  step.tasks.reserve(static_cast<std::size_t>(tasks.count()));
  for (int64_t place = 0; place < tasks.count(); ++place) step.tasks.push_back(costs.Of(tasks.At(place)));
  if (cut.splits == 1) return call;
  CallStep& merge = call.steps.emplace_back();
  merge.name = "merge";
  merge.workers = WorkersOf(workers, work, tasks.panels());
  for (int64_t panel = 0; panel < tasks.panels(); ++panel) merge.tasks.push_back(costs.OfMerge(tasks.PlaceOf(panel)));
  return call;
}

template <class T>
CallPlan PlanOfBackward(const Attention& attention, const Shape& shape, Elements elements, int workers) {
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const attention::Cut cut = attention::CutBackward(shape, sizeof(T), position::LimitsOf(attention));
  BackwardLayout<T> layout(attention, cut, shape, elements, attention::WantedOperands(), dispatch::AllGradients<T>(attention),
                           workers);
  BackwardTasks& tasks = layout.tasks();
  const FinishTasks finish = layout.finish();
  CheckTasks(tasks.count());
  CheckTasks(finish.count());
  const CallMemory memory = layout.Memory();
  core::Arena order;
  tasks.LayOrder(order);
  Workspace held(order.used());
  core::Arena arena(held.data());
  if (order.used() > 0) tasks.LayOrder(arena);
  tasks.Sort(plan);

  BackwardCosts costs({attention, plan, cut, elements == Elements::kNarrow ? 2 : int64_t{sizeof(T)}, sizeof(T)}, layout.apart(),
                      layout.query_parts());
  const double work = kBackwardWork * ScoreWork(shape, shape.kv_len);
  CallPlan call{.steps = {},
                .multiply_adds_per_pair = static_cast<double>(3 * shape.head_dim + 2 * shape.value_dim),
                .shared_bytes = memory.bytes() - static_cast<std::size_t>(workers) * memory.own_bytes(),
                .bytes_of_one_worker = memory.own_bytes()};
  CallStep& step = call.steps.emplace_back();
  step.name = "chunks";
  step.workers = WorkersOf(workers, work, tasks.count());
  step.tasks.reserve(static_cast<std::size_t>(tasks.count()));
  for (int64_t place = 0; place < tasks.count(); ++place) step.tasks.push_back(costs.Of(tasks, place));
  if (finish.count() == 0) return call;
  CallStep& sums = call.steps.emplace_back();
  sums.name = "sums";
  sums.workers = WorkersOf(workers, work, finish.count());
  for (int64_t task = 0; task < finish.count(); ++task) sums.tasks.push_back(costs.OfFinish(finish, task));
  return call;
}

}  // namespace
}  // namespace plans

CallPlan PlanForward(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  dispatch::CheckQuestion(attention, shape, element_bytes, concurrency);
  return (element_bytes == 8 ? plans::PlanOfForward<double>
                             : plans::PlanOfForward<float>)(attention, shape, dispatch::ElementsOf(element_bytes), concurrency);
}

CallPlan PlanBackward(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  dispatch::CheckQuestion(attention, shape, element_bytes, concurrency);
  return (element_bytes == 8
              ? plans::PlanOfBackward<double>
              : plans::PlanOfBackward<float>)(attention, shape, dispatch::ElementsOf(element_bytes), concurrency);
}

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
