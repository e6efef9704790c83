#include "bench/suites/shape.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <random>
#include <utility>

#include <fmt/core.h>

#include "bench/plans/call_plan.h"
#include "bench/suites/measurement.h"
#include "heed/error.h"
#include "heed/task_observer.h"
#include "lab/report/progress.h"
#include "lab/training/interrupt.h"
#include "reference/peaks.h"
#include "reference/trial_arrays.h"

namespace heed::lab {
namespace {

// Shows how far a call is, and ends it when the user asks for that.
class WatchedPool final : public Executor, public TaskObserver {
 public:
  // total: multiply-adds of all calls
  WatchedPool(int threads, double total, bool quiet) : pool_(threads), total_(total), progress_("bench", kSteps, quiet) {}

  void ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) override { pool_.ParallelFor(tasks, task); }
  int concurrency() const override { return pool_.concurrency(); }

  // From here on calls of so many multiply-adds run, which count once.
  void Begin(double work, const std::string& note) {
    done_ += std::exchange(work_, work);
    note_ = note;
    share_ = 0;
  }
  void Took(int64_t place, int64_t tasks) override { Show(static_cast<double>(place) / static_cast<double>(tasks)); }
  void Passed(int64_t place, int64_t part, int64_t parts) override {
    if (place == 0) Show(static_cast<double>(part) / static_cast<double>(parts));
  }

 private:
  static constexpr int64_t kSteps = 1000;

  void Show(double share) {
    if (Interrupted()) throw Interruption("interrupted");
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    share_ = std::max(share_, share);
    progress_.Update(std::llround(kSteps * (done_ + share_ * work_) / total_), note_);
  }

  ThreadPool pool_;
  std::mutex mutex_;
  double total_, done_ = 0, work_ = 0, share_ = 0;
  std::string note_;
  Progress progress_;
};

// The arrays of a call.
template <class T>
class Arrays {
 public:
  Arrays(const ShapeCall& call, uint64_t seed) : call_(call), random_(seed) {
    const Shape& shape = call.shape;
    const auto filled = [&](int64_t heads, int64_t length, int64_t width) {
      std::vector<T> array(static_cast<std::size_t>(shape.batch * heads * length * width));
      // Cheap numbers of about unit variance: a generator with a good tail would take longer than short calls.
      for (T& x : array) x = reference::Rounded<T>(static_cast<float>(random_() >> 8) * 0x1p-56F * 3.4F - 1.7F);
      return array;
    };
    q_ = filled(shape.q_heads, shape.q_len, shape.head_dim);
    k_ = filled(shape.kv_heads, shape.kv_len, shape.head_dim);
    v_ = filled(shape.kv_heads, shape.kv_len, shape.value_dim);
    out_.resize(q_.size());
    lse_.resize(static_cast<std::size_t>(shape.batch * shape.q_heads * shape.q_len));
    if (!call.backward) return;
    d_out_ = filled(shape.q_heads, shape.q_len, shape.value_dim);
    d_q_.resize(q_.size());
    d_k_.resize(k_.size());
    d_v_.resize(v_.size());
  }

  void Forward(Executor& executor) {
    const Shape& s = call_.shape;
    heed::Forward<T>(call_.attention, Queries(q_), Keys(k_), Keys(v_), Queries(out_),
                     View<Accum<T>, 3>::Contiguous(lse_.data(), {s.batch, s.q_heads, s.q_len}), workspace_, executor);
  }
  void Backward(Executor& executor) {
    const Shape& s = call_.shape;
    heed::Backward<T>(call_.attention, Queries(q_), Keys(k_), Keys(v_), Queries(out_),
                      View<const Accum<T>, 3>::Contiguous(lse_.data(), {s.batch, s.q_heads, s.q_len}), Queries(d_out_),
                      Queries(d_q_), Keys(d_k_), Keys(d_v_), {}, workspace_, executor);
  }
  void Run(Executor& executor) { call_.backward ? Backward(executor) : Forward(executor); }

