#include "lab/comparison/nn_layer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "heed/nn/encoders.h"

namespace heed::lab {
namespace {

// One encoder, the mixing module taken out of it as a function of X [1, length, width], and that module's parameters.
struct Mixer {
  std::shared_ptr<torch::nn::Module> encoder;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::vector<at::Tensor> weights;
};

Mixer MakeConvolution(const LayerShape& layer, nn::EncoderOptions options) {
  const nn::ConvolutionEncoder encoder(options.kernel(layer.kernel));
  torch::nn::Conv1d convolution = encoder->convolutions.at(0);
  const std::vector<int64_t> padding = {layer.taps_before(), layer.taps_after()};
  const auto forward = [convolution, padding](const at::Tensor& X) mutable {
    return convolution(at::constant_pad_nd(X.transpose(1, 2), padding)).transpose(1, 2);
  };
  return {encoder.ptr(), forward, {convolution->weight}};
}

Mixer MakeRecurrence(nn::EncoderOptions options) {
  const nn::RecurrentEncoder encoder(options.cell("rnn"));
  auto* cell = encoder->cells.at(0)->as<torch::nn::RNNImpl>();
  const auto parameters = cell->named_parameters();
  return {encoder.ptr(),
          [cell](const at::Tensor& X) { return std::get<0>(cell->forward(X)); },
          {parameters["weight_ih_l0"], parameters["weight_hh_l0"]}};
}

Mixer MakeSelfAttention(const LayerShape& layer, nn::EncoderOptions options) {
  const nn::AttentionEncoder encoder(options.heads(layer.heads));
  nn::MultiHeadAttention attention = encoder->blocks.at(0)->attention;
  return {encoder.ptr(),
          [attention](const at::Tensor& X) mutable { return attention(X, X, X); },
          {attention->W_q->weight, attention->W_k->weight, attention->W_v->weight, attention->W_o->weight}};
}

Mixer MakeMixer(const LayerShape& layer) {
  const nn::EncoderOptions options = nn::EncoderOptions(layer.width).layers(1).causal(layer.causal());
  switch (layer.kind) {
    case LayerKind::kCentredConvolution:
    case LayerKind::kCausalConvolution:
      return MakeConvolution(layer, options);
    case LayerKind::kRecurrence:
      return MakeRecurrence(options);
    case LayerKind::kSelfAttention:
      break;
  }
  return MakeSelfAttention(layer, options);
}

// Uniform within 1 / sqrt(inputs of one output), as LibTorch's own layers begin.
void Randomise(std::vector<at::Tensor>& weights, int64_t width, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (at::Tensor& weight : weights) {
    const double bound = std::sqrt(static_cast<double>(width) / static_cast<double>(weight.numel()));
    weight.uniform_(-bound, bound, generator);
  }
}

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

struct NnLayer::Modules {
  int64_t width;
  Mixer single, twice;  // the same weights in float32 and in float64
};

NnLayer::NnLayer(const LayerShape& layer, uint64_t seed)
    : modules_(std::make_unique<Modules>(Modules{layer.width, MakeMixer(layer), MakeMixer(layer)})) {
  const at::NoGradGuard no_grad;
  Randomise(modules_->single.weights, layer.width, seed);
  modules_->twice.encoder->to(at::kDouble);
  for (std::size_t i = 0; i < modules_->single.weights.size(); ++i) {
    modules_->twice.weights[i].copy_(modules_->single.weights[i]);
  }
  modules_->single.encoder->eval();
  modules_->twice.encoder->eval();
}

NnLayer::~NnLayer() = default;

LayerWeights<double> NnLayer::Weights() const {
  LayerWeights<double> weights;
  for (const at::Tensor& weight : modules_->twice.weights) {
    // Conv1d keeps [output, input, tap].
    const at::Tensor rows = (weight.dim() == 3 ? weight.transpose(1, 2) : weight).detach().contiguous();
    weights.emplace_back(rows.data_ptr<double>(), rows.data_ptr<double>() + rows.numel());
  }
  return weights;
}

std::vector<double> NnLayer::Forward(const std::vector<double>& x) const {
  const at::NoGradGuard no_grad;
  const int64_t length = static_cast<int64_t>(x.size()) / modules_->width;
  const at::Tensor X = at::empty({1, length, modules_->width}, at::kDouble);
  std::copy(x.begin(), x.end(), X.data_ptr<double>());
  const at::Tensor Y = modules_->twice.forward(X).contiguous();
  return {Y.data_ptr<double>(), Y.data_ptr<double>() + Y.numel()};
}

double NnLayer::MedianSeconds(int64_t length, double budget) const {
  const at::NoGradGuard no_grad;
  const at::Tensor X = at::ones({1, length, modules_->width});
  const auto pass = [&] { modules_->single.forward(X).contiguous(); };
  pass();  // the first one allocates and starts threads
  std::vector<double> seconds;
  for (double spent = 0; seconds.size() < 5 || (spent < budget && seconds.size() < 1000); spent += seconds.back()) {
    seconds.push_back(SecondsOf(pass));
  }
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  return seconds[seconds.size() / 2];
}

}  // namespace heed::lab
