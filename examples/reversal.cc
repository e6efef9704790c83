// Sequence to sequence: an encoder reads letters, a decoder writes them backwards, both from attention.
//
// The decoder looks at its own letters causally and at the encoder's outputs by cross-attention. While it writes, two caches
// per layer spare it work: keys and values of the letters so far, and those of the encoder's outputs, which are projected once.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/optim/adam.h>

#include "heed/nn/transformer_decoder.h"

namespace {

constexpr int64_t kWidth = 64, kHeads = 4, kBlocks = 2;
constexpr int64_t kShortest = 3, kLongest = 8, kLetters = 16, kBatch = 64;
constexpr int64_t kPadding = 0, kBegin = 1, kEnd = 2, kFirst = 3, kTokens = kFirst + kLetters;  // letters from kFirst on
constexpr int kSteps = 180;

struct Words {
  at::Tensor source, lengths;  // [batch, kLongest] padded, [batch]
  at::Tensor target;           // [batch, kLongest + 1]: reversed, then kEnd, padded
};

Words Sample(int64_t batch) {
  const at::Tensor lengths = at::randint(kShortest, kLongest + 1, {batch, 1}, at::kLong);
  const at::Tensor place = at::arange(kLongest + 1);
  // One column more than the longest word, for its end.
  const at::Tensor source =
      at::randint(kFirst, kTokens, {batch, kLongest + 1}, at::kLong).masked_fill(place.ge(lengths), kPadding);
  const at::Tensor mirrored = source.gather(1, (lengths - 1 - place).clamp_min(0));
  return {source.slice(1, 0, kLongest), lengths.squeeze(1),
          mirrored.masked_fill(place.eq(lengths), kEnd).masked_fill(place.gt(lengths), kPadding)};
}

std::string Letters(const at::Tensor& tokens) {
  std::string word;
  for (int64_t i = 0; i < tokens.size(0); ++i) {
    const auto token = tokens[i].item<int64_t>();
    if (token >= kFirst) word += static_cast<char>('a' + token - kFirst);
  }
  return word;
}

template <class Options>
Options BlockOptions() {
  return std::move(Options(kWidth, 2 * kWidth, kHeads).norm(heed::nn::Norm::kPre));
}

struct Reverser : torch::nn::Module {
  Reverser() {
    // Embeddings are multiplied by the root of the width and added to positions of size 1: this start gives both their say.
    for (const auto& embedding : {encoder->embedding, decoder->embedding}) {
      torch::nn::init::normal_(embedding->weight, 0.0, 1.0 / std::sqrt(double{kWidth}));
    }
    register_module("encoder", encoder), register_module("decoder", decoder);
  }

  // The most likely letters [batch, kLongest + 1], one step at a time.
  at::Tensor Write(const at::Tensor& source, const at::Tensor& lengths) {
    at::Tensor memory = encoder->forward(source, lengths);
    at::Tensor tokens = at::full({source.size(0), 1}, kBegin, at::kLong);
    heed::nn::DecoderCache cache;
    std::vector<at::Tensor> written;
    for (int64_t step = 0; step <= kLongest; ++step) {
      tokens = decoder->forward(tokens, memory, lengths, /*valid_lens=*/{}, &cache).argmax(2);
      memory = at::Tensor();  // the first step has projected it into the cache
      written.push_back(tokens);
    }
    const at::Tensor all = at::cat(written, 1);
    return all.masked_fill(all.eq(kEnd).cumsum(1).gt(0), kEnd);  // nothing counts behind the end
  }

  heed::nn::TransformerEncoder encoder{kTokens, kBlocks, BlockOptions<heed::nn::TransformerEncoderBlockOptions>()};
  heed::nn::TransformerDecoder decoder{kTokens, kBlocks, BlockOptions<heed::nn::TransformerDecoderBlockOptions>()};
};

void Train(Reverser& model) {
  torch::optim::Adam optimizer(model.parameters());
  const at::Tensor begin = at::full({kBatch, 1}, kBegin, at::kLong);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.param_groups()[0].options().set_lr(4e-3 * std::min(1.0, (step + 1) / 30.0) * (1 - step / double{kSteps}));
    const Words words = Sample(kBatch);
    const at::Tensor memory = model.encoder->forward(words.source, words.lengths);
    const at::Tensor before = at::cat({begin, words.target.slice(1, 0, kLongest)}, 1);
    const at::Tensor logits = model.decoder->forward(before, memory, words.lengths);
    const at::Tensor loss = at::cross_entropy_loss(logits.flatten(0, 1), words.target.flatten(), /*weight=*/{},
                                                   at::Reduction::Mean, /*ignore_index=*/kPadding);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 60 == 59) std::printf("step %d: loss %.3f\n", step + 1, loss.item<double>());
  }
}

}  // namespace

int main() {
  at::manual_seed(0);
  Reverser model;
  Train(model);
  const at::NoGradGuard no_grad;
  model.eval();
  const Words words = Sample(200);
  const at::Tensor written = model.Write(words.source, words.lengths);
  int64_t right = 0;
  for (int64_t i = 0; i < written.size(0); ++i) {
    const std::string read = Letters(words.source[i]), wrote = Letters(written[i]);
    if (i < 4) std::printf("  %-8s -> %s\n", read.c_str(), wrote.c_str());
    right += std::equal(read.rbegin(), read.rend(), wrote.begin(), wrote.end()) ? 1 : 0;
  }
  std::printf("words reversed without a mistake: %d of 200\n", static_cast<int>(right));
  std::printf("nearly all are right: %s\n", right > 180 ? "yes" : "no");
  return 0;
}
