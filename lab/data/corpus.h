// A text made ready for training: tokens, split by position.
#ifndef HEED_LAB_DATA_CORPUS_H_
#define HEED_LAB_DATA_CORPUS_H_

#include <cstdint>
#include <vector>

#include "lab/data/passages.h"
#include "lab/data/text.h"
#include "lab/data/vocabulary.h"

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

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_CORPUS_H_
