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

// Reports and checkpoints of a run.
class Journal {
 public:
  Journal(const RunFolder& folder, std::vector<Metrics> metrics, const TrainCallbacks& callbacks, Ranks* ranks)
      : folder_(folder), ranks_(ranks), metrics_(std::move(metrics)), callbacks_(callbacks) {
    const auto watch = [this] { watch_.emplace(folder_.path(), folder_.config().filename().string()); };
    OnFirst(ranks_, watch, kOpens);
  }

  void Report(Trainer& trainer) {
    try {
      metrics_.push_back(trainer.Report());
    } catch (const Interruption&) {
      Interrupt(trainer);
    }
    // Metrics first: lines beyond the checkpoint are dropped when a run resumes, missing ones would stay missing.
    const auto write = [this] {
      watch_->Check();
      folder_.WriteMetrics(metrics_);
    };
    OnFirst(ranks_, write, "rank 0, which writes the metrics");
    Save(trainer);
    if (callbacks_.on_report) callbacks_.on_report(metrics_.back());
  }

  void Save(Trainer& trainer) {
    const auto save = [&] {
      watch_->Check();
      SaveCheckpoint(folder_, trainer);
      watch_->Check();
    };
    OnFirst(ranks_, save, "rank 0, which writes the checkpoint of step " + std::to_string(trainer.step()));
    saved_ = trainer.step();
  }

  [[noreturn]] void Diverge(const Divergence& error) const {
    throw Divergence(error.what() + std::string("; ") + Saved() + ", with a lower --lr or --weight-decay");
  }

  [[noreturn]] void Lose(const RanksError& error) const {
    if (!saved_) throw error;
    throw RanksError(error.what() + std::string("; ") + Saved());
  }

  [[noreturn]] void Interrupt(Trainer& trainer) {
    Save(trainer);
    throw Interruption("interrupted after step " + std::to_string(trainer.step()) + "; " + folder_.path().string() +
                       " holds a checkpoint to resume from");
  }

  std::vector<Metrics> TakeMetrics() { return std::move(metrics_); }

 private:
  std::string Saved() const {
    return folder_.path().string() + " holds a checkpoint of step " + std::to_string(saved_.value_or(0)) +
           ", from which --resume goes on";
  }

  const RunFolder& folder_;
  Ranks* ranks_;
  std::optional<FolderWatch> watch_;  // of the folder, on rank 0
  std::optional<int64_t> saved_;      // step of the last checkpoint
  std::vector<Metrics> metrics_;
  const TrainCallbacks& callbacks_;
};

TrainResult Drive(Trainer& trainer, Journal& journal, const TrainCallbacks& callbacks) {
  const auto start = std::chrono::steady_clock::now();
  if (callbacks.on_start) callbacks.on_start(trainer.model(), trainer.step());
  const auto report = [&] {
    if (trainer.ReportDue()) journal.Report(trainer);
  };
  FitHooks hooks;
  hooks.on_step = [&](const FitStep& step) {
    if (callbacks.on_step) callbacks.on_step(step.number, step.loss, trainer.tokens_per_second());
    report();
  };
  hooks.on_interrupt = [&] { journal.Interrupt(trainer); };
  journal.Save(trainer);
  try {
    report();  // the one that an earlier process was interrupted in
    trainer.Train(trainer.steps(), hooks);
  } catch (const Divergence& error) {
    journal.Diverge(error);
  } catch (const RanksError& error) {
    journal.Lose(error);
  }
  trainer.optimizer().UseMeans();
  trainer.model()->eval();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {std::make_shared<LanguageModel>(trainer.model()), journal.TakeMetrics(), seconds};
}

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
  Journal journal(folder, {}, callbacks, ranks);
  return Drive(trainer, journal, callbacks);
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
  Journal journal(folder, std::move(metrics), callbacks, ranks);
  return Drive(trainer, journal, callbacks);
}

}  // namespace heed::lab
