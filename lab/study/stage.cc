#include "lab/study/stage.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <ATen/Parallel.h>

#include "lab/report/progress.h"

namespace heed::lab {
namespace {

// One thread within an operation for as long as it lives; threads started meanwhile inherit it.
class OneThreadEach {
 public:
  OneThreadEach() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThreadEach() { at::set_num_threads(before_); }
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;

 private:
  int before_;
};

struct Task {
  const StudyModel* model;
  TrainOptions options;
  StudyRun* result;
};

// Workers take the tasks in order; the thread that made them draws the bar.
class Workers {
 public:
  Workers(const Corpus& corpus, const RunStore& store, const std::vector<Task>& tasks)
      : corpus_(corpus), store_(store), tasks_(tasks) {}

  void Run(int threads, Progress& progress, int64_t steps_before) {
    const int count = static_cast<int>(std::min<std::size_t>(threads, tasks_.size()));
    working_ = count;
    std::vector<std::thread> workers;
    workers.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) workers.emplace_back([this] { Work(); });
    Watch(progress, steps_before);
    for (std::thread& worker : workers) worker.join();
    if (first_error_) std::rethrow_exception(first_error_);
  }

 private:
  void Work() {
    try {
      for (std::size_t i = next_++; i < tasks_.size() && !stop_; i = next_++) Do(tasks_[i]);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!first_error_) first_error_ = std::current_exception();
      stop_ = true;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    --working_;
    changed_.notify_one();
  }

  void Do(const Task& task) {
    *task.result = TrainAndEvaluate(corpus_, task.options, [this](int64_t) { ++steps_; });
    store_.Keep(*task.model, task.options, *task.result);
    char note[128];
    std::snprintf(note, sizeof note, "%s: %.3f", task.model->Label().c_str(), task.result->losses.front());
    const std::lock_guard<std::mutex> lock(mutex_);
    note_ = note;
  }

  void Watch(Progress& progress, int64_t steps_before) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (working_ > 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      progress.Update(steps_before + steps_, note_);
    }
  }

  const Corpus& corpus_;
  const RunStore& store_;
  const std::vector<Task>& tasks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<int64_t> steps_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  int working_ = 0;
  std::string note_;
  std::exception_ptr first_error_;
};

}  // namespace

std::vector<std::vector<StudyRun>> TrainStage(const std::string& what, const Corpus& corpus, const StudyOptions& options,
                                              const std::vector<StudyModel>& models, const RunStore& store) {
  std::vector<std::vector<StudyRun>> runs(models.size(), std::vector<StudyRun>(options.seeds));
  std::vector<Task> tasks;
  int64_t total = 0, found = 0;
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (int64_t s = 0; s < options.seeds; ++s) {
      const TrainOptions training = TrainingOf(options, models[m], options.seed + static_cast<uint64_t>(s));
      total += training.steps;
      if (const std::optional<StudyRun> kept = store.Find(models[m], training)) {
        runs[m][s] = *kept;
        found += training.steps;
      } else {
        tasks.push_back({&models[m], training, &runs[m][s]});
      }
    }
  }
  Progress progress(what, total, options.quiet, found);
  const OneThreadEach one_thread_each;
  Workers(corpus, store, tasks).Run(options.threads, progress, found);
  return runs;
}

}  // namespace heed::lab
