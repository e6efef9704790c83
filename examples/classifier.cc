// Classifies sentences of different lengths: is somebody content? Padded batches, valid lengths, a masked mean.
//
// In these sentences the order of the words decides: "the soup was not good but the room was fine" is about the soup. A bag of
// words cannot tell; attention with positions can.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/optim/adam.h>

#include "heed/nn/transformer.h"

namespace {

constexpr int64_t kWidth = 32, kHeads = 4, kBlocks = 2;
constexpr int64_t kMostWords = 64;
constexpr int kSteps = 300, kBatch = 64;

using Words = std::vector<std::string>;
const Words kGood = {"good", "fine", "warm", "lovely", "fresh", "friendly"},
            kBad = {"bad", "poor", "cold", "awful", "stale", "rude"};
const Words kThings = {"soup", "room", "guide", "film", "garden", "ticket"};
const std::vector<Words> kAsides = {
    {}, {}, {"which", "we", "chose"}, {"that", "my", "friend", "did", "not", "know"}, {"on", "the", "first", "day"}};

struct Sentence {
  Words words;
  bool praises = false;  // the thing that the first clause is about
};

Sentence Clause(std::mt19937& generator) {
  const auto pick = [&](const auto& choices) { return choices[generator() % choices.size()]; };
  const bool good = generator() % 2 == 0, negated = generator() % 2 == 0;
  Sentence clause{{"the", pick(kThings)}, good != negated};
  for (const std::string& word : pick(kAsides)) clause.words.push_back(word);
  clause.words.emplace_back("was");
  if (negated) clause.words.emplace_back("not");
  if (generator() % 2 == 0) clause.words.emplace_back("very");
  clause.words.push_back(pick(good ? kGood : kBad));
  return clause;
}

std::vector<Sentence> RandomSentences(std::mt19937& generator, int count) {
  std::vector<Sentence> sentences;
  for (int i = 0; i < count; ++i) {
    Sentence& sentence = sentences.emplace_back(Clause(generator));
    if (generator() % 10 < 3) continue;
    sentence.words.emplace_back("but");
    for (const std::string& word : Clause(generator).words) sentence.words.push_back(word);
  }
  return sentences;
}

// Words get numbers below kMostWords as they are met; 0 is the padding.
int64_t NumberOf(const std::string& word) {
  static std::map<std::string, int64_t> numbers;
  return numbers.try_emplace(word, static_cast<int64_t>(numbers.size()) + 1).first->second;
}

struct Batch {
  at::Tensor tokens, valid_lens, labels;  // [batch, longest], [batch], [batch]
};

Batch BatchOf(const std::vector<Sentence>& sentences) {
  std::size_t longest = 0;
  for (const Sentence& sentence : sentences) longest = std::max(longest, sentence.words.size());
  const auto count = static_cast<int64_t>(sentences.size());
  Batch batch{at::zeros({count, static_cast<int64_t>(longest)}, at::kLong), at::empty({count}, at::kLong), at::empty({count})};
  for (int64_t b = 0; b < count; ++b) {
    const Sentence& sentence = sentences[b];
    for (std::size_t i = 0; i < sentence.words.size(); ++i) {
      batch.tokens[b][static_cast<int64_t>(i)] = NumberOf(sentence.words[i]);
    }
    batch.valid_lens[b] = static_cast<int64_t>(sentence.words.size());
    batch.labels[b] = sentence.praises ? 1.0 : 0.0;
  }
  return batch;
}

struct Classifier : torch::nn::Module {
  Classifier() {
    // Embeddings are multiplied by the root of the width and added to positions of size 1: this start gives both their say.
    torch::nn::init::normal_(encoder->embedding->weight, 0.0, 1.0 / std::sqrt(double{kWidth}));
    register_module("encoder", encoder), register_module("head", head);
  }

  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& valid_lens) {
    const at::Tensor X = encoder->forward(tokens, valid_lens);  // no word looks at padding
    // The mean over the words that are there.
    const at::Tensor there = at::arange(tokens.size(1)).lt(valid_lens.unsqueeze(1)).unsqueeze(2);
    return head((X * there).sum(1) / valid_lens.unsqueeze(1)).squeeze(1);
  }

  heed::nn::TransformerEncoder encoder{
      kMostWords, kBlocks, heed::nn::TransformerEncoderBlockOptions(kWidth, 2 * kWidth, kHeads).norm(heed::nn::Norm::kPre)};
  torch::nn::Linear head{kWidth, 1};
};

void Train(Classifier& model, std::mt19937& generator) {
  torch::optim::Adam optimizer(model.parameters());
  for (int step = 0; step < kSteps; ++step) {
    optimizer.param_groups()[0].options().set_lr(4e-3 * (1 - step / double{kSteps}));
    const Batch batch = BatchOf(RandomSentences(generator, kBatch));
    const at::Tensor loss = at::binary_cross_entropy_with_logits(model.forward(batch.tokens, batch.valid_lens), batch.labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 60 == 59) std::printf("step %d: loss %.3f\n", step + 1, loss.item<double>());
  }
}

}  // namespace

int main() {
  at::manual_seed(0);
  std::mt19937 generator(0);
  Classifier model;
  Train(model, generator);
  const at::NoGradGuard no_grad;
  const std::vector<Sentence> sentences = RandomSentences(generator, 500);
  const Batch batch = BatchOf(sentences);
  const at::Tensor logits = model.forward(batch.tokens, batch.valid_lens);
  double alone = 0;  // largest difference when a sentence stands alone, without padding
  for (int64_t i = 0; i < 20; ++i) {
    const Batch one = BatchOf({sentences[i]});
    alone = std::max(alone, std::abs((model.forward(one.tokens, one.valid_lens)[0] - logits[i]).item<double>()));
  }
  for (int64_t i = 0; i < 4; ++i) {
    std::printf("%5.2f ", logits[i].sigmoid().item<double>());
    for (const std::string& word : sentences[i].words) std::printf(" %s", word.c_str());
    std::printf("\n");
  }
  const double accuracy = logits.gt(0).eq(batch.labels.gt(0.5)).to(at::kDouble).mean().item<double>();
  const double praising = batch.labels.mean().item<double>();
  std::printf("accuracy on 500 new sentences: %.3f; always the same answer: %.3f\n", accuracy,
              std::max(praising, 1 - praising));
  std::printf("nearly all are right: %s\n", accuracy > 0.95 ? "yes" : "no");
  std::printf("a sentence in a padded batch is what it is alone: %s\n", alone < 1e-4 ? "yes" : "no");
  return 0;
}
