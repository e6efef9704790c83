// A text in three parts: to train on, to choose by, and to report on.
#ifndef HEED_LAB_DATA_PARTS_H_
#define HEED_LAB_DATA_PARTS_H_

#include <cstdint>
#include <vector>

#include "lab/data/passages.h"
#include "lab/data/text.h"
#include "lab/data/vocabulary.h"

namespace heed::lab {

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

#endif  // HEED_LAB_DATA_PARTS_H_
