// Weights by name into layers on plain memory: from files of every floating type, one or several, all or nothing.
#include "heed/weights.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/layers.h"
#include "heed/multi_head_attention.h"
#include "heed/transformer.h"
#include "stored_tensors.h"
#include "tests/folder_fixture.h"

namespace heed {
namespace {

// Two numbers in, one out.
class WeightsTest : public ScratchFolderTest {
 protected:
  float Output() const {
    const float x[] = {1, 10};
    float y = 0;
    SerialExecutor serial;
    layer_.Forward(View<const float, 2>::Contiguous(x, {1, 2}), View<float, 2>::Contiguous(&y, {1, 1}), serial);
    return y;
  }
  void Load(const std::map<std::string, Stored>& tensors, Framework framework = Framework::kTorch) {
    WriteTensors(At("weights.safetensors"), tensors);
    LoadWeights(layer_.parameters(), At("weights.safetensors"), framework);
  }
  std::string Refusal(const std::map<std::string, Stored>& tensors) {
    const float before = Output();
    try {
      Load(tensors);
    } catch (const Error& error) {
      EXPECT_EQ(Output(), before);
      EXPECT_NE(std::string(error.what()).find(At("weights.safetensors")), std::string::npos) << error.what();
      return error.what();
    }
    return "nothing was refused";
  }
  Linear layer_{2, 1};
};

TEST_F(WeightsTest, EveryFloatingTypeIsRead) {
  const Stored bias{"F32", {1}, Bytes<float>({0.5f})};
  Load({{"weight", {"F32", {1, 2}, Bytes<float>({2, 3})}}, {"bias", bias}});
  EXPECT_EQ(Output(), 32.5f);
  Load({{"weight", {"F64", {1, 2}, Bytes<double>({4, 5})}}, {"bias", bias}});
  EXPECT_EQ(Output(), 54.5f);
  Load({{"weight", {"BF16", {1, 2}, Bytes<uint16_t>({0x3f80, 0x4000})}}, {"bias", bias}});
  EXPECT_EQ(Output(), 21.5f);
  Load({{"weight", {"F16", {1, 2}, Bytes<uint16_t>({0x4000, 0x3c00})}}, {"bias", bias}});
  EXPECT_EQ(Output(), 12.5f);
}

TEST_F(WeightsTest, WhatDoesNotFitChangesNothing) {
  const Stored weight{"F32", {1, 2}, Bytes<float>({2, 3})}, bias{"F32", {1}, Bytes<float>({0.5f})};
  Load({{"weight", weight}, {"bias", bias}});
  const auto expect = [&](const std::map<std::string, Stored>& tensors, const std::string& part) {
    const std::string what = Refusal(tensors);
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  expect({{"weight", weight}}, "parameter 'bias' [1] has no source");
  expect({{"weight", weight}, {"bias", bias}, {"more", bias}}, "source 'more' [1] has no parameter");
  expect({{"weight", {"F32", {2, 1}, weight.bytes}}, {"bias", bias}},
         "source 'weight' [2, 1] does not fit parameter 'weight' [1, 2]");
  expect({{"weight", weight}, {"bias", {"I32", {1}, Bytes<int32_t>({1})}}}, "holds no floating-point numbers");
  expect({{"weight", weight}, {"bias", {"F64", {1}, Bytes<double>({1e300})}}}, "numbers beyond the range of F32");
  expect({{"weight", weight}, {"bias", {"F8_E4M3", {1}, "a"}}}, "has the type F8_E4M3, which heed does not read");
  Load({{"weight", weight}, {"bias", {"F64", {1}, Bytes<double>({std::numeric_limits<double>::infinity()})}}});
  EXPECT_EQ(Output(), std::numeric_limits<float>::infinity());
}

TEST_F(WeightsTest, HostileFilesAreRefused) {
  const Stored weight{"F32", {1, 2}, Bytes<float>({2, 3})}, bias{"F32", {1}, Bytes<float>({0.5f})};
  Load({{"weight", weight}, {"bias", bias}});
  const std::string path = At("weights.safetensors");
  std::ifstream file(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_THROW(LoadWeights(layer_.parameters(), path), Error) << bytes.size();
    EXPECT_EQ(Output(), 32.5f);
  };
  for (std::size_t length = 0; length < good.size(); ++length) refused(good.substr(0, length));
  refused(good + "x");
  // Any one bit of the header that still leaves a valid file tells of other tensors, or of the same ones.
  for (std::size_t byte = 0; byte < good.size() - 12; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit));
      std::ofstream(path, std::ios::binary) << bytes;
      try {
        LoadWeights(layer_.parameters(), path);
      } catch (const Error&) {
      }
    }
  }
}

TEST_F(WeightsTest, SeveralFilesWithAnIndex) {
  WriteTensors(At("a.safetensors"), {{"weight", {"F32", {1, 2}, Bytes<float>({2, 3})}}});
  WriteTensors(At("b.safetensors"), {{"bias", {"F32", {1}, Bytes<float>({0.5f})}}});
  std::ofstream(At("model.safetensors.index.json"))
      << R"({"weight_map": {"weight": "a.safetensors", "bias": "b.safetensors"}})";
  LoadWeights(layer_.parameters(), At("model.safetensors.index.json"));
  EXPECT_EQ(Output(), 32.5f);
}

TEST_F(WeightsTest, AFileThatTheIndexDoesNotExpectIsRefused) {
  WriteTensors(At("a.safetensors"),
               {{"weight", {"F32", {1, 2}, Bytes<float>({2, 3})}}, {"bias", {"F32", {1}, Bytes<float>({1})}}});
  WriteTensors(At("b.safetensors"), {{"bias", {"F32", {1}, Bytes<float>({0.5f})}}});
  std::ofstream(At("m.index.json")) << R"({"weight_map": {"weight": "a.safetensors", "bias": "b.safetensors"}})";
  EXPECT_THROW(LoadWeights(layer_.parameters(), At("m.index.json")), FileError);
}

