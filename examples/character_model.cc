// A character language model that writes with a cache: "the old cat says meow."
//
// Training sees whole windows at once. Writing goes on character by character: each step computes one character, and attention
// looks at the keys and values that the steps before have left in a cache for each layer.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include "heed/nn/encoders.h"

namespace {

constexpr int64_t kWidth = 64, kLayers = 2, kHeads = 4, kContext = 64, kBatch = 16;
constexpr int kSteps = 150;

const std::string kCharacters = "\n abcdefghijklmnopqrstuvwxyz.";
const std::vector<std::string> kKinds = {"small", "old", "grey", "noisy", "hungry"};
const std::vector<std::pair<std::string, std::string>> kNoises = {
    {"cat", "meow"},  {"dog", "woof"},     {"cow", "moo"},  {"duck", "quack"}, {"owl", "hoot"},    {"sheep", "baa"},
    {"lion", "roar"}, {"mouse", "squeak"}, {"bee", "buzz"}, {"frog", "croak"}, {"horse", "neigh"}, {"snake", "hiss"}};

// "the old cat says" and " meow.\n".
std::pair<std::string, std::string> Line(std::size_t pair) {
  const auto& [animal, noise] = kNoises[pair / kKinds.size()];
  return {"the " + kKinds[pair % kKinds.size()] + " " + animal + " says", " " + noise + ".\n"};
}

// Every sixth pair of kind and animal is kept from the training.
std::vector<std::size_t> Pairs(bool unseen) {
  std::vector<std::size_t> pairs;
  for (std::size_t pair = 0; pair < kNoises.size() * kKinds.size(); ++pair) {
    if ((pair % 6 == 0) == unseen) pairs.push_back(pair);
  }
  return pairs;
}

at::Tensor Encode(const std::string& text) {  // [1, characters]
  std::vector<int64_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<int64_t>(kCharacters.find(c)));
  return at::tensor(tokens).unsqueeze(0);
}

heed::nn::EncoderOptions Options() {
  // No table of positions: ALiBi favours near characters by their distance, whatever the length.
  heed::nn::PositionOptions position;
  position.scheme = heed::nn::PositionScheme::kAlibi;
  return heed::nn::EncoderOptions(kWidth).layers(kLayers).heads(kHeads).ffn_width(4 * kWidth).causal(true).position(position);
}

struct CharacterModel : torch::nn::Module {
  CharacterModel() {
    register_module("embedding", embedding), register_module("encoder", encoder), register_module("head", head);
  }

  // tokens [batch, n] -> logits [batch, n, characters].
  at::Tensor forward(const at::Tensor& tokens) { return head(encoder(embedding(tokens))); }
  // The same for the tokens behind those of earlier calls.
  at::Tensor step(const at::Tensor& tokens, heed::nn::LayerCaches& caches) {
    return head(encoder->step(embedding(tokens), caches));
  }

  torch::nn::Embedding embedding{static_cast<int64_t>(kCharacters.size()), kWidth};
  heed::nn::AttentionEncoder encoder{Options()};
  torch::nn::Linear head{kWidth, static_cast<int64_t>(kCharacters.size())};
};

// Lines in random order, cut into windows [kBatch, kContext + 1].
at::Tensor Windows(std::mt19937& generator) {
  const std::vector<std::size_t> seen = Pairs(/*unseen=*/false);
  std::string text;
  while (text.size() < kBatch * (kContext + 1)) {
    const auto [begin, end] = Line(seen[generator() % seen.size()]);
    text += begin + end;
  }
  return Encode(text.substr(0, kBatch * (kContext + 1))).view({kBatch, kContext + 1});
}

void Train(CharacterModel& model) {
  std::mt19937 generator(0);
  torch::optim::Adam optimizer(model.parameters());
  for (int step = 0; step < kSteps; ++step) {
    optimizer.param_groups()[0].options().set_lr(5e-3 * std::min(1.0, (step + 1) / 20.0) * (1 - step / double{kSteps}));
    const at::Tensor windows = Windows(generator);
    const at::Tensor logits = model.forward(windows.slice(1, 0, kContext));
    const at::Tensor loss = at::cross_entropy_loss(logits.flatten(0, 1), windows.slice(1, 1).flatten());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 50 == 49) std::printf("step %d: loss %.3f\n", step + 1, loss.item<double>());
  }
}

// What the model finds most likely behind the prompt, up to the end of the line.
std::string Write(CharacterModel& model, const std::string& prompt) {
  heed::nn::LayerCaches caches(kLayers);
  at::Tensor tokens = Encode(prompt);
  std::string text;
  while (text.size() < kContext && !text.ends_with('\n')) {
    tokens = model.step(tokens, caches).slice(1, -1).argmax(2);  // the first call reads the prompt, later ones a character each
    text += kCharacters[tokens.item<int64_t>()];
  }
  return text;
}

// The largest difference between logits by cached steps and those of the whole text at once.
double CachedError(CharacterModel& model) {
  heed::nn::LayerCaches caches(kLayers);
  const at::Tensor tokens = Encode(Line(1).first + Line(1).second + Line(20).first);
  std::vector<at::Tensor> steps;
  for (int64_t i = 0; i < tokens.size(1); ++i) steps.push_back(model.step(tokens.slice(1, i, i + 1), caches));
  return (at::cat(steps, 1) - model.forward(tokens)).abs().max().item<double>();
}

}  // namespace

int main() {
  at::manual_seed(0);
  CharacterModel model;
  std::printf("guessing any of %zu characters: loss %.3f\n", kCharacters.size(), std::log(double(kCharacters.size())));
  Train(model);
  const at::NoGradGuard no_grad;
  model.eval();
  const std::vector<std::size_t> unseen = Pairs(/*unseen=*/true);
  std::size_t right = 0;
  for (const std::size_t pair : unseen) {
    const auto [begin, end] = Line(pair);
    const std::string written = Write(model, begin);
    if (pair < 18) std::printf("  %s%s", begin.c_str(), written.c_str());
    right += written == end ? 1 : 0;
  }
  std::printf("right, of pairs that it never read: %zu of %zu\n", right, unseen.size());
  std::printf("nearly all are right: %s\n", 10 * right >= 8 * unseen.size() ? "yes" : "no");
  std::printf("cached steps give the logits of the whole text: %s\n", CachedError(model) < 1e-4 ? "yes" : "no");
  return 0;
}
