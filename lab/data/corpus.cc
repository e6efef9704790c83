#include "lab/data/corpus.h"

#include <algorithm>
#include <string>
#include <utility>

#include "heed/error.h"
#include "lab/data/random.h"

namespace heed::lab {
namespace {

constexpr uint64_t kSplitSeed = 271828;  // any fixed number: all studies of a text have the same parts
constexpr int64_t kGroup = 10;           // blocks of which one validates and one tests
constexpr int64_t kMostCharacters = 2048, kManyBlocks = 200;

template <class T>
void SpreadOut(std::vector<T>& all, int64_t kept) {
  const int64_t count = std::ssize(all);
  kept = std::clamp<int64_t>(kept, 1, count);
  std::vector<T> spread;
  for (int64_t i = 0; i < kept; ++i) spread.push_back(std::move(all[i * count / kept]));
  all = std::move(spread);
}

}  // namespace

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

TextParts SplitText(const Text& text, int64_t longest) {
  const int64_t length = std::ssize(text.characters);
  const int64_t block = std::max(longest + 1, std::min(kMostCharacters, length / kManyBlocks));
  if (length / kGroup < block) {
    throw InvalidArgument("text '" + text.name + "' has " + std::to_string(length) + " characters; windows of up to " +
                          std::to_string(longest) + " need at least " + std::to_string(kGroup * block) +
                          ": ten blocks, of which one is for validation and one for testing");
  }
  TextParts parts{Vocabulary(text.characters), block, {}, {}, {}, {}, {}};
  const std::vector<int32_t> tokens = parts.vocabulary.Encode(text);
  const auto end_passage = [&train = parts.train] {
    if (train.size() > 0 && (train.ends.empty() || train.ends.back() < train.size())) train.ends.push_back(train.size());
  };
  Random random(kSplitSeed);
  for (int64_t first = 0; first * block < length; first += kGroup) {
    const auto validates = static_cast<int64_t>(random.Below(kGroup));
    const auto tests = (validates + 1 + static_cast<int64_t>(random.Below(kGroup - 1))) % kGroup;
    for (int64_t i = 0; i < kGroup && (first + i) * block < length; ++i) {
      const auto begin = tokens.begin() + (first + i) * block;
      const bool whole = (first + i + 1) * block <= length;
      const auto end = whole ? begin + block : tokens.end();
      if (whole && (i == validates || i == tests)) {
        (i == tests ? parts.test : parts.validation).emplace_back(begin, end);
        (i == tests ? parts.test_at : parts.validation_at).push_back((first + i) * block);
        end_passage();
      } else {
        parts.train.tokens.insert(parts.train.tokens.end(), begin, end);
      }
    }
  }
  end_passage();
  return parts;
}

void TextParts::Thin(int64_t validation_characters, int64_t test_characters) {
  SpreadOut(validation, validation_characters / block), SpreadOut(validation_at, validation_characters / block);
  SpreadOut(test, test_characters / block), SpreadOut(test_at, test_characters / block);
}

}  // namespace heed::lab
