#include "lab/data/corpus.h"

#include <string>

#include <gtest/gtest.h>

#include "heed/error.h"

namespace heed::lab {
namespace {

Text Letters(int64_t count) {
  Text text{"letters", {}};
  for (int64_t i = 0; i < count; ++i) text.characters.push_back(U'a' + static_cast<char32_t>(i * 7 % 26));
  return text;
}

TEST(Vocabulary, SortsCharactersAndCountsEachOnce) {
  const Vocabulary vocabulary(U"banana \u00e9!");
  EXPECT_EQ(vocabulary.characters(), U" !abn\u00e9");
}

TEST(Vocabulary, Encodes) {
  const Vocabulary vocabulary(U"hello world");
  const std::vector<int32_t> tokens = vocabulary.Encode({"sample", U"world"});
  EXPECT_EQ(tokens, (std::vector<int32_t>{7, 5, 6, 4, 1}));
}

TEST(Vocabulary, NamesTheUnknownCharacterAndItsPlace) {
  try {
    Vocabulary(U"ab").Encode({"sample", U"abc\u00e9"});
    FAIL();
  } catch (const InvalidArgument& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("sample"), std::string::npos) << message;
    EXPECT_NE(message.find("character 2"), std::string::npos) << message;
    EXPECT_NE(message.find("'c'"), std::string::npos) << message;
  }
}

TEST(Corpus, SplitsByPositionNineToOne) {
  for (const int64_t length : {100, 101, 109, 1115394}) {
    const Text text = Letters(length);
    const Corpus corpus = MakeCorpus(text, 8);
    EXPECT_EQ(static_cast<int64_t>(corpus.train.size()), length * 9 / 10);
    std::vector<int32_t> joined = corpus.train.tokens;
    joined.insert(joined.end(), corpus.validation.begin(), corpus.validation.end());
    EXPECT_EQ(joined, corpus.vocabulary.Encode(text));
  }
}

// The shortest text that MakeCorpus accepts is the one that its message asks for.
TEST(Corpus, RefusesATextTooShortForTheContextAndSaysWhatItNeeds) {
  for (const int64_t context : {1, 2, 7, 8, 9, 10, 63, 64, 65}) {
    int64_t shortest = 0;
    std::string message;
    for (int64_t length = 1; shortest == 0; ++length) {
      try {
        MakeCorpus(Letters(length), context);
        shortest = length;
      } catch (const InvalidArgument& error) {
        message = error.what();
      }
    }
    EXPECT_TRUE(message.ends_with("at least " + std::to_string(shortest))) << message << "; shortest " << shortest;
    EXPECT_NE(message.find("letters"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace heed::lab