  double Bytes() const {
    const std::size_t elements =
        q_.size() + k_.size() + v_.size() + out_.size() + d_out_.size() + d_q_.size() + d_k_.size() + d_v_.size();
    return static_cast<double>(elements * sizeof(T) + lse_.size() * sizeof(Accum<T>));
  }

 private:
  View<T, 4> Queries(std::vector<T>& array) const { return Of(array, call_.shape.q_heads, call_.shape.q_len); }
  View<T, 4> Keys(std::vector<T>& array) const { return Of(array, call_.shape.kv_heads, call_.shape.kv_len); }
  View<T, 4> Of(std::vector<T>& array, int64_t heads, int64_t length) const {
    return View<T, 4>::Contiguous(array.data(), {call_.shape.batch, heads, length, call_.shape.head_dim});
  }

  const ShapeCall& call_;
  std::mt19937_64 random_;
  std::vector<T> q_, k_, v_, out_, d_out_, d_q_, d_k_, d_v_;
  std::vector<Accum<T>> lse_;
  Workspace workspace_;
};

// Useful multiply-adds of a call, as its plan counts them.
double WorkOf(const ShapeCall& call) {
  const CallPlan plan = (call.backward ? &PlanBackward : &PlanForward)(call.attention, call.shape, ElementBytes(call.type), 1);
  double pairs = 0;
  for (const TaskCost& task : plan.steps[0].tasks) pairs += static_cast<double>(task.pairs);
  return pairs * plan.multiply_adds_per_pair;
}

template <class T>
ShapeRow Measure(const ShapeCall& call, double work, const ShapeRuns& runs, WatchedPool& pool) {
  using Clock = std::chrono::steady_clock;
  constexpr double kMib = 1 << 20;
  ForgetPeakResident();
  Arrays<T> arrays(call, runs.seed);
  pool.Begin(call.backward ? 0.4 * work : 0, ShapeText(call.shape) + " forward");
  if (call.backward) arrays.Forward(pool);
  pool.Begin(work, ShapeText(call.shape) + " " + call.PassText());
  // The first run of a short call finds memory that is not there yet.
  std::vector<double> seconds;
  double peak = 0;
  const auto start = Clock::now();
  while (static_cast<int>(seconds.size()) <= runs.rounds) {
    peak = std::max(peak, reference::FmaPeak(call.type == BenchType::kDouble ? 8 : 4, 0.02));
    seconds.push_back(SecondsOf([&] { arrays.Run(pool); }));
    if (std::chrono::duration<double>(Clock::now() - start).count() > runs.seconds) break;
  }
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  std::sort(seconds.begin(), seconds.end());
  ShapeRow row{
      .shape = ShapeText(call.shape), .option = call.OptionText(), .pass = call.PassText(), .threads = pool.concurrency()};
  row.runs = static_cast<int64_t>(seconds.size());
  row.ms = seconds.front() * 1e3;
  row.median_ms = seconds[seconds.size() / 2] * 1e3;
  row.gflops = 2 * work / seconds.front() * 1e-9;
  row.peak_gflops = peak * 1e-9;
  row.percent_of_peak = 100 * row.gflops / (row.peak_gflops * row.threads);
  row.array_mib = arrays.Bytes() / kMib;
  row.resident_mib = PeakResident();
  return row;
}

ShapeRow Measure(const ShapeCall& call, double work, const ShapeRuns& runs, WatchedPool& pool) {
  if (call.type == BenchType::kDouble) return Measure<double>(call, work, runs, pool);
  if (call.type == BenchType::kBFloat16) return Measure<BFloat16>(call, work, runs, pool);
  if (call.type == BenchType::kHalf) return Measure<Float16>(call, work, runs, pool);
  return Measure<float>(call, work, runs, pool);
}

}  // namespace

