#include "bench/plans/call_plan.h"

#include <algorithm>
#include <queue>
#include <string>
#include <vector>

#include "attention/plan.h"
#include "attention/problem.h"
#include "core/checked_integer.h"
#include "core/refuse.h"
#include "core/task_loop.h"
#include "dispatch/calls.h"
#include "dispatch/layouts.h"
#include "position/scheme_set.h"

namespace heed {
namespace plans {
namespace {

using attention::ChunkPlace;
using attention::KeyRange;
using attention::PanelPlace;
using dispatch::Apart;
using dispatch::BackwardLayout;
using dispatch::BackwardTasks;
using dispatch::CallMemory;
using dispatch::Elements;
using dispatch::FinishTasks;
using dispatch::ForwardLayout;
using dispatch::ForwardTask;
using dispatch::ForwardTasks;
using dispatch::kBackwardWork;
using dispatch::ScoreWork;
using dispatch::WorkersOf;

// Refuses steps of more tasks than a plan lists.
void CheckTasks(int64_t tasks) {
  constexpr int64_t kMost = int64_t{1} << 23;
  if (tasks > kMost)
    core::Refuse("shape", "expected a plan of at most " + std::to_string(kMost) + " tasks, got " + std::to_string(tasks));
}

// A panel of queries with one piece of the keys.
struct PanelWork {
  int64_t pairs = 0, keys = 0;  // seen; walked
};

// All panels of a row and group of heads with all pieces of its keys, kept until another one is asked for that may differ.
class PanelWorks {
 public:
  // part: the piece `index` of what a panel reaches.
  using PartOf = attention::KeyRange(const attention::KeyRange& reach, int64_t index, const attention::Cut& cut);
  PanelWorks(const Attention& attention, const attention::Plan& plan, const attention::Cut& cut, PartOf* part, int64_t pieces)
      : plan_(plan),
        cut_(cut),
        part_(part),
        pieces_(pieces),
        heads_alike_(!attention.mask.present() && !plan.hides()),
        rows_alike_(heads_alike_ && !attention.key_lengths.present() && !attention.query_lengths.present() &&
                    !attention.prefix_lengths.present() && !attention.packed.present() && !plan.order().listed()) {
    CheckTasks(core::CheckedProduct(cut.panels, pieces, "shape"));
  }

  const PanelWork& Of(const PanelPlace& place, int64_t piece) {
    const bool held = !works_.empty() && (rows_alike_ || (place.b == b_ && (heads_alike_ || place.head == head_)));
    if (!held) Fill(place.b, place.head);
    return works_[static_cast<std::size_t>(place.index * pieces_ + piece)];
  }

 private:
  void Fill(int64_t b, int64_t head) {
    b_ = b;
    head_ = head;
    works_.assign(static_cast<std::size_t>(cut_.panels * pieces_), {});
    std::vector<attention::QueryRow> rows(static_cast<std::size_t>(cut_.panel));
    for (int64_t index = 0; index < cut_.panels; ++index) {
      const int64_t begin = index * cut_.panel, count = std::min(cut_.panel, plan_.QueryCount(b) - begin);
      if (count <= 0) return;
      const KeyRange heads{head, head + cut_.group}, queries{begin, begin + count};
      const attention::PanelRange range = plan_.Panel(b, heads, begin, count, rows.data());
      const int64_t lanes = cut_.group * count;
      for (int64_t piece = 0; piece < pieces_; ++piece) {
        const KeyRange reach = part_(range.reach, piece, cut_);
        if (reach.empty()) continue;
        const KeyRange keys = plan_.Trim(range, {b, heads, queries, reach}, cut_.tile);
        if (keys.empty()) continue;
        PanelWork& work = works_[static_cast<std::size_t>(index * pieces_ + piece)];
        work.keys = keys.end - keys.begin;
        if (range.idle == 0 && !range.NeedsMask(keys.begin, keys.end)) {
          work.pairs = lanes * work.keys;
          continue;
        }
        for (int64_t w = 0; w < lanes; ++w) {
          const KeyRange& own = rows[static_cast<std::size_t>(w)].keys;
          work.pairs += std::max<int64_t>(0, std::min(own.end, keys.end) - std::max(own.begin, keys.begin));
        }
      }
    }
  }

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

