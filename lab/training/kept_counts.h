// A text's counting model as it is kept in a folder, where a study found that no network loses less:
//
//   config.json          order, discount, vocabulary, what it reached on the test part
//   model.safetensors    the characters that it counts: "tokens", and where their passages "ends"
//
// heed::CountingModel opens it.
#ifndef HEED_LAB_TRAINING_KEPT_COUNTS_H_
#define HEED_LAB_TRAINING_KEPT_COUNTS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "heed/counting_model.h"
#include "lab/data/text.h"
#include "lab/training/evaluation.h"
#include "lab/training/generation.h"

namespace heed::lab {

struct KeptCounts {
  std::string name;     // "counting runs of 5 characters"
  int64_t order = 1;    // characters of a run: the one that is predicted, and those before it that are looked at
  double discount = 0;  // see DiscountedCounts
  Vocabulary vocabulary;
  Passages text;                                                       // that is counted
  nlohmann::ordered_json training = nlohmann::ordered_json::object();  // for people: of which text
  nlohmann::ordered_json reached = nlohmann::ordered_json::object();   // for people: what was measured on the test part
};

// Throws FileError.
void WriteCounts(const KeptCounts& kept, const std::filesystem::path& folder);

// Every token of a text but its first. Throws InvalidArgument where there is none.
Evaluation Evaluate(const CountingModel& model, const std::vector<int32_t>& tokens);
// As Generate does with a network.
std::u32string Generate(const CountingModel& model, const Text& prompt, const GenerateOptions& options,
                        const std::function<void(char32_t)>& on_character = {});

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_KEPT_COUNTS_H_
