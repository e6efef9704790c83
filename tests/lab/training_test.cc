#include "lab/training/train.h"

#include <cmath>
#include <csignal>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/nn/positions.h"
#include "heed/nn/structured_attention.h"
#include "lab/data/corpus.h"
#include "lab/training/evaluation.h"
#include "lab/training/interrupt.h"
#include "lab/training/trainer.h"
#include "tests/lab/sample_runs.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

Trainer MakeTrainer(const TrainOptions& options) { return Trainer(MakeCorpus(SampleText(), options.model.context), options); }

TrainResult TrainSample(const TrainOptions& options, const TrainCallbacks& callbacks = {}) {
  const ScratchFolder scratch;
  return Train(SampleText(), options, RunFolder(scratch.path() / "run"), callbacks);
}

TEST(Training, LearnsATextThatRepeatsItself) {
  TrainOptions options = SmallRun();
  options.steps = 150;
  options.lr = 1e-2;
  options.min_lr = 1e-3;
  const TrainResult result = TrainSample(options);
  // The text is all but determined by its past; even the share of each letter alone leaves more than 2 nats.
  EXPECT_LT(result.metrics.back().val_loss, 0.5);
  EXPECT_EQ(result.metrics.back().step, 150);
}

TEST(Training, ReportsAtEveryIntervalAndAtTheEnd) {
  std::vector<int64_t> steps, reports;
  TrainCallbacks callbacks;
  callbacks.on_step = [&](int64_t step, double loss, double) {
    steps.push_back(step);
    EXPECT_TRUE(std::isfinite(loss));
  };
  callbacks.on_report = [&](const Metrics& metrics) { reports.push_back(metrics.step); };
  TrainSample(SmallRun(), callbacks);
  EXPECT_EQ(steps.size(), 12u);
  EXPECT_EQ(reports, (std::vector<int64_t>{5, 10, 12}));
}

// The rows of weights end as much alike as the weight of their penalty lets them; without one, nothing is added to the loss.
TEST(Training, APenaltyKeepsRowsOfWeightsApart) {
  std::vector<double> alike;
  for (const double penalty : {0.0, 1.0}) {
    TrainOptions options = SmallRun("self-attentive");
    options.steps = 40, options.lr = 1e-2, options.min_lr = 1e-3, options.penalty = penalty;
    LanguageModel model = *TrainSample(options).model;
    model->train();
    const at::NoGradGuard no_grad;
    const at::Tensor tokens = at::arange(32).remainder(4).view({2, 16});
    model->forward(tokens);
    alike.push_back(nn::AnnotationPenalty(*model).item<double>());
  }
  EXPECT_LT(alike[1], 0.8 * alike[0]);
}

TrainOptions SmallRunOf(const std::string& schedule) {
  TrainOptions options = SmallRun();
  options.schedule = schedule;
  return options;
}

TEST(Training, TheReportedLossIsThatOfTheWholeValidationSplit) {
  for (const char* schedule : {"cosine", "free"}) {
    TrainResult result = TrainSample(SmallRunOf(schedule));
    const Corpus corpus = MakeCorpus(SampleText(), 16);
    const Evaluation evaluation = Evaluate(*result.model, corpus.validation);
    EXPECT_EQ(evaluation.predictions, 179);
    EXPECT_EQ(evaluation.loss, result.metrics.back().val_loss) << schedule;
  }
}

// What is measured on the way leaves no trace, and what was done is the same whatever number of steps was planned.
TEST(Training, WithoutAScheduleALongerRunBeginsAsAShorterOne) {
  TrainOptions shorter = SmallRunOf("free"), longer = shorter;
  longer.steps = 20, longer.eval_every = 6;
  const TrainResult short_run = TrainSample(shorter), long_run = TrainSample(longer);
  EXPECT_EQ(short_run.metrics.back().step, 12);
  EXPECT_EQ(long_run.metrics[1].step, 12);
  EXPECT_EQ(short_run.metrics.back().val_loss, long_run.metrics[1].val_loss);
}

TEST(Training, TheSeedDecidesEveryBit) {
  TrainOptions options = SmallRun();
  options.model.dropout = 0.1;
  const std::vector<char> first = Bits(*TrainSample(options).model);
  EXPECT_EQ(Bits(*TrainSample(options).model), first);
  options.seed = 1;
  EXPECT_NE(Bits(*TrainSample(options).model), first);
}

// The state goes through a file, between reports, with dropout on; then both trainers go on and must agree in every bit.
void ExpectResumesToTheSameBits(TrainOptions options) {
  options.model.dropout = 0.2;
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "checkpoint.safetensors").string();
  Trainer straight = MakeTrainer(options);
  straight.Train(7);
  const nn::Safetensors state = straight.State();
  nn::WriteSafetensors(path, state.tensors, state.metadata);
  straight.Train(10);
  const double loss = straight.Report().train_loss;

  Trainer resumed = MakeTrainer(options);
  resumed.Restore(nn::ReadSafetensors(path), path);
  EXPECT_EQ(resumed.step(), 7);
  resumed.Train(10);
  EXPECT_EQ(resumed.Report().train_loss, loss);
  EXPECT_EQ(Bits(resumed.model()), Bits(straight.model()));
}

