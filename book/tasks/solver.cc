#include "book/tasks/solver.h"

#include <utility>

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>

#include "book/tasks/translator.h"
#include "lab/data/view.h"
#include "lab/training/fit.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {
namespace {

namespace F = torch::nn::functional;

at::Tensor Tokens(const TaskBatch& batch) { return View(batch.tokens, {batch.rows, batch.steps}); }
at::Tensor Classes(const TaskBatch& batch) { return View(batch.classes, {static_cast<int64_t>(batch.classes.size())}); }

double RightAnswers(const at::Tensor& logits, const at::Tensor& classes) {
  return logits.argmax(-1).eq(classes).sum().item<double>();
}

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
    if (classifies_) return RightAnswers(answers, Classes(batch));
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

class TranslationSolver : public Solver {
 public:
  explicit TranslationSolver(TranslatorOptions options) : model_(std::move(options)) {}

  at::Tensor Loss(const TaskBatch& batch) override {
    const at::Tensor answer = Classes(batch).view({batch.rows, batch.steps});
    return F::cross_entropy(model_->forward(Tokens(batch), answer).flatten(0, 1), answer.flatten());
  }

  double Score(const TaskBatch& batch) override {
    return model_->Write(Tokens(batch)).flatten().eq(Classes(batch)).sum().item<double>();
  }

  torch::nn::Module& module() override { return *model_; }
  int64_t longest() const override { return model_->longest(); }

 private:
  Translator model_;
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
  if (facts.translates) return std::make_unique<TranslationSolver>(TranslatorOptions{model, options.lengths.back()});
  return std::make_unique<StepSolver>(task, model);
}

}  // namespace heed::lab
