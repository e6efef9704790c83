#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "bench/suites/contenders.h"
#include "lab/training/language_model.h"
#include "lab/training/optimizer.h"

namespace heed::lab {
namespace {

constexpr int64_t kLayers = 4, kSymbols = 65;

// What a user of LibTorch writes: one projection for queries, keys and values, and scaled_dot_product_attention.
struct PlainBlock : torch::nn::Module {
  PlainBlock(int64_t width, int64_t heads, double dropout_probability)
      : heads(heads),
        probability(dropout_probability),
        norm1(register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        norm2(register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        qkv(register_module("qkv", torch::nn::Linear(width, 3 * width))),
        out(register_module("out", torch::nn::Linear(width, width))),
        ffn(register_module(
            "ffn", torch::nn::Sequential(torch::nn::Linear(width, 4 * width), torch::nn::GELU(),
                                         torch::nn::Linear(4 * width, width), torch::nn::Dropout(dropout_probability)))),
        dropout(register_module("dropout", torch::nn::Dropout(dropout_probability))) {}

  at::Tensor forward(const at::Tensor& X) {
    const int64_t batch = X.size(0), steps = X.size(1), width = X.size(2);
    std::vector<at::Tensor> parts = qkv(norm1(X)).split(width, 2);
    for (at::Tensor& part : parts) part = part.view({batch, steps, heads, width / heads}).transpose(1, 2);
    const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], std::nullopt, probability, true);
    const at::Tensor Y = X + dropout(out(mixed.transpose(1, 2).reshape({batch, steps, width})));
    return Y + ffn->forward(norm2(Y));
  }

  int64_t heads;
  double probability;
  torch::nn::LayerNorm norm1, norm2;
  torch::nn::Linear qkv, out;
  torch::nn::Sequential ffn;
  torch::nn::Dropout dropout;
};

struct PlainModel : torch::nn::Module {
  explicit PlainModel(const ModelOptions& options)
      : embedding(register_module("embedding", torch::nn::Embedding(kSymbols, options.width))),
        positions(register_module("positions", torch::nn::Embedding(options.context, options.width))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})))),
        dropout(register_module("dropout", torch::nn::Dropout(options.dropout))) {
    for (int64_t l = 0; l < options.layers; ++l)
      blocks.push_back(register_module("block" + std::to_string(l),
                                       std::make_shared<PlainBlock>(options.width, options.heads, options.dropout)));
  }

  at::Tensor Loss(const Batch& batch) {
    at::Tensor X = dropout(embedding(batch.inputs) + positions(at::arange(batch.inputs.size(1))));
    for (const auto& block : blocks) X = block->forward(X);
    const at::Tensor logits = at::linear(norm(X), embedding->weight).flatten(0, 1);
    return torch::nn::functional::cross_entropy(logits, batch.targets);
  }

  torch::nn::Embedding embedding, positions;
  torch::nn::LayerNorm norm;
  torch::nn::Dropout dropout;
  std::vector<std::shared_ptr<PlainBlock>> blocks;
};

TrainOptions OptionsOf(const CallCase& c) {
  TrainOptions options;
  options.model.layers = kLayers;
  options.model.heads = c.shape.q_heads;
  options.model.width = c.shape.q_heads * c.shape.head_dim;
  options.model.context = c.shape.kv_len;
  options.model.dropout = c.dropout;
  options.model.tied = true;
  return options;
}

Vocabulary Symbols() {
  std::u32string characters;
  for (int64_t i = 0; i < kSymbols; ++i) characters.push_back(U'A' + static_cast<char32_t>(i));
  return Vocabulary(characters);
}

NamedTensors GradientsOf(NamedTensors parameters) {
  for (auto& [name, tensor] : parameters) tensor = tensor.grad();
  return parameters;
}

// Prefixes of the plain model's names, and heed's. Queries, keys and values are three thirds of one projection there.
constexpr std::pair<std::string_view, std::string_view> kHeedsNames[] = {
    {"positions.", "encoder.learned."}, {"norm.", "encoder.final_norm."}, {"norm1.", "addnorm1.ln."},
    {"norm2.", "addnorm2.ln."},         {"out.", "attention.W_o."},       {"ffn.0.", "ffn.dense1."},
    {"ffn.2.", "ffn.dense2."},
};

std::string HeedsName(std::string_view name) {
  for (const auto& [plain, heeds] : kHeedsNames)
    if (name.starts_with(plain)) return std::string(heeds) + std::string(name.substr(plain.size()));
  return std::string(name);
}