TEST(WeightArraysTest, StackedProjectionsOfPyTorchAreTold) {
  MultiHeadAttention attention(2, 1);
  const std::vector<float> stacked{1, 0, 0, 1, 1, 0, 0, 1, 5, 0, 0, 5}, identity{1, 0, 0, 1};
  LoadWeights(attention.parameters(), {{"in_proj_weight", {{6, 2}, stacked}}, {"out_proj.weight", {{2, 2}, identity}}});
  const float x[] = {1, 2};
  float y[2];
  const auto X = View<const float, 3>::Contiguous(x, {1, 1, 2});
  attention.Forward(X, X, X, View<float, 3>::Contiguous(y, {1, 1, 2}));
  EXPECT_EQ(y[0], 5.0f);
  EXPECT_EQ(y[1], 10.0f);
  try {
    LoadWeights(attention.parameters(), {{"W_q.weight", {{2, 2}, stacked}}});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "source 'W_q.weight': its shape holds 4 numbers, its values are 12");
  }
}

// Numbers that differ from element to element, under the names that nanoGPT gives a block without biases.
std::map<std::string, Array> NanoGptBlock(const std::vector<float>& numbers, const std::string& prefix) {
  std::map<std::string, Array> arrays;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, std::size_t count) {
    arrays[prefix + name] = {std::move(shape), std::span(numbers).first(count)};
  };
  add("attn.c_attn.weight", {6, 2}, 12);
  add("attn.c_proj.weight", {2, 2}, 4);
  add("mlp.c_fc.weight", {3, 2}, 6);
  add("mlp.c_proj.weight", {2, 3}, 6);
  add("ln_1.weight", {2}, 2);
  add("ln_2.weight", {2}, 2);
  return arrays;
}

TEST(WeightArraysTest, ABlockOfNanoGptWithoutBiasesIsChosenByItsPrefix) {
  TransformerEncoderBlockOptions options;
  options.attention.num_hiddens = 2;
  options.attention.num_heads = 1;
  options.ffn_num_hiddens = 3;
  options.norm = Norm::kPre;
  const std::vector<float> numbers{.1f, .2f, .3f, .4f, .5f, .6f, .7f, .8f, .9f, 1.f, 1.1f, 1.2f}, zeros(3), other(12, 9.f);
  std::map<std::string, Array> arrays = NanoGptBlock(numbers, "transformer.h.1.");
  arrays.merge(NanoGptBlock(other, "transformer.h.10."));
  const auto output = [&](const std::function<void(const Parameters&)>& load) {
    TransformerEncoderBlock block(options);
    load(block.parameters());
    std::vector<float> X{1, -2, 3, 4};
    block.Forward(View<float, 3>::Contiguous(X.data(), {1, 2, 2}), {}, nullptr, ThreadPool::Default());
    return X;
  };
  const std::vector<float> with_prefix =
      output([&](const Parameters& parameters) { LoadWeights(parameters, arrays, Framework::kNanoGpt, "transformer.h.1"); });
  const std::vector<float> by_hand = output([&](const Parameters& parameters) {
    const std::span<const float> all(numbers);
    LoadWeights(parameters, {{"attention.W_q.weight", {{2, 2}, all.first(4)}},
                             {"attention.W_k.weight", {{2, 2}, all.subspan(4, 4)}},
                             {"attention.W_v.weight", {{2, 2}, all.subspan(8, 4)}},
                             {"attention.W_o.weight", {{2, 2}, all.first(4)}},
                             {"addnorm1.ln.weight", {{2}, all.first(2)}},
                             {"addnorm1.ln.bias", {{2}, std::span(zeros).first(2)}},
                             {"ffn.dense1.weight", {{3, 2}, all.first(6)}},
                             {"ffn.dense1.bias", {{3}, zeros}},
                             {"ffn.dense2.weight", {{2, 3}, all.first(6)}},
                             {"ffn.dense2.bias", {{2}, std::span(zeros).first(2)}},
                             {"addnorm2.ln.weight", {{2}, all.first(2)}},
                             {"addnorm2.ln.bias", {{2}, std::span(zeros).first(2)}}});
  });
  EXPECT_EQ(with_prefix, by_hand);
}

TEST(WeightArraysTest, TwoNamesOfATiedEmbeddingMustAgree) {
  Embedding embedding(2, 1), positions(2, 1);
  Parameters parameters;
  parameters.Add("embedding", embedding.parameters());
  // A parameter below "encoder.block0", so that the encoder is one of nanoGPT's.
  parameters.Add("encoder.block0.addnorm1", positions.parameters());
  const std::vector<float> one{1, 2}, other{1, 3};
  parameters.list[1].name = "encoder.block0.addnorm1.ln.weight";
  const auto arrays = [&](const std::vector<float>& head) {
    return std::map<std::string, Array>{{"lm_head.weight", {{2, 1}, head}},
                                        {"transformer.wte.weight", {{2, 1}, one}},
                                        {"transformer.h.0.addnorm1.ln.weight", {{2, 1}, one}}};
  };
  LoadWeights(parameters, arrays(one), Framework::kNanoGpt);
  EXPECT_EQ(embedding.weight()(1, 0), 2.0f);
  try {
    LoadWeights(parameters, arrays(other), Framework::kNanoGpt);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("parameter 'embedding.weight' has two sources that differ"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace heed
