// Ranks that share sequences: their gradients, losses and tokens beside those of one process.

#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "heed/nn/position_choice.h"
#include "heed/nn/sequence_part.h"
#include "lab/data/corpus.h"
#include "lab/training/data_parallel.h"
#include "lab/training/evaluation.h"
#include "lab/training/fit.h"
#include "lab/training/trainer.h"
#include "tests/error_text.h"
#include "tests/lab/sample_runs.h"
#include "tests/lab/thread_ranks.h"

namespace heed::lab {
namespace {

LanguageModel MakeModel(const ModelOptions& options, const Vocabulary& vocabulary) {
  LanguageModel model{nullptr};
  BuildSeeded(1, [&] {
    model = LanguageModel(options, vocabulary);
    const at::NoGradGuard no_grad;  // tables that start at zero would hide what positions do
    for (const at::Tensor& parameter : model->parameters()) parameter.add_(0.1 * at::randn_like(parameter));
  });
  return model;
}

ModelOptions DoubleModel(const std::string& position, Objective objective, const std::string& encoder = "attention") {
  ModelOptions model = SmallModel(encoder);
  model.heads = 4;
  model.position = position;
  model.objective = objective;
  model.precision = "float64";
  return model;
}

Batch BatchOf(const ModelOptions& model, const Corpus& corpus, int64_t windows) {
  Random random(7);
  return RandomBatch(corpus.train, {model.objective, model.context, windows, static_cast<int32_t>(corpus.vocabulary.size())},
                     random);
}

// That a step of so many ranks has the loss and the gradients of one process.
void ExpectStepOfOneProcess(const ModelOptions& options, int ranks, int sequence_ranks) {
  const Corpus corpus = MakeCorpus(SampleText(), options.context);
  const Batch batch = BatchOf(options, corpus, 3);
  LanguageModel alone = MakeModel(options, corpus.vocabulary);
  const at::Tensor expected = alone->Loss(batch);
  expected.backward();
  OnThreads(ranks, [&](Ranks& all) {
    all.ShareSequences(sequence_ranks);
    LanguageModel model = MakeModel(options, corpus.vocabulary);
    DataParallel parallel(all, NamedParameters(*model), 3, options.objective);
    const at::Tensor share = parallel.Loss(batch, [&](const Batch& own) { return model->Loss(own); });
    const std::string where = options.position + " " + ToString(options.objective);
    EXPECT_NEAR(parallel.Backward(share, 0), expected.item<double>(), 1e-12) << where;
    for (const auto& [name, parameter] : NamedParameters(*alone)) {
      const at::Tensor found = model->named_parameters()[name].grad();
      if (!parameter.grad().defined()) continue;
      EXPECT_TRUE(at::allclose(found, parameter.grad(), 1e-10, 1e-13)) << where << " " << name;
    }
  });
}

TEST(SequenceParallelTest, GradientsOfEveryPositionAreThoseOfOneProcess) {
  int count = 0;
  for (const std::string& position : nn::PositionSchemeNames()) {
    for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
      if (objective == Objective::kMasked && nn::NeedsCausal(nn::ParsePositionScheme(position))) continue;
      const auto [ranks, sequence_ranks] = std::vector<std::pair<int, int>>{{2, 2}, {4, 2}, {4, 4}}[count++ % 3];
      ExpectStepOfOneProcess(DoubleModel(position, objective), ranks, sequence_ranks);
    }
  }
}

// Ranks that have few tokens have no hidden character among them, which leaves them nothing to predict.
TEST(SequenceParallelTest, PartsAreUnevenAndSomePredictNothing) {
  for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
    ModelOptions options = DoubleModel("learned", objective);
    options.context = 17;
    ExpectStepOfOneProcess(options, 6, 3);
    options.context = 5;
    ExpectStepOfOneProcess(options, 7, 7);
    ExpectStepOfOneProcess(DoubleModel("none", objective, "decomposable"), 4, 4);
  }
}

TEST(SequenceParallelTest, TheValidationLossIsThatOfOneProcess) {
  const ModelOptions options = DoubleModel("alibi", Objective::kCausal);
  const Corpus corpus = MakeCorpus(SampleText(), options.context);
  LanguageModel alone = MakeModel(options, corpus.vocabulary);
  for (const int64_t context : {16, 23, 5000}) {  // of many windows, a last one that is shorter; of 23 steps no zigzag; of one
    const Evaluation expected = Evaluate(alone, corpus.train.tokens, context);
    OnThreads(4, [&](Ranks& ranks) {
      ranks.ShareSequences(2);
      LanguageModel model = MakeModel(options, corpus.vocabulary);
      const Evaluation found = Evaluate(model, corpus.train.tokens, context, {}, &ranks);
      EXPECT_NEAR(found.loss, expected.loss, 1e-12);
      EXPECT_EQ(found.predictions, expected.predictions);
    });
  }
}

