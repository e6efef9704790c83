#include "lab/data/corpus.h"

#include <algorithm>
#include <utility>

#include "heed/error.h"

namespace heed::lab {

int64_t TrainLength(int64_t characters) { return characters / 10 * 9 + characters % 10 * 9 / 10; }

Corpus MakeCorpus(const Text& text, int64_t context) {
  const int64_t length = static_cast<int64_t>(text.characters.size());
  const int64_t train = TrainLength(length);
  if (train < context + 1 || length - train < 2) {
    const int64_t needed = std::max<int64_t>(((context + 1) * 10 + 8) / 9, 11);
    throw InvalidArgument("text '" + text.name + "' has " + std::to_string(length) + " characters; a context of " +
                          std::to_string(context) + " needs at least " + std::to_string(needed));
  }
  Corpus corpus{Vocabulary(text.characters), {}, {}};
  std::vector<int32_t> tokens = corpus.vocabulary.Encode(text);
  corpus.validation.assign(tokens.begin() + train, tokens.end());
  tokens.resize(train);
  corpus.train = Passages(std::move(tokens));
  return corpus;
}

}  // namespace heed::lab
