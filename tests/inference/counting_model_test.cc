// A text's counts from a folder without LibTorch: probabilities by hand, and what is refused. tests/cli holds them to what
// `heed generate` and `heed eval` say.
#include "heed/counting_model.h"

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "damaged_folders.h"
#include "heed/error.h"
#include "stored_tensors.h"
#include "tests/error_text.h"
#include "tests/folder_fixture.h"

namespace heed {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

class CountingModelTest : public ScratchFolderTest {
 protected:
  // "abab" and "aé", in runs of two characters.
  CountingModelTest() {
    config_ = {{"format", 1}, {"kind", "counts"}, {"name", "counting runs of 2 characters"},
               {"order", 2},  {"discount", 0.5},  {"vocabulary", "abcé"}};
  }

  void Write() {
    std::ofstream(At("config.json")) << config_;
    WriteTensors(At("model.safetensors"), {{"tokens", {"I32", {std::ssize(tokens_)}, Bytes(tokens_)}},
                                           {"ends", {"I64", {std::ssize(ends_)}, Bytes(ends_)}}});
  }
  CountingModel Opened() {
    Write();
    return CountingModel(folder().string());
  }
  std::string Refusal() {
    return WhatOf<FileError>([&] { Opened(); });
  }
  void RefusesDamage(int64_t folders);

  Json config_;
  Tokens tokens_ = {0, 1, 0, 1, 0, 3};
  std::vector<int64_t> ends_ = {4, 6};
};

// Of six characters there are three a, two b and one é, which is three different ones; a is followed by b twice and by é, b by
// a.
TEST_F(CountingModelTest, ProbabilitiesByHand) {
  const CountingModel model = Opened();
  EXPECT_TRUE(CountingModel::IsIn(folder().string()));
  EXPECT_EQ(model.name(), "counting runs of 2 characters");
  EXPECT_EQ(model.order(), 2);
  EXPECT_EQ(model.counted(), 6);
  const auto single = [](double count) { return (std::max(count - 0.5, 0.0) + 0.5 * 3 * 0.25) / 6; };
  const std::vector<double> any = {single(3), single(2), single(0), single(1)};
  const std::vector<double> behind_a = {1.0 / 3 * any[0], (1.5 + any[1]) / 3, 1.0 / 3 * any[2], (0.5 + any[3]) / 3};
  const auto near = [](const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-15) << i;
    EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0), 1, 1e-12);
  };
  near(model.Next({}), any);
  near(model.Next(Tokens{0}), behind_a);
  near(model.Next(Tokens{3, 2, 1, 0}), behind_a);
  near(model.Next(Tokens{2}), any);  // what was never seen tells nothing
  EXPECT_NEAR(model.Loss(Tokens{0, 1, 2}), -(std::log(behind_a[1]) + std::log(0.5 * any[2])) / 2, 1e-15);
  EXPECT_EQ(model.Logits(Tokens{0})[1], static_cast<float>(std::log(model.Next(Tokens{0})[1])));
}

TEST_F(CountingModelTest, TheLikeliestGoesOn) {
  const CountingModel model = Opened();
  std::string heard;
  EXPECT_EQ(model.Continue("éa", 5, [&](std::string_view character) { heard += character; }), "babab");
  EXPECT_EQ(heard, "babab");
  EXPECT_EQ(model.Decode(model.Encode("éca")), "éca");
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { model.Continue("x", 1); }), "prompt: character 0, 'x', is not among the 4"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { model.Continue("", 1); }), "prompt: it is empty"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { model.Continue("a", -1); }), "characters: -1 is not 0 or more"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { model.Next(Tokens{4}); }), "tokens: 4 is outside 0..3"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { model.Loss(Tokens{1}); }), "two characters or more"));
}

TEST_F(CountingModelTest, FoldersThatAreNoCountsAreRefused) {
  const Json whole = config_;
  const auto refusal = [&](const char* field, const Json& value) {
    config_ = whole;
    config_[field] = value;
    return Refusal();
  };
  EXPECT_TRUE(Holds(refusal("format", 2), "config.json: 'format' is not an integer in 1..1"));
  EXPECT_TRUE(Holds(refusal("kind", "table"), "'kind' is not \"counts\""));
  EXPECT_TRUE(Holds(refusal("order", 13), "'order' is not an integer in 1..12"));
  EXPECT_TRUE(Holds(refusal("discount", 1), "'discount' is not between 0 and 1"));
  EXPECT_TRUE(Holds(refusal("vocabulary", "ba"), "'vocabulary' is not sorted"));
  EXPECT_TRUE(Holds(refusal("vocabulary", "ab"), "model.safetensors: 'tokens' hold what the vocabulary does not"));
  config_ = whole;
  ends_ = {4, 5};
  EXPECT_TRUE(Holds(Refusal(), "'ends' are not those of passages"));
  ends_ = {-1, 6};
  EXPECT_TRUE(Holds(Refusal(), "'ends' are not those of passages"));
  ends_ = {};
  EXPECT_TRUE(Holds(Refusal(), "'tokens' and 'ends'"));
}

void CountingModelTest::RefusesDamage(int64_t folders) {
  Write();
  std::mt19937 generator(13);
  const int64_t refused = RefusedOfDamaged(folder().string(), folders, generator, [&] {
    const CountingModel model(folder().string());
    model.Continue(model.Decode(Tokens{0}), 5);
  });
  EXPECT_GT(refused, folders / 3);
}

TEST_F(CountingModelTest, DamagedFoldersAreRefused) { RefusesDamage(120); }
using LongCountingModelTest = CountingModelTest;
TEST_F(LongCountingModelTest, TwentyThousandDamagedFoldersAreRefused) { RefusesDamage(20000); }

}  // namespace
}  // namespace heed