TEST(SequenceParallelTest, TokensOfABatchKeepWhatTheyPredict) {
  const at::Tensor inputs = at::arange(100, 116).view({2, 8});
  const Batch causal{inputs, inputs.flatten() + 1, {}};
  const Batch masked{inputs, at::tensor({1, 2, 3, 4}, at::kLong), at::tensor({6, 0, 9, 15}, at::kLong)};
  OnThreads(2, [&](Ranks& ranks) {
    ranks.ShareSequences(2);
    const nn::distributed::SequencePart part(ranks.group().sequence, 8, {.layout = nn::distributed::Layout::kZigzag});
    const at::Tensor columns = ranks.first() ? at::tensor({0, 1, 6, 7}, at::kLong) : at::tensor({2, 3, 4, 5}, at::kLong);
    const Batch own = TokensOf(causal, part), hidden = TokensOf(masked, part);
    EXPECT_TRUE(at::equal(own.inputs, inputs.index_select(1, columns)));
    EXPECT_TRUE(at::equal(own.targets, own.inputs.flatten() + 1));
    EXPECT_FALSE(own.rows.defined());
    EXPECT_TRUE(at::equal(hidden.rows,
                          at::tensor(ranks.first() ? std::vector<int64_t>{2, 0, 5, 7} : std::vector<int64_t>{}, at::kLong)));
    EXPECT_EQ(hidden.targets.numel(), ranks.first() ? 4 : 0);
  });
}

TEST(SequenceParallelTest, WhatRanksCannotShareIsRefusedByName) {
  const auto text = [](const std::string& encoder, const std::string& position, int64_t ranks) {
    ModelOptions model = SmallModel(encoder);
    model.position = position;
    return WhatOf<InvalidArgument>([&] { RequireShared(model, ranks); });
  };
  EXPECT_EQ(text("lstm", "none", 2),
            "encoder: 'lstm' computes a step of the state behind the one before, which another rank may "
            "have; --sequence-ranks needs attention or decomposable");
  EXPECT_EQ(text("dilated", "none", 2),
            "encoder: 'dilated' computes a step of those beside it, which another rank may have; "
            "--sequence-ranks needs attention or decomposable");
  EXPECT_EQ(text("attention", "cope", 4),
            "position: cope counts keys of all ranks, so that each computes whole heads; 2 heads do "
            "not go into 4 ranks (sequence_ranks)");
  for (const int64_t ranks : {1, 2}) EXPECT_NO_THROW(RequireShared(SmallModel("decomposable"), ranks));
  EXPECT_NO_THROW(RequireShared(SmallModel("lstm"), 1));
  EXPECT_EQ(WhatOf<InvalidArgument>([] { RequireGroups(3, 4); }),
            "sequence_ranks: expected a number that divides the 4 processes, got 3");
  EXPECT_EQ(WhatOf<InvalidArgument>([] { RequireGroups(0, 4); }),
            "sequence_ranks: expected a number that divides the 4 processes, got 0");
  const Corpus corpus = MakeCorpus(SampleText(), 16);
  OnThreads(2, [&](Ranks& ranks) {
    ranks.ShareSequences(2);
    EXPECT_THROW(Trainer(corpus, SmallRun("lstm"), &ranks), InvalidArgument);
  });
}

// One of the ranks is gone while the others compute attention: an error on them that names what they wait for.
TEST(SequenceParallelTest, ARankThatIsGoneIsAnErrorThatNamesIt) {
  const ModelOptions options = DoubleModel("rotary", Objective::kCausal);
  const Corpus corpus = MakeCorpus(SampleText(), options.context);
  const Batch batch = BatchOf(options, corpus, 3);
  OnThreads(
      2,
      [&](Ranks& ranks) {
        ranks.ShareSequences(2);
        if (!ranks.first()) return;
        LanguageModel model = MakeModel(options, corpus.vocabulary);
        DataParallel parallel(ranks, NamedParameters(*model), 3, options.objective);
        try {
          parallel.Loss(batch, [&](const Batch& own) { return model->Loss(own); });
          ADD_FAILURE() << "nothing was thrown";
        } catch (const RanksError& error) {
          EXPECT_NE(std::string(error.what())
                        .find("rank 0 of 2 waited for the tokens that other ranks have: among ranks 0 to 1, "
                              "which share sequences, heed::nn::distributed::attention: rank 0 of 2 waited "
                              "for rank 1, whose "),
                    std::string::npos)
              << error.what();
        }
      },
      std::chrono::seconds(2));
}

}  // namespace
}  // namespace heed::lab
