// Weights by name into layers on plain memory: from files of every floating type, one or several, all or nothing.
#include "heed/weights.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/layers.h"
#include "heed/multi_head_attention.h"
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

}  // namespace
}  // namespace heed
