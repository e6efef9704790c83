#include "book/tasks/solver.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>

#include "heed/nn/transformer.h"
#include "heed/nn/transformer_decoder.h"
#include "lab/data/view.h"
#include "lab/training/fit.h"
#include "lab/training/initialisation.h"
#include "lab/training/options.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {
namespace {

namespace F = torch::nn::functional;

at::Tensor Tokens(const TaskBatch& batch) { return View(batch.tokens, {batch.rows, batch.steps}); }
at::Tensor Classes(const TaskBatch& batch) { return View(batch.classes, {static_cast<int64_t>(batch.classes.size())}); }

class StepSolver : public Solver {
 public:
  StepSolver(const SequenceTask& task, SequenceModelOptions model)
      : classifies_(task.facts().Classifies()), model_(std::move(model)) {}

  at::Tensor Loss(const TaskBatch& batch) override {
    const at::Tensor answers = Answers(batch);
    if (classifies_) return F::cross_entropy(answers, Classes(batch));
    return at::mse_loss(answers.squeeze(1), Values(batch));
  }

  double Score(const TaskBatch& batch) override {
    const at::Tensor answers = Answers(batch);
    // The largest of answers that are no numbers would be a class all the same.
    RequireFinite("evaluation", {{"answers", answers}});
    if (classifies_) return answers.argmax(-1).eq(Classes(batch)).sum().item<double>();
    return (answers.squeeze(1) - Values(batch)).square().sum().item<double>();
  }

  torch::nn::Module& module() override { return *model_; }
  int64_t longest() const override { return model_->longest(); }

 private:
  static at::Tensor Values(const TaskBatch& batch) { return View(batch.values, {static_cast<int64_t>(batch.values.size())}); }

  // [scored, outputs].
  at::Tensor Answers(const TaskBatch& batch) {
    const bool tokens = !batch.tokens.empty();
    const at::Tensor X = tokens ? Tokens(batch) : View(batch.numbers, {batch.rows, batch.steps, model_->options().features});
    return model_->forward(X).flatten(0, 1).index_select(0, View(batch.scored, {static_cast<int64_t>(batch.scored.size())}));
  }

  bool classifies_;
  SequenceModel model_;
};

// What the blocks of both sides have in common.
template <class Block>
Block BlockOptions(const SequenceModelOptions& model, int64_t ffn_width) {
  Block block(model.width, ffn_width, model.heads);
  block.norm(nn::Norm::kPre).activation(nn::Activation::kGelu).bias(true);
  return block;
}

// An encoder and a Transformer decoder with cross-attention: one sequence of tokens written after another. Pre-norm throughout.
// The decoder's blocks are those of nn::TransformerDecoder with sinusoidal positions of their own, whatever the encoder is; it
// is started by a symbol behind its alphabet.
class TranslationSolver : public Solver, public torch::nn::Module {
 public:
  // `model` is the encoder's, of tokens and not causal; its `outputs` are the decoder's symbols. longest_output: steps that the
  // decoder's own positions reach.
  TranslationSolver(const SequenceModelOptions& model, int64_t longest_output)
      : model_(model), longest_(std::max(longest_output, model.longest)) {
    const int64_t reach = longest_ + 1;
    if (model.encoder == "attention" && model.position == "sinusoidal") {
      auto block = BlockOptions<nn::TransformerEncoderBlockOptions>(model, model.ffn_width);
      block.query_key_norm(ParseQueryKeyNorm(model.query_key_norm));
      transformer_ = register_module("transformer", nn::TransformerEncoder(model.symbols, model.layers, block, reach));
    } else {
      embedding_ = register_module("embedding", torch::nn::Embedding(model.symbols, model.width));
      encoder_ = register_module("encoder", nn::MakeEncoder(model.encoder, EncoderOptionsOf(model)));
    }
    decoder_ = register_module(
        "decoder", nn::TransformerDecoder(model.outputs + 1, model.layers,
                                          BlockOptions<nn::TransformerDecoderBlockOptions>(model, 2 * model.width), reach));
    InitialiseByWidth(*this, model.width, InitialDeviation(model.width));
  }

  // Of each step of the answer after those before it.
  at::Tensor Loss(const TaskBatch& batch) override {
    const at::Tensor answer = Classes(batch).view({batch.rows, batch.steps});
    const at::Tensor before = at::cat({StartSymbols(batch.rows), answer.narrow(1, 0, batch.steps - 1)}, 1);
    const at::Tensor logits = decoder_->forward(before, Encoded(batch)).narrow(2, 0, model_.outputs);
    return F::cross_entropy(logits.flatten(0, 1), answer.flatten());
  }

  // Of the most likely symbols, each after those that were written before it.
  double Score(const TaskBatch& batch) override {
    const at::NoGradGuard no_grad;
    const at::Tensor memory = Encoded(batch);
    nn::DecoderCache cache;
    std::vector<at::Tensor> written = {StartSymbols(batch.rows)};
    for (int64_t i = 0; i < batch.steps; ++i) {
      const at::Tensor logits = decoder_->forward(written.back(), memory, {}, {}, &cache);
      RequireFinite("evaluation", {{"answers", logits}});
      written.push_back(logits.narrow(2, 0, model_.outputs).argmax(2));
    }
    written.erase(written.begin());
    return at::cat(written, 1).flatten().eq(Classes(batch)).sum().item<double>();
  }

  torch::nn::Module& module() override { return *this; }
  int64_t longest() const override { return model_.position == "learned" ? model_.longest : longest_; }

 private:
  at::Tensor Encoded(const TaskBatch& batch) {
    const at::Tensor tokens = Tokens(batch);
    return transformer_ ? transformer_->forward(tokens) : encoder_->forward(embedding_->forward(tokens));
  }
  at::Tensor StartSymbols(int64_t rows) const {  // [rows, 1]
    return at::full({rows, 1}, model_.outputs, at::TensorOptions().dtype(at::kLong));
  }

  SequenceModelOptions model_;
  int64_t longest_;
  nn::TransformerEncoder transformer_{nullptr};  // attention with sinusoidal positions
  torch::nn::Embedding embedding_{nullptr};      // the others
  std::shared_ptr<nn::SequenceEncoder> encoder_;
  nn::TransformerDecoder decoder_{nullptr};
};

}  // namespace

std::unique_ptr<Solver> MakeSolver(const SequenceTask& task, const Contender& contender, int64_t ffn_width,
                                   const TaskOptions& options) {
  const TaskFacts& facts = task.facts();
  SequenceModelOptions model;
  model.encoder = contender.encoder;
  model.position = contender.position;
  model.causal = facts.causal;
  model.symbols = facts.symbols;
  model.features = facts.features;
  model.outputs = facts.outputs;
  model.layers = options.LayersFor(task);
  model.heads = options.heads;
  model.width = options.width;
  model.ffn_width = ffn_width;
  model.longest = options.length;
  model.query_key_norm = options.query_key_norm;
  if (facts.translates) return std::make_unique<TranslationSolver>(model, options.lengths.back());
  return std::make_unique<StepSolver>(task, model);
}

}  // namespace heed::lab
