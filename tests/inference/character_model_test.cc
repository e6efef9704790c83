// Models of characters from a folder: steps with caches are the whole pass, and what does not fit leaves everything as it was.
// tests/cli holds them to what `heed generate` writes.
#include "heed/character_model.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "stored_tensors.h"
#include "tests/folder_fixture.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 8, kContext = 10, kDistance = 20, kHidden = 12;

class CharacterModelTest : public ScratchFolderTest {
 protected:
  // A model of two layers whose weights are random and the same every time.
  void Write(const std::string& position, bool tied = false) {
    const nlohmann::json model = {{"encoder", "attention"},
                                  {"position", position},
                                  {"objective", "causal"},
                                  {"layers", 2},
                                  {"heads", 2},
                                  {"width", kWidth},
                                  {"context", kContext},
                                  {"ffn_width", kHidden},
                                  {"max_distance", kDistance},
                                  {"bias", true},
                                  {"tied", tied}};
    std::ofstream(At("config.json")) << nlohmann::json{{"format", 1}, {"model", model}, {"vocabulary", "abcé"}};
    std::map<std::string, Stored> tensors;
    std::mt19937 generator(5);
    const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
      int64_t count = 1;
      for (const int64_t extent : shape) count *= extent;
      std::vector<float> numbers;
      for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(generator() % 2001) / 1000.0f - 1.0f);
      tensors[name] = {"F32", shape, Bytes(numbers)};
    };
    add("embedding.weight", {4, kWidth});
    if (!tied) add("head.weight", {4, kWidth});
    if (position == "learned") add("encoder.learned.weight", {kContext, kWidth});
    for (const std::string block : {"encoder.block0.", "encoder.block1."}) {
      for (const char* layer : {"W_q", "W_k", "W_v", "W_o"}) {
        add(block + "attention." + layer + ".weight", {kWidth, kWidth});
        add(block + "attention." + layer + ".bias", {kWidth});
      }
      if (position == "relative") add(block + "attention.position.relative_bias", {2, 2 * kDistance + 1});
      if (position == "t5") add(block + "attention.position.weight", {32, 2});
      if (position == "shaw") {
        add(block + "attention.position.keys", {2 * kDistance + 1, kWidth / 2});
        add(block + "attention.position.values", {2 * kDistance + 1, kWidth / 2});
      }
      for (const char* norm : {"addnorm1.ln.", "addnorm2.ln."}) {
        add(block + norm + "weight", {kWidth});
        add(block + norm + "bias", {kWidth});
      }
      add(block + "ffn.dense1.weight", {kHidden, kWidth});
      add(block + "ffn.dense1.bias", {kHidden});
      add(block + "ffn.dense2.weight", {kWidth, kHidden});
      add(block + "ffn.dense2.bias", {kWidth});
    }
    if (position == "t5") {
      // Buckets of distances from 16 on, where all buckets serve the keys up to a query.
      auto& table = tensors.at("encoder.block0.attention.position.weight");
      std::vector<float> numbers(64, 0.0f);
      std::fill(numbers.begin() + 32, numbers.end(), far_bias_);
      table.bytes = Bytes(numbers);
    }
    add("encoder.final_norm.weight", {kWidth});
    add("encoder.final_norm.bias", {kWidth});
    WriteTensors(At("model.safetensors"), tensors);
  }
  CharacterModel Open() const { return CharacterModel(folder().string()); }
  SerialExecutor serial_;
  float far_bias_ = 0.0f;
};

TEST_F(CharacterModelTest, StepsAreTheWholePass) {
  for (const char* position : {"none", "sinusoidal", "learned", "rotary", "alibi", "relative", "t5", "shaw"}) {
    for (const bool tied : {false, true}) {
      Write(position, tied);
      const CharacterModel model = Open();
      const std::vector<int32_t> tokens = model.Encode("abcébacébb");
      const std::vector<float> whole = model.Logits(tokens, serial_);
      CharacterModel::Caches caches = model.NewCaches();
      std::size_t done = 0;
      for (const std::size_t count : {4, 1, 3, 1, 1}) {
        const std::vector<float> logits = model.Step(std::span(tokens).subspan(done, count), caches, serial_);
        done += count;
        for (std::size_t c = 0; c < 4; ++c) {
          ASSERT_NEAR(logits[c], whole[(done - 1) * 4 + c], 1e-5) << position << ' ' << done;
        }
      }
    }
  }
}

