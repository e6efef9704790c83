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

TEST(InitialisationTest, ByWidthDrawsAllInTheOrderOfTheModules) {
  EXPECT_DOUBLE_EQ(InitialDeviation(768), 0.02);
  EXPECT_DOUBLE_EQ(InitialDeviation(kWidth), 0.04);
  EXPECT_DOUBLE_EQ(EmbeddingDeviation(kWidth), 0.16);
  Parts parts = SeededParts();
  torch::manual_seed(5);
  InitialiseByWidth(*parts, kWidth, 0.3);
  EXPECT_EQ(parts->linear->bias.abs().max().item<double>(), 0.0);
  torch::manual_seed(5);
  EXPECT_TRUE(at::equal(parts->embedding->weight, at::empty({100, kWidth}).normal_(0.0, 0.3)));
  EXPECT_TRUE(at::equal(parts->learned->weight, at::empty({50, kWidth}).normal_(0.0, 0.04)));
  EXPECT_TRUE(at::equal(parts->linear->weight, at::empty({60, kWidth}).normal_(0.0, 0.04)));
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
