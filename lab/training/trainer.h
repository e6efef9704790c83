// One training run in memory: the model, its optimiser and the generators, step by step.
#ifndef HEED_LAB_TRAINING_TRAINER_H_
#define HEED_LAB_TRAINING_TRAINER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "heed/nn/safetensors.h"
#include "lab/data/corpus.h"
#include "lab/data/random.h"
#include "lab/training/data_parallel.h"
#include "lab/training/fit.h"
#include "lab/training/language_model.h"
#include "lab/training/optimizer.h"
#include "lab/training/run_folder.h"

namespace heed::lab {

// Reseeds PyTorch's default generator with the seed: it draws the weights and the dropout of the run. With the same options,
// text and number of threads, every step yields the same bits.
//
// With ranks each has a trainer of the same options and text, trains rows of its own of every batch, or tokens of its own of
// rows that ranks share (Ranks::ShareSequences), and all have the same numbers after every step: those of one process but for
// the order in which gradients are added. They call the same functions.
class Trainer {
 public:
  // Throws InvalidArgument that names the option.
  Trainer(Corpus corpus, const TrainOptions& options, Ranks* ranks = nullptr);

  // Goes on until so many steps of options.steps are done, see Fit; the hooks hear of steps that the trainer has counted.
  void Train(int64_t until, const FitHooks& hooks = {});
  int64_t step() const { return step_; }  // steps done
  int64_t steps() const { return options_.steps; }
  bool Done() const { return step_ == options_.steps; }

  // Every eval_every steps and after the last.
  bool ReportDue() const;
  // Throws Divergence where the validation loss is not finite; what it reports on is then still to be reported.
  Metrics Report();
  int64_t last_report() const { return last_report_; }  // step of the last report, 0 before the first

  double tokens_per_second() const;  // since the last report
  LanguageModel& model() { return model_; }
  AdamW& optimizer() { return optimizer_; }

  // All that the next step depends on. The tensors share memory with the trainer. Restore throws FileError naming `path` and
  // then leaves the trainer unfit for use.
  nn::Safetensors State() const;
  void Restore(const nn::Safetensors& state, const std::string& path);
  // Every rank's state becomes that of rank 0. Throws RanksError.
  void Share();

 private:
  NamedTensors StateTensors() const;

  TrainOptions options_;
  Corpus corpus_;
  LanguageModel model_{nullptr};
  AdamW optimizer_;
  std::unique_ptr<DataParallel> parallel_;  // with ranks
  WindowOptions windows_;
  Random random_;
  int64_t step_ = 0, last_report_ = 0;
  double loss_sum_ = 0.0;  // over the steps since the last report
  double seconds_ = 0.0;   // spent in steps since the last report, in this process
  int64_t timed_steps_ = 0;
};

// Writes checkpoint.safetensors and model.safetensors. Throws FileError, and Divergence where a number is not finite; the files
// of an earlier checkpoint survive then.
void SaveCheckpoint(const RunFolder& folder, Trainer& trainer);

// Both throw FileError naming the file. What config.json claims is held against the size of the weights before anything is
// allocated for it.
// A trainer at the step of the folder's checkpoint. `config` is the folder's, `corpus` is made from the run's text. With ranks,
// rank 0 alone reads the folder.
Trainer LoadTrainer(const RunFolder& folder, const RunConfig& config, Corpus corpus, Ranks* ranks = nullptr);
// The model of a finished or unfinished run, in evaluation mode; beyond: see LanguageModel.
LanguageModel LoadModel(const RunFolder& folder, nn::LengthPolicy beyond = nn::LengthPolicy::kError);

// Copies every tensor of `from` to the one of the same name. Throws FileError naming `path` and the tensor unless names, shapes
// and types agree on both sides; nothing is copied then.
void CopyTensors(const std::map<std::string, at::Tensor>& from, const NamedTensors& to, const std::string& path);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_TRAINER_H_
