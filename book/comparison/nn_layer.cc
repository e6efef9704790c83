#include "book/comparison/nn_layer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "heed/nn/attention.h"
#include "heed/nn/attention_models.h"
#include "heed/nn/linear_encoders.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

// A module, what is compared of it as a function of X [1, length, width], and the parameters of that.
struct Mixer {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::vector<at::Tensor> weights;
};

nn::EncoderOptions Options(const LayerShape& shape, bool causal) {
  return nn::EncoderOptions(shape.width).layers(shape.level + 1).causal(causal).kernel(shape.kernel).heads(shape.heads);
}

// The convolution of layer `level`, padded as the encoder pads it.
Mixer MakeConvolution(const LayerShape& shape, bool causal, bool dilated) {
  const nn::ConvolutionEncoder encoder(Options(shape, causal).dilated(dilated));
  torch::nn::Conv1d convolution = encoder->convolutions.at(shape.level);
  const int64_t reach = (shape.kernel - 1) * convolution->options.dilation()->front(), left = causal ? reach : reach / 2;
  const auto forward = [convolution, reach, left](const at::Tensor& X) mutable {
    return convolution(at::constant_pad_nd(X.transpose(1, 2), {left, reach - left})).transpose(1, 2);
  };
  return {encoder.ptr(), forward, {convolution->weight}};
}

template <class Cell>
Mixer MakeRecurrence(const LayerShape& shape, const std::string& name) {
  const nn::RecurrentEncoder encoder(Options(shape, true).cell(name));
  auto* cell = encoder->cells.at(0)->as<Cell>();
  const auto parameters = cell->named_parameters();
  return {encoder.ptr(),
          [cell](const at::Tensor& X) { return std::get<0>(cell->forward(X)); },
          {parameters["weight_ih_l0"], parameters["weight_hh_l0"]}};
}

Mixer MakeAttention(const LayerShape& shape, Causal causal, Window window) {
  nn::MultiHeadAttention attention(
      nn::MultiHeadAttentionOptions(shape.width, shape.heads).causal(causal).window(window.left, window.right));
  return {attention.ptr(),
          [attention](const at::Tensor& X) mutable { return attention(X, X, X); },
          {attention->W_q->weight, attention->W_k->weight, attention->W_v->weight, attention->W_o->weight}};
}

// An LSTM and the embedding of its states.
Mixer MakeSelfAttentive(const LayerShape& shape) {
  nn::SelfAttentiveEncoder encoder(Options(shape, true));
  auto* cell = encoder->cells.at(0)->as<torch::nn::LSTMImpl>();
  const nn::StructuredAttention& attention = encoder->attentions.at(0);
  const auto parameters = cell->named_parameters();
  return {encoder.ptr(),
          [encoder, cell](const at::Tensor& X) mutable { return encoder->mix(0, std::get<0>(cell->forward(X))); },
          {parameters["weight_ih_l0"], parameters["weight_hh_l0"], attention->W_s1->weight, attention->W_s2->weight,
           encoder->combines.at(0)->weight}};
}

Mixer MakeDecomposable(const LayerShape& shape) {
  nn::DecomposableAttention attention(nn::DecomposableAttentionOptions(shape.width, shape.heads).max_distance(shape.window));
  const at::NoGradGuard no_grad;
  for (const auto& network : {attention->attend, attention->compare}) {
    network->dense1->bias.zero_();
    network->dense2->bias.zero_();
  }
  return {attention.ptr(),
          [attention](const at::Tensor& X) mutable { return attention(X); },
          {attention->attend->dense1->weight, attention->attend->dense2->weight, attention->position->relative_bias,
           attention->compare->dense1->weight, attention->compare->dense2->weight}};
}

// A module that reads forwards, with all of its parameters.
template <class Reader>
Mixer MakeReader(const LayerShape& shape) {
  Reader reader(shape.width, shape.width, /*bias=*/false);
  return {reader.ptr(), [reader](const at::Tensor& X) mutable { return reader(X); }, reader->parameters()};
}

Mixer MakeLinearMixer(const LayerShape& shape, const std::string& kind) {
  nn::LinearMixer mixer(kind, shape.width, shape.width, shape.heads);
  return {mixer.ptr(), [mixer](const at::Tensor& X) mutable { return mixer(X); }, mixer->parameters()};
}

// One position after the other.
at::Tensor LinearTurns(const at::Tensor& decays, const at::Tensor& entries) {
  std::vector<at::Tensor> states = {entries.select(1, 0)};
  for (int64_t i = 1; i < entries.size(1); ++i) {
    states.push_back(at::addcmul(entries.select(1, i), decays.select(1, i), states.back()));
  }
  return at::stack(states, 1);
}

