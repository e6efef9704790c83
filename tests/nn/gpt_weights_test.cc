// A whole GPT-2 and a whole nanoGPT are a module of heed's with a causal pre-norm encoder: the checkpoint's own formulas, in
// double precision, give what the module gives.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

#include "heed/nn/encoders.h"
#include "heed/nn/weights.h"

namespace heed::nn {
namespace {

constexpr int64_t kGptWidth = 12, kGptHeads = 3, kGptLayers = 2, kGptContext = 7, kGptVocabulary = 13;

// The head is the embedding.
struct Gpt : torch::nn::Module {
  explicit Gpt(Activation activation) {
    EncoderOptions options(kGptWidth);
    options.layers(kGptLayers).heads(kGptHeads).ffn_width(4 * kGptWidth).bias(true).causal(true).activation(activation);
    options.position({.scheme = PositionScheme::kLearned, .max_len = kGptContext});
    embedding = register_module("embedding", torch::nn::Embedding(kGptVocabulary, kGptWidth));
    encoder = register_module("encoder", AttentionEncoder(options));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return at::matmul(encoder->forward(embedding(tokens)), embedding->weight.t());
  }
  torch::nn::Embedding embedding{nullptr};
  AttentionEncoder encoder{nullptr};
};

// Radford et al. 2019 as both programs write it. conv: matrices lie [in, out].
struct Formulas {
  const TensorMap& weights;
  bool conv;

  const at::Tensor& At(const std::string& name) const { return weights.at("transformer." + name); }
  at::Tensor Linear(const std::string& name, const at::Tensor& X) const {
    const at::Tensor& weight = At(name + ".weight");
    return at::matmul(X, conv ? weight : weight.t()) + At(name + ".bias");
  }
  at::Tensor Norm(const std::string& name, const at::Tensor& X) const {
    const at::Tensor centred = X - X.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * At(name + ".weight") + At(name + ".bias");
  }
  // GPT-2's approximation, nanoGPT's x * Phi(x).
  at::Tensor Gelu(const at::Tensor& x) const {
    if (!conv) return 0.5 * x * (1 + at::erf(x / std::sqrt(2.0)));
    return 0.5 * x * (1 + at::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x.pow(3))));
  }
  at::Tensor Attention(const std::string& name, const at::Tensor& X) const {
    const int64_t steps = X.size(1);
    std::vector<at::Tensor> qkv = Linear(name + ".c_attn", X).split(kGptWidth, 2);
    for (at::Tensor& part : qkv) part = part.unflatten(2, {kGptHeads, -1}).transpose(1, 2);
    at::Tensor scores = at::matmul(qkv[0], qkv[1].mT()) / std::sqrt(static_cast<double>(kGptWidth) / kGptHeads);
    scores = scores.masked_fill(at::ones({steps, steps}, at::kBool).triu(1), -INFINITY);
    return Linear(name + ".c_proj", at::matmul(scores.softmax(-1), qkv[2]).transpose(1, 2).flatten(2));
  }
  at::Tensor Logits(const at::Tensor& tokens) const {
    at::Tensor X = At("wte.weight").index({tokens}) + At("wpe.weight").slice(0, 0, tokens.size(1));
    for (int64_t layer = 0; layer < kGptLayers; ++layer) {
      const std::string h = "h." + std::to_string(layer) + ".";
      X = X + Attention(h + "attn", Norm(h + "ln_1", X));
      X = X + Linear(h + "mlp.c_proj", Gelu(Linear(h + "mlp.c_fc", Norm(h + "ln_2", X))));
    }
    return at::matmul(Norm("ln_f", X), weights.at("lm_head.weight").t());
  }
};

class GptWeightsTest : public testing::TestWithParam<Framework> {};

TEST_P(GptWeightsTest, TheFormulasOfTheCheckpointAreTheModules) {
  const bool conv = GetParam() == Framework::kHf;
  Gpt source(conv ? Activation::kGeluTanh : Activation::kGelu), model(conv ? Activation::kGeluTanh : Activation::kGelu);
  at::manual_seed(1);
  {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : source.parameters()) parameter.normal_();
  }
  const TensorMap checkpoint = export_weights(source, GetParam(), conv ? Layers::kGpt2 : Layers::kOwn);
  load_weights(model, checkpoint, GetParam());
  const at::Tensor tokens = at::randint(kGptVocabulary, {2, kGptContext}, at::kLong);
  const at::Tensor logits = model.forward(tokens), expected = Formulas{checkpoint, conv}.Logits(tokens);
  EXPECT_LE((logits - expected).abs().max().item<double>(), 1e-12 * expected.abs().max().item<double>());
  Gpt other(conv ? Activation::kGelu : Activation::kGeluTanh);  // the activation is no part of a checkpoint
  load_weights(other, checkpoint, GetParam());
  EXPECT_GT((other.forward(tokens) - expected).abs().max().item<double>(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(, GptWeightsTest, testing::Values(Framework::kHf, Framework::kNanoGpt),
                         [](const testing::TestParamInfo<Framework>& info) { return std::string(NameOf(info.param)); });

}  // namespace
}  // namespace heed::nn