  TaskCost Of(const ForwardTask& task) {
    const Shape& shape = facts_.plan.shape();
    const PanelWork& work = works_.Of(task.place, task.split);
    return {.pairs = work.pairs,
            .bytes_read =
                (Queries(task.place) * shape.head_dim + work.keys * (shape.head_dim + shape.value_dim)) * facts_.element_bytes,
            .bytes_written = facts_.cut.splits > 1 ? part_bytes_ : OutputBytes(task.place)};
  }

  TaskCost OfMerge(const PanelPlace& place) const {
    return {.pairs = 0, .bytes_read = facts_.cut.splits * part_bytes_, .bytes_written = OutputBytes(place)};
  }

 private:
  int64_t Queries(const PanelPlace& place) const {
    const int64_t left = facts_.plan.QueryCount(place.b) - place.index * facts_.cut.panel;
    return facts_.cut.group * std::clamp<int64_t>(left, 0, facts_.cut.panel);
  }

  int64_t OutputBytes(const PanelPlace& place) const {
    return Queries(place) * (facts_.plan.shape().value_dim * facts_.element_bytes + facts_.sum_bytes);
  }

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

  TaskCost Of(const BackwardTasks& tasks, int64_t place) {
    TaskCost cost;
    tasks.ForEachPart(place, [&](const ChunkPlace& chunk) { Add(chunk, cost); });
    return cost;
  }

  TaskCost OfFinish(const FinishTasks& tasks, int64_t task) {
    const Shape& shape = facts_.plan.shape();
    const attention::Cut& cut = facts_.cut;
    TaskCost cost;
    const auto queries = [&](int64_t b, int64_t h, int64_t first, int64_t last) {
      for (int64_t index = first; index < last; ++index) {
        const int64_t elements = QueriesOf(b, index) * shape.head_dim;
        const int64_t sum_bytes = narrow() ? facts_.sum_bytes : facts_.element_bytes;
        int64_t parts = 0;
        const PanelPlace place{b, h / cut.group * cut.group, index};
        for (int64_t chunk = 1; parts_ && chunk < cut.chunks; ++chunk) parts += works_.Of(place, chunk).keys > 0 ? 1 : 0;
        cost.bytes_read += elements * (parts * facts_.sum_bytes + (parts > 0 || narrow() ? sum_bytes : 0));
        if (parts > 0 || narrow()) cost.bytes_written += elements * facts_.element_bytes;
      }
    };
    const auto keys = [&](int64_t b, int64_t kv_head, int64_t chunk) {
      int64_t pieces = 0;
      for (int64_t piece = 0; piece < cut.pieces; ++piece) pieces += Sees(b, kv_head, chunk, piece) ? 1 : 0;
      const int64_t rows = KeysOf(b, chunk);
      cost.bytes_read += rows * pieces * (cut.head_dim + cut.value_dim) * facts_.sum_bytes;
      cost.bytes_written += rows * (shape.head_dim + shape.value_dim) * facts_.element_bytes;
    };
    tasks.Run(task, queries, keys);
    return cost;
  }

 private:
  int64_t QueriesOf(int64_t b, int64_t index) const {
    return std::clamp<int64_t>(facts_.plan.QueryCount(b) - index * facts_.cut.panel, 0, facts_.cut.panel);
  }

  int64_t KeysOf(int64_t b, int64_t chunk) const {
    return std::clamp<int64_t>(facts_.plan.KeyCount(b) - chunk * facts_.cut.chunk, 0, facts_.cut.chunk);
  }

  bool narrow() const { return facts_.element_bytes < facts_.sum_bytes; }