// By doubling distances, all positions at once.
at::Tensor LinearScan(at::Tensor decays, at::Tensor states) {
  for (int64_t shift = 1; shift < states.size(1); shift *= 2) {
    const int64_t rest = states.size(1) - shift;
    const at::Tensor later = decays.narrow(1, shift, rest);
    states =
        at::cat({states.narrow(1, 0, shift), at::addcmul(states.narrow(1, shift, rest), later, states.narrow(1, 0, rest))}, 1);
    decays = at::cat({decays.narrow(1, 0, shift), later * decays.narrow(1, 0, rest)}, 1);
  }
  return states;
}

struct LinearGatesImpl : torch::nn::Module {
  explicit LinearGatesImpl(int64_t width)
      : decay(register_module("decay", torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)))),
        entry(register_module("entry", torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)))) {}
  torch::nn::Linear decay, entry;
};

Mixer MakeLinearRecurrence(const LayerShape& shape, bool parallel) {
  const auto gates = std::make_shared<LinearGatesImpl>(shape.width);
  const auto forward = [gates, parallel](const at::Tensor& X) {
    const at::Tensor decays = gates->decay(X).sigmoid(), entries = (1 - decays) * gates->entry(X);
    return parallel ? LinearScan(decays, entries) : LinearTurns(decays, entries);
  };
  return {gates, forward, {gates->decay->weight, gates->entry->weight}};
}

Mixer MakeMixer(const Layer& layer, const LayerShape& shape) {
  const LayerFacts& facts = layer.facts();
  const std::string& id = facts.id;
  if (facts.reach == Reach::kKernel) return MakeConvolution(shape, facts.causal, facts.changes_with_level);
  if (id == "rnn") return MakeRecurrence<torch::nn::RNNImpl>(shape, id);
  if (id == "gru") return MakeRecurrence<torch::nn::GRUImpl>(shape, id);
  if (id == "lstm") return MakeRecurrence<torch::nn::LSTMImpl>(shape, id);
  if (id.starts_with("linear-recurrence")) return MakeLinearRecurrence(shape, id.ends_with("-scan"));
  if (id == "attention") return MakeAttention(shape, Causal::kNone, {});
  if (id == "attention-causal") return MakeAttention(shape, Causal::kBottomRight, {});
  if (id == "attention-window") return MakeAttention(shape, Causal::kNone, {shape.window, shape.window});
  if (id == "decomposable") return MakeDecomposable(shape);
  if (id == "self-attentive") return MakeSelfAttentive(shape);
  if (id == "lstmn") return MakeReader<nn::Lstmn>(shape);
  if (id == "intra-decoder") return MakeReader<nn::IntraDecoder>(shape);
  return MakeLinearMixer(shape, id == "linear-chunked" ? "linear" : id);
}

// Uniform within 1 / sqrt(inputs of one output), as LibTorch's own layers begin.
void Randomise(std::vector<at::Tensor>& weights, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (at::Tensor& weight : weights) {
    const double bound = std::sqrt(static_cast<double>(weight.size(0)) / static_cast<double>(weight.numel()));
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

NnLayer::NnLayer(const Layer& layer, const LayerShape& shape, uint64_t seed)
    : modules_(std::make_unique<Modules>(Modules{shape.width, MakeMixer(layer, shape), MakeMixer(layer, shape)})) {
  const at::NoGradGuard no_grad;
  Randomise(modules_->single.weights, seed);
  modules_->twice.module->to(at::kDouble);
  for (std::size_t i = 0; i < modules_->single.weights.size(); ++i) {
    modules_->twice.weights[i].copy_(modules_->single.weights[i]);
  }
  modules_->single.module->eval();
  modules_->twice.module->eval();
}

NnLayer::~NnLayer() = default;

LayerWeights NnLayer::Weights() const {
  LayerWeights weights;
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

double NnLayer::FastestSeconds(int64_t length, int threads, double budget) const {
  const at::NoGradGuard no_grad;
  const ThreadCount count(threads);
  const at::Tensor X = at::ones({1, length, modules_->width});
  const auto pass = [&] { modules_->single.forward(X).contiguous(); };
  pass();  // the first one allocates and starts threads
  double fastest = INFINITY, spent = 0;
  for (int passes = 0; passes < 5 || (spent < budget && passes < 1000); ++passes) {
    const double seconds = SecondsOf(pass);
    fastest = std::min(fastest, seconds);
    spent += seconds;
  }
  return fastest;
}

}  // namespace heed::lab
