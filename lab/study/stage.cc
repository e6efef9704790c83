#include "lab/study/stage.h"

#include <atomic>
#include <cstdio>
#include <functional>
#include <optional>

#include "lab/report/progress.h"
#include "lab/training/divergence.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

struct Task {
  const StudyModel* model;
  TrainOptions options;
  StudyRun* result;
};

StudyRun Trained(const Corpus& corpus, const Task& task, const std::function<void(int64_t)>& on_step) {
  try {
    return TrainAndEvaluate(corpus, task.options, on_step);
  } catch (const Divergence& error) {
    throw Divergence(RunStore::NameOf(*task.model, task.options) + ": " + error.what());
  }
}

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
  SideBySide(static_cast<int64_t>(tasks.size()), options.threads, progress, found, [&](int64_t i, std::atomic<int64_t>& done) {
    const Task& task = tasks[static_cast<std::size_t>(i)];
    *task.result = Trained(corpus, task, [&done](int64_t) { ++done; });
    store.Keep(*task.model, task.options, *task.result);
    char note[128];
    std::snprintf(note, sizeof note, "%s: %.3f", task.model->Label().c_str(), task.result->losses.front());
    return std::string(note);
  });
  return runs;
}

}  // namespace heed::lab