// The parameters of the plain model, or their gradients, as heed's model names and cuts them.
NamedTensors ByHeedsNames(const NamedTensors& plain) {
  NamedTensors named;
  for (const auto& [name, tensor] : plain) {
    const std::size_t after = name.starts_with("block") ? name.find('.') + 1 : 0;
    const std::string prefix = after > 0 ? "encoder." + name.substr(0, after) : "";
    const std::string own = name.substr(after);
    if (!own.starts_with("qkv.")) {
      named.emplace_back(prefix + HeedsName(own), tensor);
      continue;
    }
    const int64_t width = tensor.size(0) / 3;
    for (int64_t i = 0; i < 3; ++i)
      named.emplace_back(prefix + "attention.W_" + "qkv"[i] + own.substr(3), tensor.narrow(0, i * width, width));
  }
  return named;
}

// The plain model's parameters, started as heed's, at which its optimiser looks.
NamedTensors StartedLike(const torch::nn::Module& heed, const torch::nn::Module& plain) {
  const at::NoGradGuard no_grad;
  const auto start = heed.named_parameters();
  for (auto& [name, parameter] : ByHeedsNames(NamedParameters(plain))) parameter.copy_(start[name]);
  return NamedParameters(plain);
}

// A causal character model of four pre-norm layers with learned positions and the head tied to the embedding: forward,
// backward, fused AdamW. Both sides start with the same parameters.
class TrainingContenders : public BenchContenders {
 public:
  explicit TrainingContenders(const CallCase& c)
      : case_(c),
        options_(OptionsOf(c)),
        heed_(options_.model, Symbols()),
        plain_(options_.model),
        heed_optimizer_(NamedParameters(*heed_), options_),
        plain_optimizer_(StartedLike(*heed_, plain_), options_) {
    heed_->train();
    plain_.train();
    batch_.inputs = at::randint(kSymbols, {c.shape.batch, c.shape.kv_len}, at::kLong);
    batch_.targets = at::randint(kSymbols, {c.shape.batch * c.shape.kv_len}, at::kLong);
  }

  NamedTensors Run(BenchSide side, BenchPass /*pass*/) override {
    const bool heed = side == BenchSide::kHeed;
    AdamW& optimizer = heed ? heed_optimizer_ : plain_optimizer_;
    const at::Tensor loss = heed ? heed_->Loss(batch_) : plain_.Loss(batch_);
    loss.backward();
    optimizer.Step(0);
    NamedTensors computed{{"loss", loss.detach()}};
    const NamedTensors gradients = GradientsOf(NamedParameters(heed ? *heed_ : static_cast<torch::nn::Module&>(plain_)));
    for (const auto& [name, gradient] : heed ? gradients : ByHeedsNames(gradients))
      computed.emplace_back("d_" + name, gradient);
    optimizer.ClearGradients();
    return computed;
  }

  NamedTensors Arrays(BenchSide side) override {
    return side == BenchSide::kHeed ? NamedParameters(*heed_) : ByHeedsNames(NamedParameters(plain_));
  }

  std::string TorchPath(BenchPass /*pass*/) const override {
    const Shape& shape = case_.shape;
    const at::Tensor q = at::empty({shape.batch, shape.q_heads, shape.kv_len, shape.head_dim}).requires_grad_(true);
    return at::_fused_sdp_choice(q, q, q, std::nullopt, case_.dropout, true) == 1 ? "flash" : "math";
  }

  // The products of matrices, two backward for each forward, and those of causal attention, five backward for two.
  double Operations(BenchPass /*pass*/) const override {
    const auto tokens = static_cast<double>(case_.shape.batch * case_.shape.kv_len);
    const auto width = static_cast<double>(case_.shape.q_heads * case_.shape.head_dim);
    const double weights = 12.0 * kLayers * width * width + width * kSymbols;
    const double pairs = tokens * static_cast<double>(case_.shape.kv_len + 1) / 2;
    return 3.0 * 2.0 * tokens * weights + 3.5 * 4.0 * kLayers * width * pairs;
  }

 private:
  CallCase case_;
  TrainOptions options_;
  LanguageModel heed_;
  PlainModel plain_;
  AdamW heed_optimizer_, plain_optimizer_;
  Batch batch_;
};

}  // namespace

std::unique_ptr<BenchContenders> MakeTrainingContenders(const CallCase& c) { return std::make_unique<TrainingContenders>(c); }

}  // namespace heed::lab
