// Models and runs, to files and back.
#ifndef HEED_LAB_TRAINING_CHECKPOINT_H_
#define HEED_LAB_TRAINING_CHECKPOINT_H_

#include <map>
#include <string>

#include "lab/training/language_model.h"
#include "lab/training/optimizer.h"
#include "lab/training/run_folder.h"
#include "lab/training/trainer.h"

namespace heed::lab {

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

#endif  // HEED_LAB_TRAINING_CHECKPOINT_H_
