// A text made ready for training: tokens, split by position.
#ifndef HEED_LAB_DATA_CORPUS_H_
#define HEED_LAB_DATA_CORPUS_H_

#include <cstdint>
#include <vector>

#include "lab/data/text.h"

namespace heed::lab {

// How many of a text's characters are for training: nine tenths, rounded down.
int64_t TrainLength(int64_t characters);

// The first nine tenths of the text are for training, the rest for validation. The vocabulary is that of the
// whole text.
struct Corpus {
  Vocabulary vocabulary;
  Passages train;
  std::vector<int32_t> validation;
};

// Throws InvalidArgument that names the text when it is too short for one window of `context` characters and the character
// after it in the training part, and for one prediction in the validation part.
Corpus MakeCorpus(const Text& text, int64_t context);

// The text is cut into blocks of equal length. Of every ten that follow one another one is for validation and one for testing,
// drawn with a fixed seed, so that every part has seen all of the text; a rest shorter than a block is for training. The
// vocabulary is that of the whole text.
struct TextParts {
  Vocabulary vocabulary;
  int64_t block = 0;  // characters of one
  Passages train;
  std::vector<std::vector<int32_t>> validation, test;  // blocks, in the order of the text
  std::vector<int64_t> validation_at, test_at;         // the first character of each

  // Keeps so many of the blocks that validate and that test, evenly spread over the text; at least one of each.
  void Thin(int64_t validation_characters, int64_t test_characters);
};

// Blocks have at least `longest` + 1 characters, so that a window of `longest` has a next one, and else a two hundredth of the
// text, at most 2048. Throws InvalidArgument that names the text where it has not ten blocks.
TextParts SplitText(const Text& text, int64_t longest);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_CORPUS_H_
