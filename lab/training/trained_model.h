// The model of a run, for callers that do not include LibTorch.
#ifndef HEED_LAB_TRAINING_TRAINED_MODEL_H_
#define HEED_LAB_TRAINING_TRAINED_MODEL_H_

#include <cstdint>
#include <memory>

#include "heed/length_policy.h"
#include "lab/data/vocabulary.h"
#include "lab/training/options.h"
#include "lab/training/run_folder.h"

namespace heed::lab {

class LanguageModel;

// In evaluation mode. beyond: what a learned table does at steps behind its last row. Throws FileError that names the file.
std::shared_ptr<LanguageModel> OpenModel(const RunFolder& folder, LengthPolicy beyond = LengthPolicy::kError);

const ModelOptions& OptionsOf(const LanguageModel& model);
const Vocabulary& VocabularyOf(const LanguageModel& model);
int64_t ParameterCountOf(const LanguageModel& model);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_TRAINED_MODEL_H_
