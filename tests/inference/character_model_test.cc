// Models of characters from a folder: steps with caches are the whole pass, and what does not fit leaves everything as it was.
// tests/cli holds them to what `heed generate` writes.
#include "heed/character_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "stored_tensors.h"
#include "tests/counted_allocations.h"
#include "tests/error_text.h"
#include "tests/folder_fixture.h"

namespace heed {
namespace {

constexpr int64_t kWidth = 8, kContext = 10, kDistance = 20, kHidden = 12;
constexpr const char* kInLinearTime[] = {"linear", "retention", "mamba2", "gated-delta"};

class CharacterModelTest : public ScratchFolderTest {
 protected:
  // A model of two layers whose weights are random and the same every time.
  void Write(const std::string& position, bool tied = false, const std::string& encoder = "attention") {
    const nlohmann::json model = {{"encoder", encoder},  {"position", position}, {"objective", objective_},
                                  {"layers", 2},         {"heads", 2},           {"width", kWidth},
                                  {"context", kContext}, {"ffn_width", kHidden}, {"max_distance", kDistance},
                                  {"bias", true},        {"tied", tied}};
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
    add("embedding.weight", {objective_ == "causal" ? 4 : 5, kWidth});
    if (!tied) add("head.weight", {4, kWidth});
    if (position == "learned") add("encoder.learned.weight", {kContext, kWidth});
    if (encoder != "attention") AddReaders(encoder, add);
    for (const std::string block : {"encoder.block0.", "encoder.block1."}) {
      if (encoder != "attention") break;
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
    if (overflows_) {
      // Normalised, the other characters have 0 where the first norm's weight is larger than a float can be twice.
      std::vector<float> numbers(4 * kWidth, 0.0f), weight(kWidth, 1.0f);
      for (int64_t i = 0; i < 4 * kWidth; ++i) numbers[i] = static_cast<float>((i / kWidth == 2) == (i % kWidth >= kWidth - 2));
      for (int64_t i = 1; i < 4 * kWidth; i += 2) numbers[i] = -numbers[i];
      weight[kWidth - 1] = std::numeric_limits<float>::max();
      tensors.at("embedding.weight").bytes = Bytes(numbers), tensors.at("encoder.norm0.weight").bytes = Bytes(weight);
    }
    WriteTensors(At("model.safetensors"), tensors);
  }
  // Two layers in linear time with two heads.
  static void AddReaders(const std::string& encoder,
                         const std::function<void(const std::string&, const std::vector<int64_t>&)>& add) {
    const bool mamba = encoder == "mamba2", convolves = mamba || encoder == "gated-delta", linear = encoder == "linear";
    const int64_t value = mamba ? 2 * kWidth : kWidth, mixed = value + 2 * kWidth;
    const int64_t columns = mixed + (linear ? 0 : value) + (convolves ? (mamba ? 2 : 4) : 0);
    for (const std::string layer : {"0", "1"}) {
      const std::string reader = "encoder.reader" + layer + ".", ffn = "encoder.ffn" + layer + ".";
      add(reader + "in_proj.weight", {columns, kWidth}), add(reader + "in_proj.bias", {columns});
      add(reader + "out_proj.weight", {kWidth, value}), add(reader + "out_proj.bias", {kWidth});
      if (!linear) add(reader + "norm_weight", {mamba ? value : kWidth / 2});
      if (mamba) add(reader + "D", {2});
      if (convolves) {
        add(reader + "conv_weight", {mixed, 4}), add(reader + "conv_bias", {mixed});
        add(reader + "A_log", {2}), add(reader + "dt_bias", {2});
      }
      add("encoder.norm" + layer + ".weight", {kWidth}), add("encoder.norm" + layer + ".bias", {kWidth});
      add("encoder.ffn_norm" + layer + ".weight", {kWidth}), add("encoder.ffn_norm" + layer + ".bias", {kWidth});
      add(ffn + "dense1.weight", {kHidden, kWidth}), add(ffn + "dense1.bias", {kHidden});
      add(ffn + "dense2.weight", {kWidth, kHidden}), add(ffn + "dense2.bias", {kWidth});
    }
  }
  CharacterModel Open() const { return CharacterModel(folder().string()); }
  CharacterModel OpenInLinearTime(const std::string& encoder) {
    Write("none", /*tied=*/false, encoder);
    return Open();
  }
  // So many characters without a period.
  static std::string Text(int64_t characters) {
    std::mt19937 generator(7);
    std::string text;
    for (int64_t i = 0; i < characters; ++i) text += "abc"[generator() % 3];
    return text;
  }
  SerialExecutor serial_;
  float far_bias_ = 0.0f;
  bool overflows_ = false;  // at the third character
  std::string objective_ = "causal";
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

// Beyond the chunks of 64 steps, in which a whole pass is cut.
TEST_F(CharacterModelTest, StepsOfStatesAreTheWholePass) {
  for (const char* encoder : kInLinearTime) {
    const CharacterModel model = OpenInLinearTime(encoder);
    ASSERT_TRUE(model.CanStep());
    const std::vector<int32_t> tokens = model.Encode(Text(150));
    const std::vector<float> whole = model.Logits(tokens, serial_);
    for (const std::vector<std::size_t>& counts : {std::vector<std::size_t>(150, 1), {1, 2, 70, 1, 1, 3, 4, 68}}) {
      CharacterModel::Caches caches = model.NewCaches();
      std::size_t done = 0;
      for (const std::size_t count : counts) {
        const std::vector<float> logits = model.Step(std::span(tokens).subspan(done, count), caches, serial_);
        done += count;
        for (std::size_t c = 0; c < 4; ++c) {
          ASSERT_NEAR(logits[c], whole[(done - 1) * 4 + c], 1e-4) << encoder << ' ' << done;
        }
      }
      EXPECT_EQ(caches.length(), 150);
    }
  }
}

TEST_F(CharacterModelTest, StatesGoBackToWhatTheyHold) {
  for (const char* encoder : kInLinearTime) {
    const CharacterModel model = OpenInLinearTime(encoder);
    const std::vector<int32_t> tokens = model.Encode(Text(12));
    const std::span<const int32_t> first = std::span(tokens).first(5), then = std::span(tokens).subspan(5, 3);
    CharacterModel::Caches caches = model.NewCaches();
    const std::vector<float> begun = model.Step(first, caches, serial_), expected = model.Step(then, caches, serial_);
    for (const int64_t length : {6, 3, -1}) EXPECT_THROW(caches.Truncate(length), InvalidArgument) << length;
    EXPECT_EQ(caches.length(), 8);
    caches.Truncate(5);
    EXPECT_EQ(caches.length(), 5);
    EXPECT_EQ(model.Step(then, caches, serial_), expected) << encoder;
    CharacterModel::Caches copy = caches;
    EXPECT_EQ(model.Step(first, copy, serial_), model.Step(first, caches, serial_));
    caches.Truncate(0);
    EXPECT_EQ(model.Step(first, caches, serial_), begun) << encoder;
    // What is refused, at once or by the second layer, leaves them alone.
    EXPECT_THROW(model.Step({}, caches, serial_), InvalidArgument);
    EXPECT_THROW(model.Step(std::vector<int32_t>{9}, caches, serial_), InvalidArgument);
    CharacterModel::Caches wrong = caches;
    wrong.states[1] = LinearState(1, 1);
    EXPECT_THROW(model.Step(then, wrong, serial_), InvalidArgument);
    EXPECT_EQ(wrong.states[0].length(), 5);
    wrong.states[1] = caches.states[1];
    EXPECT_EQ(model.Step(then, wrong, serial_), expected) << encoder;
    wrong.states.pop_back();
    EXPECT_THROW(model.Step(then, wrong, serial_), InvalidArgument);
  }
  Write("rotary");
  const CharacterModel attention = Open();
  CharacterModel::Caches other = OpenInLinearTime("linear").NewCaches();
  EXPECT_THROW(attention.Step(attention.Encode("a"), other, serial_), InvalidArgument);
}

// As of a whole pass: all answers behind a number that is none are none.
TEST_F(CharacterModelTest, StatesThatAreLostAreToldByTheAnswer) {
  for (const char* encoder : kInLinearTime) {
    overflows_ = true;
    const CharacterModel model = OpenInLinearTime(encoder);
    CharacterModel::Caches caches = model.NewCaches();
    for (const auto& [text, finite] : {std::pair{"ab", true}, {"c", false}, {"a", false}, {"ab", false}}) {
      const std::vector<float> logits = model.Step(model.Encode(text), caches, serial_);
      EXPECT_EQ(std::isfinite(logits[0]), finite) << encoder << ' ' << text;
    }
  }
}

TEST_F(CharacterModelTest, ContinuesFromTheWindowThatItPromises) {
  for (const char* encoder : kInLinearTime) {
    const CharacterModel model = OpenInLinearTime(encoder);
    const std::string text = Text(4) + model.Continue(Text(4), 40, serial_);
    const std::vector<int32_t> tokens = model.Encode(text);
    std::size_t begin = 0;
    for (std::size_t end = 4; end < tokens.size(); ++end) {
      if (end - begin > kContext) begin = end - kContext * 3 / 4;
      const std::vector<float> logits = model.Logits(std::span(tokens).subspan(begin, end - begin), serial_);
      EXPECT_EQ(tokens[end], std::max_element(logits.end() - 4, logits.end()) - logits.end() + 4) << encoder << ' ' << end;
    }
  }
}

TEST_F(CharacterModelTest, StepsOfStatesAllocateNothingAfterTheFirst) {
  if (HEED_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "not counted under a sanitizer";
  ThreadPool pool(2);
  for (const char* encoder : kInLinearTime) {
    const CharacterModel model = OpenInLinearTime(encoder);
    const std::vector<int32_t> tokens = model.Encode(Text(200));
    CharacterModel::Caches caches = model.NewCaches();
    ModelWorkspace workspace;
    std::vector<float> logits(4);
    EXPECT_THROW(model.Step(tokens, caches, std::span(logits).first(3), workspace, pool), InvalidArgument);
    const int64_t none = allocations.load();
    model.Step(std::span(tokens).first(1), caches, logits, workspace, pool);
    const int64_t before = allocations.load();
    ASSERT_GT(before, none) << "the first step makes the workspace";
    for (std::size_t i = 1; i < 200; ++i) model.Step(std::span(tokens).subspan(i, 1), caches, logits, workspace, pool);
    EXPECT_EQ(allocations.load(), before) << encoder;
    EXPECT_EQ(caches.length(), 200);
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
  wrong.keys[1] = KeyValueCache<float>(/*batch=*/2, 2, kWidth / 2, kWidth / 2);
  EXPECT_THROW(model.Step(std::span(tokens).first(1), wrong, serial_), InvalidArgument);  // found out by the second layer
  EXPECT_EQ(wrong.keys[0].length(), 6);
  for (const KeyValueCache<float>& cache : caches.keys) EXPECT_EQ(cache.length(), 6);
  caches.Truncate(0);
  EXPECT_EQ(model.Step(tokens, caches, serial_), first);
}

TEST_F(CharacterModelTest, OtherKindsOfModelsAreRefusedByName) {
  for (const auto& [kind, told] : {std::pair("counts", "counts of characters, not a network; heed::CountingModel opens it"),
                                   std::pair("table", "a model of labelled sequences; heed::SeriesModel opens it")}) {
    std::ofstream(At("config.json")) << nlohmann::json{{"format", 1}, {"kind", kind}};
    try {
      Open();
      FAIL();
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(told), std::string::npos) << error.what();
    }
  }
}

// It says what stands in place of a character that is hidden, not what follows.
TEST_F(CharacterModelTest, AMaskedModelHasLogitsAlone) {
  objective_ = "masked";
  Write("none");
  EXPECT_THROW(Open(), FileError);
  const CharacterModel model(folder().string(), /*masked_too=*/true);
  const std::vector<int32_t> tokens = model.Encode("abc");
  EXPECT_EQ(model.Logits(tokens, serial_).size(), 3U * 4U);
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { model.Continue("abc", 2); }), "masked objective"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { model.Next(tokens, serial_); }), "masked objective"));
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
