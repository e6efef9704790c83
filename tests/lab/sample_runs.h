// Texts and models small enough for a test to train.
#ifndef HEED_TESTS_LAB_SAMPLE_RUNS_H_
#define HEED_TESTS_LAB_SAMPLE_RUNS_H_

#include <cstring>
#include <string>
#include <vector>

#include "lab/training/language_model.h"
#include "lab/training/options.h"

namespace heed::lab {

// 1800 characters in which every character follows from the three before it.
inline Text SampleText() {
  Text text{"sample", {}};
  for (int i = 0; i < 120; ++i) text.characters += U"one two, three!";
  return text;
}

inline ModelOptions SmallModel(const std::string& encoder = "attention") {
  ModelOptions model;
  model.encoder = encoder;
  model.position = encoder == "attention" ? "learned" : "none";
  model.layers = 2;
  model.heads = 2;
  model.width = 16;
  model.context = 16;
  return model;
}

inline TrainOptions SmallRun(const std::string& encoder = "attention") {
  TrainOptions options;
  options.model = SmallModel(encoder);
  options.batch = 4;
  options.steps = 12;
  options.warmup = 3;
  options.eval_every = 5;
  return options;
}

// The bytes of every parameter, one after another.
inline std::vector<char> Bits(const LanguageModel& model) {
  std::vector<char> bytes;
  for (const at::Tensor& parameter : model->parameters()) {
    const at::Tensor flat = parameter.detach().contiguous();
    const char* first = static_cast<const char*>(flat.const_data_ptr());
    bytes.insert(bytes.end(), first, first + flat.nbytes());
  }
  return bytes;
}

}  // namespace heed::lab

#endif  // HEED_TESTS_LAB_SAMPLE_RUNS_H_