Fields FieldsOf(ShapeOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 40;
  return {OrNone(Whole("n", &options.lengths, 1, kMost,
                       "Keys, and queries unless --queries is given: numbers with commas, and ranges 1024:65536 that double; "
                       "one call for each")),
          Whole("queries", &options.queries, 0, kMost, "Queries, the last of the sequence; 0: as many as keys"),
          Whole("batch", &options.batch, 1, kMost, "Sequences"),
          Whole("heads", &options.heads, 1, kMost, "Query heads"),
          Whole("key_heads", &options.key_heads, 0, kMost, "Key heads; 0: as many as query heads"),
          Whole("width", &options.width, 1, kMost, "Width of a head"),
          Switch("causal", options.causal, "Queries see no later keys"),
          Whole("window", &options.window, 0, kMost, "Keys that a query sees, the last of them its own; 0: all"),
          Names("type", &options.type, TypeNames(), "Elements"),
          Names("pass", &options.pass, {"forward", "backward", "both"}, "Pass to measure")};
}

std::string ShapeCall::OptionText() const {
  std::string text = attention.causal == Causal::kNone ? "full" : "causal";
  if (attention.window.present()) text = fmt::format("window {}", attention.window.left + 1);
  return type == BenchType::kFloat ? text : text + ", " + TypeNames().at(static_cast<std::size_t>(type));
}

std::vector<ShapeCall> CallsOf(const ShapeOptions& options) {
  const int64_t key_heads = options.key_heads == 0 ? options.heads : options.key_heads;
  if (options.heads % key_heads != 0)
    throw InvalidArgument(
        fmt::format("--key-heads: expected a number that divides --heads {}, got {}", options.heads, key_heads));
  std::vector<ShapeCall> calls;
  for (const int64_t n : options.lengths)
    for (const bool backward : {false, true}) {
      if (options.pass == (backward ? "forward" : "backward")) continue;
      ShapeCall& call = calls.emplace_back();
      const int64_t queries = options.queries == 0 ? n : options.queries;
      call.shape = {options.batch, options.heads, key_heads, queries, n, options.width, options.width};
      // A window ends at the query's own key, with or without --causal.
      if (options.causal || options.window > 0) call.attention.causal = Causal::kBottomRight;
      if (options.window > 0) call.attention.window.left = options.window - 1;
      call.type = static_cast<BenchType>(std::ranges::find(TypeNames(), options.type) - TypeNames().begin());
      call.backward = backward;
    }
  return calls;
}

std::vector<ShapeRow> RunShapes(const std::vector<ShapeCall>& calls, const ShapeRuns& runs,
                                const std::function<void(const ShapeRow&)>& done) {
  std::vector<double> works;
  double total = 0;
  for (const ShapeCall& call : calls) {
    works.push_back(WorkOf(call));
    total += works.back() * (call.backward ? 1.4 : 1);  // with the forward pass before it
  }
  WatchedPool pool(runs.threads, std::max(total, 1.0), runs.quiet);
  std::vector<ShapeRow> rows;
  for (std::size_t x = 0; x < calls.size(); ++x) {
    rows.push_back(Measure(calls[x], works[x], runs, pool));
    done(rows.back());
  }
  pool.Begin(0, "");
  return rows;
}

nlohmann::ordered_json ShapeJson(const std::vector<ShapeRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ShapeRow& row : rows)
    list.push_back({{"shape", row.shape},
                    {"option", row.option},
                    {"pass", row.pass},
                    {"threads", row.threads},
                    {"runs", row.runs},
                    {"ms", row.ms},
                    {"median_ms", row.median_ms},
                    {"gflops", row.gflops},
                    {"peak_gflops", row.peak_gflops},
                    {"percent_of_peak", row.percent_of_peak},
                    {"array_mib", row.array_mib},
                    {"resident_mib", row.resident_mib}});
  return list;
}

}  // namespace heed::lab
