#include "lab/training/trained_model.h"

#include "lab/training/checkpoint.h"
#include "lab/training/language_model.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {

std::shared_ptr<LanguageModel> OpenModel(const RunFolder& folder, LengthPolicy beyond) {
  return std::make_shared<LanguageModel>(LoadModel(folder, beyond));
}

const ModelOptions& OptionsOf(const LanguageModel& model) { return model->options(); }
const Vocabulary& VocabularyOf(const LanguageModel& model) { return model->vocabulary(); }
int64_t ParameterCountOf(const LanguageModel& model) { return ParameterCount(*model); }

}  // namespace heed::lab
