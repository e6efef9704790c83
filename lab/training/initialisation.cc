#include "lab/training/initialisation.h"

#include <cmath>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "heed/nn/positional_encoding.h"
#include "heed/nn/positions.h"

namespace heed::lab {
namespace {

constexpr double kGpt2Deviation = 0.02, kGpt2Width = 768.0;

// Numbers of a scheme that begin at random, uniform in low..high, or normal where there is a deviation.
struct RandomStart {
  at::Tensor numbers;
  double low = 0, high = 0, deviation = 0;
};

std::vector<RandomStart> RandomStarts(const torch::nn::Module& module) {
  if (const auto* kerple = module.as<nn::KerpleImpl>()) return {{kerple->rate, 0, 2}, {kerple->scale, 0, 1}};
  if (const auto* fire = module.as<nn::FireImpl>()) {
    const double bound = 1 / std::sqrt(static_cast<double>(fire->first_weight.size(0)));
    return {{fire->first_weight, -1, 1},
            {fire->first_bias, -1, 1},
            {fire->second_weight, -bound, bound},
            {fire->second_bias, -bound, bound}};
  }
  constexpr double kDeviation = 0.02;
  if (const auto* scheme = module.as<nn::DebertaImpl>()) return {{scheme->embeddings, 0, 0, kDeviation}};
  if (const auto* scheme = module.as<nn::TransformerXLImpl>()) {
    return {{scheme->projection, 0, 0, kDeviation},
            {scheme->content_bias, 0, 0, kDeviation},
            {scheme->position_bias, 0, 0, kDeviation}};
  }
  return {};
}

enum class Part { kEmbedding, kPositions, kMatrix, kContentVectors };

// Calls visit(part, weight) for the weights, in the order of the modules, and has linear layers start without a bias.
template <class Visit>
void VisitWeights(torch::nn::Module& module, Visit visit) {
  const at::NoGradGuard no_grad;
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* embedding = part->as<torch::nn::EmbeddingImpl>()) visit(Part::kEmbedding, embedding->weight);
    if (auto* learned = part->as<nn::LearnedPositionsImpl>()) visit(Part::kPositions, learned->weight);
    if (auto* scheme = part->as<nn::ShawImpl>()) {
      for (const at::Tensor& vectors : scheme->parameters()) visit(Part::kContentVectors, vectors);
    }
    if (auto* linear = part->as<torch::nn::LinearImpl>()) {
      visit(Part::kMatrix, linear->weight);
      if (linear->bias.defined()) linear->bias.zero_();
    }
  }
}

}  // namespace

double InitialDeviation(int64_t width) { return kGpt2Deviation * std::sqrt(kGpt2Width / static_cast<double>(width)); }

double EmbeddingDeviation(int64_t width) { return 4 * InitialDeviation(width); }

void InitialiseByWidth(torch::nn::Module& module, int64_t width, double embeddings) {
  VisitWeights(module, [deviation = InitialDeviation(width), embeddings](Part part, const at::Tensor& weight) {
    if (part == Part::kContentVectors) return;
    torch::nn::init::normal_(weight, 0.0, part == Part::kEmbedding ? embeddings : deviation);
  });
}

void InitialiseByInputs(torch::nn::Module& module, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  VisitWeights(module, [&generator](Part part, const at::Tensor& weight) {
    const bool row = part == Part::kMatrix || part == Part::kContentVectors;
    const double deviation = row ? 1.0 / std::sqrt(static_cast<double>(weight.size(1))) : 1.0;
    weight.copy_(at::randn(weight.sizes(), generator, weight.options()).mul_(deviation));
  });
  const at::NoGradGuard no_grad;
  for (const auto& part : module.modules(/*include_self=*/false)) {
    for (const RandomStart& start : RandomStarts(*part)) {
      const at::IntArrayRef shape = start.numbers.sizes();
      start.numbers.copy_(
          start.deviation > 0
              ? at::randn(shape, generator, start.numbers.options()).mul_(start.deviation)
              : at::rand(shape, generator, start.numbers.options()).mul_(start.high - start.low).add_(start.low));
    }
  }
}

}  // namespace heed::lab