TEST_F(CharacterModelTest, AllBucketsOfT5ServeTheKeysBefore) {
  const std::string text = "abcéabcéabcéabcéab";
  Write("t5");
  const CharacterModel plain = Open();
  far_bias_ = 5.0f;
  Write("t5");
  const CharacterModel biased = Open();
  const std::vector<int32_t> tokens = plain.Encode(text);
  const std::vector<float> a = plain.Logits(tokens, serial_), b = biased.Logits(tokens, serial_);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 16 * 4, b.begin()));
  for (std::size_t i = 16; i < 18; ++i) EXPECT_NE(a[i * 4], b[i * 4]) << i;
}

TEST_F(CharacterModelTest, ThreadsChangeNoBit) {
  Write("rotary");
  const CharacterModel model = Open();
  const std::vector<int32_t> tokens = model.Encode("abcéba");
  ThreadPool pool(3);
  EXPECT_EQ(model.Logits(tokens, pool), model.Logits(tokens, serial_));
}

TEST_F(CharacterModelTest, TextsAreTokensAndBack) {
  Write("none");
  const CharacterModel model = Open();
  EXPECT_EQ(model.Decode(model.Encode("céa")), "céa");
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"abd", "character 2, 'd', is not among the 4"}, {"a\xff", "not UTF-8: no valid character begins at byte 1"}}) {
    try {
      model.Encode(text);
      FAIL();
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(model.Decode(std::vector<int32_t>{4}), InvalidArgument);
  EXPECT_THROW(model.Continue("", 1), InvalidArgument);
  EXPECT_THROW(model.Continue("a", -1), InvalidArgument);
}

TEST_F(CharacterModelTest, ARefusedStepLeavesTheCachesAsTheyWere) {
  Write("learned");
  const CharacterModel model = Open();
  CharacterModel::Caches caches = model.NewCaches();
  const std::vector<int32_t> tokens = model.Encode("abcabc");
  const std::vector<float> first = model.Step(tokens, caches, serial_);
  EXPECT_THROW(model.Step(tokens, caches, serial_), InvalidArgument);  // beyond the context
  EXPECT_THROW(model.Step({}, caches, serial_), InvalidArgument);
  EXPECT_THROW(model.Step(std::vector<int32_t>{9}, caches, serial_), InvalidArgument);
  CharacterModel::Caches wrong = caches;
  wrong[1] = KeyValueCache<float>(/*batch=*/2, 2, kWidth / 2, kWidth / 2);
  EXPECT_THROW(model.Step(std::span(tokens).first(1), wrong, serial_), InvalidArgument);  // found out by the second layer
  EXPECT_EQ(wrong[0].length(), 6);
  for (KeyValueCache<float>& cache : caches) {
    EXPECT_EQ(cache.length(), 6);
    cache.Truncate(0);
  }
  EXPECT_EQ(model.Step(tokens, caches, serial_), first);
}

TEST_F(CharacterModelTest, CountsAreRefusedByName) {
  std::ofstream(At("config.json")) << nlohmann::json{{"format", 1}, {"kind", "counts"}};
  try {
    Open();
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("counts of characters, not a network"), std::string::npos) << error.what();
  }
}

TEST_F(CharacterModelTest, FilesThatDoNotBelongTogetherAreRefused) {
  Write("relative");
  std::filesystem::rename(At("model.safetensors"), At("kept"));
  Write("learned");
  std::filesystem::rename(At("kept"), At("model.safetensors"));
  try {
    Open();
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("model.safetensors"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("encoder.learned.weight"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace heed