TEST(Training, AResumedRunReachesTheSameBits) {
  for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
    for (const char* encoder : {"convolution", "rnn", "gru", "lstm", "gru-attention", "decomposable", "self-attentive", "lstmn",
                                "intra-decoder", "linear", "retention", "mamba2", "gated-delta"}) {
      SCOPED_TRACE(encoder + (" " + ToString(objective)));
      TrainOptions options = SmallRun(encoder);
      options.model.objective = objective;
      if (options.model.encoder == "self-attentive") options.penalty = 0.1;
      ExpectResumesToTheSameBits(options);
    }
    for (const std::string& position : nn::PositionSchemeNames()) {
      if (position == "xpos" && objective != Objective::kCausal) continue;
      SCOPED_TRACE(position + " " + ToString(objective));
      TrainOptions options = SmallRun();
      options.model.objective = objective;
      options.model.position = position;
      ExpectResumesToTheSameBits(options);
    }
  }
}

// Ctrl-C at step 7 of 12, then resumed: the folder ends as that of a run left alone.
void ExpectToGoOn(const std::string& schedule) {
  SCOPED_TRACE(schedule);
  const ScratchFolder scratch;
  const RunFolder broken(scratch.path() / "broken"), whole(scratch.path() / "whole");
  TrainOptions options = SmallRunOf(schedule);
  options.model.dropout = 0.1;
  Train(SampleText(), options, whole);

  WatchForInterrupt();
  TrainCallbacks callbacks;
  callbacks.on_step = [](int64_t step, double, double) {
    if (step == 7) std::raise(SIGINT);
  };
  EXPECT_THROW(Train(SampleText(), options, broken, callbacks), Interruption);
  WatchForInterrupt();
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_EQ(broken.ReadMetrics(1000).size(), 1u);
  std::vector<int64_t> steps;
  callbacks.on_step = [&](int64_t step, double, double) { steps.push_back(step); };
  Resume(SampleText(), broken, callbacks);
  EXPECT_EQ(steps, (std::vector<int64_t>{8, 9, 10, 11, 12}));

  const nn::Safetensors expected = nn::ReadSafetensors(whole.checkpoint().string());
  const nn::Safetensors found = nn::ReadSafetensors(broken.checkpoint().string());
  EXPECT_EQ(found.metadata, expected.metadata);
  for (const auto& [name, tensor] : expected.tensors) EXPECT_TRUE(at::equal(found.tensors.at(name), tensor)) << name;
  const std::vector<Metrics> metrics = broken.ReadMetrics(1000), whole_metrics = whole.ReadMetrics(1000);
  ASSERT_EQ(metrics.size(), whole_metrics.size());
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(metrics[i].step, whole_metrics[i].step);
    EXPECT_EQ(metrics[i].train_loss, whole_metrics[i].train_loss);
    EXPECT_EQ(metrics[i].val_loss, whole_metrics[i].val_loss);
  }
}

TEST(Training, AnInterruptedRunLeavesACheckpointAndGoesOn) {
  for (const char* schedule : {"cosine", "free"}) ExpectToGoOn(schedule);
}

TEST(Training, ResumingAFinishedRunChangesNothing) {
  for (const char* schedule : {"cosine", "free"}) {
    const ScratchFolder scratch;
    const RunFolder folder(scratch.path() / "run");
    const std::vector<char> bits = Bits(*Train(SampleText(), SmallRunOf(schedule), folder).model);
    const TrainResult result = Resume(SampleText(), folder);
    EXPECT_EQ(Bits(*result.model), bits) << schedule;
    EXPECT_EQ(result.metrics.size(), 3u);
  }
}

TEST(Training, TheSavedModelIsTheTrainedOne) {
  for (const char* schedule : {"cosine", "free"}) {
    const ScratchFolder scratch;
    const RunFolder folder(scratch.path() / "run");
    const TrainResult result = Train(SampleText(), SmallRunOf(schedule), folder);
    LanguageModel loaded = LoadModel(folder);
    EXPECT_EQ(Bits(loaded), Bits(*result.model)) << schedule;
    EXPECT_EQ(loaded->vocabulary().characters(), (*result.model)->vocabulary().characters());
    EXPECT_FALSE(loaded->is_training());
  }
}

TEST(Training, AFolderWithARunIsNotOverwritten) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() / "run");
  Train(SampleText(), SmallRun(), folder);
  EXPECT_THROW(Train(SampleText(), SmallRun(), folder), InvalidArgument);
}

TEST(Training, OnlyTheSameTextGoesOn) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() / "run");
  Train(SampleText(), SmallRun(), folder);
  Text other = SampleText();
  other.characters[5] = U'x';
  EXPECT_THROW(Resume(other, folder), InvalidArgument);
}

TEST(Training, ADivergingRunSaysSo) {
  TrainOptions options = SmallRun();
  options.lr = 1e18;
  options.warmup = 0;
  options.clip = 0;
  options.steps = 100;
  try {
    TrainSample(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("lr"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace heed::lab