  void Add(const ChunkPlace& chunk, TaskCost& cost) {
    const Shape& shape = facts_.plan.shape();
    const attention::Cut& cut = facts_.cut;
    const int64_t group = shape.q_heads / shape.kv_heads, keys = KeysOf(chunk.b, chunk.chunk);
    const int64_t d_query_bytes =
        shape.head_dim * (narrow() || (parts_ && chunk.chunk > 0) ? facts_.sum_bytes : facts_.element_bytes);
    const auto [begin, end] = attention::PanelsOfPiece(cut, group, chunk.piece);
    bool sees = false;
    for (int64_t panel = begin; panel < end; ++panel) {
      const PanelPlace place{chunk.b, attention::FirstHead(cut, chunk.kv_head, group, panel), panel % cut.panels};
      const PanelWork& work = works_.Of(place, chunk.chunk);
      const int64_t queries = cut.group * QueriesOf(chunk.b, place.index);
      if (work.keys > 0 || chunk.chunk == 0) cost.bytes_written += queries * d_query_bytes;
      if (work.keys == 0) continue;
      sees = true;
      cost.pairs += work.pairs;
      cost.bytes_read += queries * ((shape.head_dim + 2 * shape.value_dim) * facts_.element_bytes + facts_.sum_bytes);
      if (chunk.chunk > 0 && !parts_) cost.bytes_read += queries * d_query_bytes;
    }
    if (sees) cost.bytes_read += keys * (shape.head_dim + shape.value_dim) * facts_.element_bytes;
    if (apart_ == Apart::kPieces) {
      if (sees) cost.bytes_written += keys * (cut.head_dim + cut.value_dim) * facts_.sum_bytes;
    } else if (chunk.piece + 1 == cut.pieces) {
      cost.bytes_written += keys * (shape.head_dim + shape.value_dim) * facts_.element_bytes;
    }
  }

  bool Sees(int64_t b, int64_t kv_head, int64_t chunk, int64_t piece) {
    const int64_t group = facts_.plan.shape().q_heads / facts_.plan.shape().kv_heads;
    const auto [begin, end] = attention::PanelsOfPiece(facts_.cut, group, piece);
    for (int64_t panel = begin; panel < end; ++panel)
      if (works_.Of({b, attention::FirstHead(facts_.cut, kv_head, group, panel), panel % facts_.cut.panels}, chunk).keys > 0)
        return true;
    return false;
  }

  CostFacts facts_;
  Apart apart_;
  bool parts_;
  PanelWorks works_;
};

// Brings tasks into the order in which they are taken; it lies in the memory that is returned.
template <class Tasks>
Workspace Sorted(Tasks& tasks, const attention::Plan& plan) {
  core::Arena order;
  tasks.LayOrder(order);
  Workspace held(order.used());
  core::Arena arena(held.data());
  if (order.used() > 0) tasks.LayOrder(arena);
  tasks.Sort(plan);
  return held;
}

// A call without steps yet.
CallPlan Begin(int64_t multiply_adds_per_pair, const CallMemory& memory, int workers) {
  return {.steps = {},
          .multiply_adds_per_pair = static_cast<double>(multiply_adds_per_pair),
          .shared_bytes = memory.bytes() - static_cast<std::size_t>(workers) * memory.own_bytes(),
          .bytes_of_one_worker = memory.own_bytes()};
}

template <class T>
CallPlan PlanOfForward(const Attention& attention, const Shape& shape, Elements elements, int workers) {
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const attention::Cut cut = attention::CutForward(attention, shape, sizeof(T));
  ForwardLayout<T> layout(attention, cut, shape, elements, workers);
  ForwardTasks& tasks = layout.tasks();
  CheckTasks(tasks.count());
  const CallMemory memory = layout.Memory(workers);
  const Workspace order = Sorted(tasks, plan);

  ForwardCosts costs({attention, plan, cut, elements == Elements::kNarrow ? 2 : int64_t{sizeof(T)}, sizeof(T)},
                     layout.PartSize() * int64_t{sizeof(T)});
  const double work = ScoreWork(shape, attention::LongestReach(attention, shape, 1));
  CallPlan call = Begin(shape.head_dim + shape.value_dim, memory, workers);
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
  const Workspace order = Sorted(tasks, plan);

  BackwardCosts costs({attention, plan, cut, elements == Elements::kNarrow ? 2 : int64_t{sizeof(T)}, sizeof(T)}, layout.apart(),
                      layout.query_parts());
  const double work = kBackwardWork * ScoreWork(shape, shape.kv_len);
  CallPlan call = Begin(3 * shape.head_dim + 2 * shape.value_dim, memory, workers);
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
