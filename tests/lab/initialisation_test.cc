#include "lab/training/initialisation.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/utils.h>

#include "heed/nn/positional_encoding.h"

namespace heed::lab {
namespace {

constexpr int64_t kWidth = 192;  // 0.02 * sqrt(768 / 192) = 0.04

struct PartsImpl : torch::nn::Module {
  PartsImpl() {
    embedding = register_module("embedding", torch::nn::Embedding(100, kWidth));
    learned = register_module("learned", nn::LearnedPositions(kWidth, 0.0, 50));
    linear = register_module("linear", torch::nn::Linear(kWidth, 60));
  }
  torch::nn::Embedding embedding{nullptr};
  nn::LearnedPositions learned{nullptr};
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Parts);

Parts SeededParts() {
  torch::manual_seed(3);
  return Parts();
}

// 9600 numbers or more: an estimate of the deviation is itself off by less than 1 %.
void ExpectDeviation(const at::Tensor& weight, double deviation, const std::string& name) {
  EXPECT_NEAR(weight.std().item<double>(), deviation, 0.04 * deviation) << name;
}

TEST(InitialisationTest, LikeGpt2DrawsAllButPositionsWhichStartSo) {
  Parts parts = SeededParts();
  const at::Tensor positions = parts->learned->weight.detach().clone();
  torch::manual_seed(5);
  InitialiseLikeGpt2(*parts);
  EXPECT_TRUE(at::equal(parts->learned->weight, positions));
  for (const auto& weight : {parts->embedding->weight, parts->learned->weight, parts->linear->weight}) {
    ExpectDeviation(weight, 0.02, "0.02");
  }
  EXPECT_EQ(parts->linear->bias.abs().max().item<double>(), 0.0);
  // In the order of the modules, from PyTorch's default generator.
  torch::manual_seed(5);
  EXPECT_TRUE(at::equal(parts->embedding->weight, at::empty({100, kWidth}).normal_(0.0, 0.02)));
  EXPECT_TRUE(at::equal(parts->linear->weight, at::empty({60, kWidth}).normal_(0.0, 0.02)));
}

TEST(InitialisationTest, ByWidthDrawsPositionsToo) {
  EXPECT_DOUBLE_EQ(InitialDeviation(768), 0.02);
  EXPECT_DOUBLE_EQ(InitialDeviation(kWidth), 0.04);
  Parts parts = SeededParts();
  torch::manual_seed(5);
  InitialiseByWidth(*parts, kWidth);
  EXPECT_EQ(parts->linear->bias.abs().max().item<double>(), 0.0);
  torch::manual_seed(5);
  EXPECT_TRUE(at::equal(parts->embedding->weight, at::empty({100, kWidth}).normal_(0.0, 0.04)));
  EXPECT_TRUE(at::equal(parts->learned->weight, at::empty({50, kWidth}).normal_(0.0, 0.04)));
  EXPECT_TRUE(at::equal(parts->linear->weight, at::empty({60, kWidth}).normal_(0.0, 0.04)));
}

TEST(InitialisationTest, ScaledWeightsAreThoseOfGpt2TimesOneFactor) {
  Parts parts = SeededParts();
  InitialiseLikeGpt2(*parts);
  const at::Tensor before =
      at::cat({parts->embedding->weight.detach(), parts->learned->weight.detach(), parts->linear->weight.detach()});
  ScaleToWidth(*parts, kWidth);
  EXPECT_TRUE(at::equal(at::cat({parts->embedding->weight, parts->learned->weight, parts->linear->weight}), 2.0 * before));
}

TEST(InitialisationTest, ByInputsIsDrawnFromTheSeedAlone) {
  Parts parts = SeededParts();
  InitialiseByInputs(*parts, 7);
  ExpectDeviation(parts->embedding->weight, 1.0, "embedding");
  ExpectDeviation(parts->learned->weight, 1.0, "learned");
  ExpectDeviation(parts->linear->weight, 1.0 / std::sqrt(static_cast<double>(kWidth)), "linear");
  EXPECT_EQ(parts->linear->bias.abs().max().item<double>(), 0.0);
  torch::manual_seed(11);
  Parts again;
  InitialiseByInputs(*again, 7);
  EXPECT_TRUE(at::equal(again->embedding->weight, parts->embedding->weight));
  EXPECT_TRUE(at::equal(again->linear->weight, parts->linear->weight));
  InitialiseByInputs(*again, 8);
  EXPECT_FALSE(at::equal(again->embedding->weight, parts->embedding->weight));
}

}  // namespace
}  // namespace heed::lab
