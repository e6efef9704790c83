#include "bench/suites/plan.h"

#include <algorithm>

#include <fmt/core.h>

#include "bench/plans/call_plan.h"

namespace heed::lab {
namespace {

// Above this share nothing is worth naming.
constexpr double kBalanced = 0.95;

StepRow RowOf(const CallStep& step, double multiply_adds_per_pair, const ThreadRates& rates) {
  const auto seconds = [&](const TaskCost& task) {
    const double operations = 2 * multiply_adds_per_pair * static_cast<double>(task.pairs);
    const double bytes = static_cast<double>(task.bytes_read) + static_cast<double>(task.bytes_written);
    return std::max(operations / (rates.gflops * 1e9), bytes / (rates.gbps * 1e9));
  };
  StepRow row{.name = step.name, .workers = step.workers, .tasks = static_cast<int64_t>(step.tasks.size())};
  for (const TaskCost& task : step.tasks) {
    row.pairs += task.pairs;
    row.bytes_read += task.bytes_read;
    row.bytes_written += task.bytes_written;
    row.busy += seconds(task);
  }
  row.seconds = Makespan(step, seconds);
  return row;
}

double Busy(const PlanRow& row) {
  double busy = 0;
  for (const StepRow& step : row.steps) busy += step.busy;
  return busy;
}

// What the largest part of the time that is lost is lost to: threads that wait in a step, or work that one thread has not.
std::string LimitOf(const PlanRow& row, double alone) {
  if (row.balance >= kBalanced) return "-";
  const double extra = Busy(row) - alone;
  const StepRow* worst = nullptr;
  double most = 0;
  for (const StepRow& step : row.steps) {
    const double idle = row.threads * step.seconds - step.busy;
    if (!worst || idle > most) worst = &step, most = idle;
  }
  if (!worst || extra > most) return "sums that one thread does not need";
  if (worst->tasks < row.threads) return fmt::format("{}: {} tasks", worst->name, worst->tasks);
  if (worst->workers < row.threads) return fmt::format("{}: too little work to wake threads", worst->name);
  return fmt::format("{}: uneven, {:.1f} tasks a thread", worst->name,
                     static_cast<double>(worst->tasks) / static_cast<double>(row.threads));
}

std::string Count(double value) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) value /= 1000, ++unit;
  return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string Time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return seconds < 3600 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} h", seconds / 3600);
}

}  // namespace

Fields FieldsOf(ThreadRates& rates) {
  return {Number("gflops", rates.gflops, 0, 1e6, "GFLOP/s of a thread, for --plan"),
          Number("gbps", rates.gbps, 0, 1e6, "GB/s that a thread reads and writes, for --plan")};
}

std::vector<int> PlannedThreads() { return {1, 2, 4, 8, 16, 32, 64, 128}; }

std::vector<PlanRow> PlanCall(const ShapeCall& call, const ThreadRates& rates) {
  std::vector<PlanRow> rows;
  double alone = 0;
  for (const int threads : PlannedThreads()) {
    const auto plan_of = call.backward ? &PlanBackward : &PlanForward;
    const CallPlan plan = plan_of(call.attention, call.shape, ElementBytes(call.type), threads);
    PlanRow& row = rows.emplace_back();
    row.shape = ShapeText(call.shape);
    row.option = call.OptionText();
    row.pass = call.PassText();
    row.threads = threads;
    row.workspace_bytes = static_cast<int64_t>(plan.shared_bytes) + threads * static_cast<int64_t>(plan.bytes_of_one_worker);
    for (const CallStep& step : plan.steps) {
      const StepRow& of_step = row.steps.emplace_back(RowOf(step, plan.multiply_adds_per_pair, rates));
      row.multiply_adds += plan.multiply_adds_per_pair * static_cast<double>(of_step.pairs);
      row.seconds += of_step.seconds;
    }
    if (threads == 1) alone = row.seconds;
    row.balance = row.seconds > 0 ? alone / (threads * row.seconds) : 1;
    row.limit = LimitOf(row, alone);
  }
  return rows;
}

nlohmann::ordered_json PlanJson(const std::vector<PlanRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PlanRow& row : rows) {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const StepRow& step : row.steps)
      steps.push_back({{"name", step.name},
                       {"workers", step.workers},
                       {"tasks", step.tasks},
                       {"pairs", step.pairs},
                       {"bytes_read", step.bytes_read},
                       {"bytes_written", step.bytes_written},
                       {"seconds", step.seconds},
                       {"balance", step.seconds > 0 ? step.busy / (row.threads * step.seconds) : 1.0}});
    list.push_back({{"shape", row.shape},
                    {"option", row.option},
                    {"pass", row.pass},
                    {"threads", row.threads},
                    {"multiply_adds", row.multiply_adds},
                    {"workspace_bytes", row.workspace_bytes},
                    {"seconds", row.seconds},
                    {"balance", row.balance},
                    {"limit", row.limit},
                    {"steps", steps}});
  }
  return list;
}

Table PlanTable(const std::vector<PlanRow>& rows, const ThreadRates& rates) {
  Table table{fmt::format("Nothing is computed: tasks as the engine cuts them, in its order; a thread of {:g} GFLOP/s and {:g} "
                          "GB/s. Balance: the share of the ideal time.",
                          rates.gflops, rates.gbps),
              {"Call", "Pass", "Threads", "Tasks", "Multiply-adds", "Read", "Written", "Workspace", "Time", "Balance", "Limit"},
              {}};
  for (const PlanRow& row : rows) {
    std::string tasks;
    double read = 0, written = 0;
    for (const StepRow& step : row.steps) {
      tasks += (tasks.empty() ? "" : " + ") + fmt::format("{}", step.tasks);
      read += static_cast<double>(step.bytes_read);
      written += static_cast<double>(step.bytes_written);
    }
    table.rows.push_back({row.shape + ", " + row.option, row.pass, fmt::format("{}", row.threads), tasks,
                          Count(row.multiply_adds), Count(read) + "B", Count(written) + "B",
                          Count(static_cast<double>(row.workspace_bytes)) + "B", Time(row.seconds),
                          fmt::format("{:.2f}", row.balance), row.limit});
  }
  return table;
}

}  // namespace heed::lab
