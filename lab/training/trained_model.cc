#include "lab/training/trained_model.h"

#include "lab/training/checkpoint.h"
#include "lab/training/language_model.h"

namespace heed::lab {

std::shared_ptr<LanguageModel> OpenModel(const RunFolder& folder, Beyond beyond) {
  const auto policy = beyond == Beyond::kClamp ? nn::LengthPolicy::kClamp : nn::LengthPolicy::kError;
  return std::make_shared<LanguageModel>(LoadModel(folder, policy));
}

const ModelOptions& OptionsOf(const LanguageModel& model) { return model->options(); }
const Vocabulary& VocabularyOf(const LanguageModel& model) { return model->vocabulary(); }
int64_t ParameterCountOf(const LanguageModel& model) { return model->ParameterCount(); }

}  // namespace heed::lab
