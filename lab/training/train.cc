#include "lab/training/train.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <ATen/Parallel.h>

#include "heed/error.h"
#include "lab/data/corpus.h"
#include "lab/report/file.h"
#include "lab/training/interrupt.h"
#include "lab/training/ranks.h"
#include "lab/training/run_folder.h"
#include "lab/training/trainer.h"

namespace heed::lab {
namespace {

// A run in its folder: steps, reports and checkpoints.
class Journal {
 public:
  Journal(Trainer& trainer, const RunFolder& folder, std::vector<Metrics> metrics, const TrainCallbacks& callbacks,
          Ranks* ranks)
      : trainer_(trainer), folder_(folder), ranks_(ranks), metrics_(std::move(metrics)), callbacks_(callbacks) {
    const auto watch = [this] { watch_.emplace(folder_.path(), folder_.config().filename().string()); };
    OnFirst(ranks_, watch, kOpens);
  }

  TrainResult Drive() {
    const auto start = std::chrono::steady_clock::now();
    if (callbacks_.on_start) callbacks_.on_start(trainer_.model(), trainer_.step());
    FitHooks hooks;
    hooks.on_step = [this](const FitStep& step) {
      if (callbacks_.on_step) callbacks_.on_step(step.number, step.loss, trainer_.tokens_per_second());
      Report();
    };
    hooks.on_interrupt = [this] { Interrupt(); };
    Save();
    try {
      Report();  // the one that an earlier process was interrupted in
      trainer_.Train(trainer_.steps(), hooks);
    } catch (const Divergence& error) {
      throw Divergence(error.what() + Saved() + ", with a lower --lr or --weight-decay");
    } catch (const RanksError& error) {
      throw RanksError(error.what() + Saved());
    }
    trainer_.optimizer().UseMeans();
    trainer_.model()->eval();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return {std::make_shared<LanguageModel>(trainer_.model()), std::move(metrics_), seconds};
  }

 private:
  void Report() {
    if (!trainer_.ReportDue()) return;
    try {
      metrics_.push_back(trainer_.Report());
    } catch (const Interruption&) {
      Interrupt();
    }
    // Metrics first: lines beyond the checkpoint are dropped when a run resumes, missing ones would stay missing.
    const auto write = [this] {
      watch_->Check();
      folder_.WriteMetrics(metrics_);
    };
    OnFirst(ranks_, write, "rank 0, which writes the metrics");
    Save();
    if (callbacks_.on_report) callbacks_.on_report(metrics_.back());
  }

  void Save() {
    const auto save = [this] {
      watch_->Check();
      SaveCheckpoint(folder_, trainer_);
      watch_->Check();
    };
    OnFirst(ranks_, save, "rank 0, which writes the checkpoint of step " + std::to_string(trainer_.step()));
    saved_ = trainer_.step();
  }

  [[noreturn]] void Interrupt() {
    Save();
    throw Interruption("interrupted after step " + std::to_string(saved_) + "; " + folder_.path().string() +
                       " holds a checkpoint to resume from");
  }

  std::string Saved() const {
    return "; " + folder_.path().string() + " holds a checkpoint of step " + std::to_string(saved_) +
           ", from which --resume goes on";
  }

  Trainer& trainer_;
  const RunFolder& folder_;
  Ranks* ranks_;
  std::optional<FolderWatch> watch_;  // of the folder, on rank 0
  int64_t saved_ = 0;                 // step of the last checkpoint
  std::vector<Metrics> metrics_;
  const TrainCallbacks& callbacks_;
};

}  // namespace

TrainResult Train(const Text& text, const TrainOptions& options, const RunFolder& folder, const TrainCallbacks& callbacks,
                  Ranks* ranks) {
  Validate(options);
  const auto require_new = [&] {
    // A kept model has no checkpoint.
    if (std::filesystem::exists(folder.checkpoint()) || std::filesystem::exists(folder.path() / "model.safetensors")) {
      throw InvalidArgument("out: " + folder.path().string() +
                            " holds a run already; go on with it (--resume), remove it or choose another folder");
    }
  };
  OnFirst(ranks, require_new, kOpens);
  Corpus corpus = MakeCorpus(text, options.model.context);
  const RunConfig config{options, corpus.vocabulary, Identify(text), at::get_num_threads()};
  Trainer trainer(std::move(corpus), options, ranks);
  trainer.Share();
  OnFirst(
      ranks, [&] { folder.WriteConfig(config); }, kOpens);
  return Journal(trainer, folder, {}, callbacks, ranks).Drive();
}

TrainResult Resume(const Text& text, const RunFolder& folder, const TrainCallbacks& callbacks,
                   const std::optional<TrainOptions>& changed, Ranks* ranks) {
  RunConfig config = folder.ReadConfig(ranks);
  if (changed) config.options = *changed;
  const TextIdentity identity = Identify(text);
  if (identity.characters != config.text.characters || identity.fingerprint != config.text.fingerprint) {
    throw InvalidArgument("text '" + text.name + "' is not the text that the run in " + folder.path().string() +
                          " began with ('" + config.text.name + "', " + std::to_string(config.text.characters) +
                          " characters)");
  }
  Trainer trainer = LoadTrainer(folder, config, MakeCorpus(text, config.options.model.context), ranks);
  if (changed) {
    if (trainer.Done()) {
      throw InvalidArgument("lr, min_lr, weight_decay, clip: the run in " + folder.path().string() +
                            " has no steps left to train with other values");
    }
    OnFirst(
        ranks, [&] { folder.WriteConfig(config); }, kOpens);
  }
  std::vector<Metrics> metrics;
  OnFirst(
      ranks, [&] { metrics = folder.ReadMetrics(trainer.last_report()); }, kOpens);
  return Journal(trainer, folder, std::move(metrics), callbacks, ranks).Drive();
}

}  // namespace heed::lab
