// The input of an inspection: a model with the text or the sequence that it reads.
#ifndef HEED_LAB_INSPECTION_READING_H_
#define HEED_LAB_INSPECTION_READING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/data/text.h"

namespace torch::nn {
class Module;
}

namespace heed::lab {

class LanguageModel;
struct KeptModel;
struct SeriesData;

struct Reading {
  std::string name;              // of the text, or of the file and the sequence
  nlohmann::ordered_json shown;  // the text, a character a token; or the steps' labels, an array of strings
  std::string unit, legend;      // "characters" or "steps"; a sentence on what stands for a token
  int64_t tokens = 0;
  std::string encoder, position;
  int64_t layers = 0, heads = 0;
  bool causal = false;  // a token sees itself and what is before it
  std::shared_ptr<torch::nn::Module> model;
  std::function<void()> run;  // one forward pass over all tokens, as one window that begins at position 0, without dropout
};

// Which heads of its model are looked at, counted from 0.
struct HeadSelection {
  std::vector<int64_t> layers, heads;
};

inline constexpr int64_t kMostTokens = 4096;  // a matrix of weights takes 64 MiB then

// The first `tokens` characters of the text, 0: all. Throws InvalidArgument that names the option or the text and says what to
// do: a text that is too long for the model or for a page, a character that the model does not know.
Reading ReadingOf(const LanguageModel& model, const Text& text, int64_t tokens = 0);

// The sequence of this name, empty: the first; of it the steps that the model reads, which are its last ones, or the first
// `tokens` of these. Throws InvalidArgument that names the option, and FileError for what the model cannot compute with.
Reading ReadingOf(const KeptModel& model, const SeriesData& data, const std::string& sequence, int64_t tokens = 0);

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_READING_H_
