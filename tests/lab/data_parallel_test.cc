// Gradients of ranks: those of the whole batch, what is sent for them, and when.
#include "lab/training/data_parallel.h"

#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "lab/data/corpus.h"
#include "lab/training/evaluation.h"
#include "lab/training/fit.h"
#include "tests/lab/sample_runs.h"
#include "tests/lab/thread_ranks.h"

namespace heed::lab {
namespace {

constexpr int64_t kBatch = 7, kWidth = 300;

torch::nn::Sequential MakeLayers(int64_t layers) {
  torch::nn::Sequential model;
  BuildSeeded(3, [&] {
    for (int64_t l = 0; l < layers; ++l) model->push_back(torch::nn::Linear(kWidth, kWidth));
  });
  model->to(at::kDouble);
  return model;
}

// Windows whose tokens tell the number of their row.
Batch Rows() {
  const at::Tensor rows = at::arange(kBatch).unsqueeze(1).expand({kBatch, kWidth}).contiguous();
  return {rows, rows.flatten(), {}};
}

at::Tensor LossOf(torch::nn::Sequential& model, const Batch& batch) {
  return model->forward(batch.inputs.to(at::kDouble) / kWidth).square().mean();
}

// Hands everything on to another backend and keeps what it is asked to add up.
class Recorder : public c10d::Backend {
 public:
  Recorder(c10::intrusive_ptr<c10d::Backend> to, std::vector<std::string>& events)
      : Backend(to->getRank(), to->getSize()), to_(std::move(to)), events_(events) {}
  const std::string getBackendName() const override { return "recorder"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    bytes += tensors.at(0).nbytes();
    if (tensors[0].nbytes() > 100'000) events_.emplace_back("bucket");
    return to_->allreduce(tensors, options);
  }
  std::size_t bytes = 0;

 private:
  c10::intrusive_ptr<c10d::Backend> to_;
  std::vector<std::string>& events_;
};

c10::intrusive_ptr<Recorder> Record(Ranks& ranks, std::vector<std::string>& events) {
  c10d::ProcessGroup& group = *ranks.group().group;
  const auto recorder = c10::make_intrusive<Recorder>(group.getBackend(at::kCPU), events);
  group.setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, recorder);
  return recorder;
}

TEST(DataParallelTest, GradientsAreThoseOfTheWholeBatch) {
  torch::nn::Sequential whole = MakeLayers(3);
  const at::Tensor expected = LossOf(whole, Rows());
  expected.backward();
  for (const int size : {1, 2, 3, 7}) {
    OnThreads(size, [&](Ranks& ranks) {
      torch::nn::Sequential model = MakeLayers(3);
      DataParallel parallel(ranks, NamedParameters(*model), kBatch);
      for (const int64_t step : {0, 1}) {
        model->zero_grad();
        const at::Tensor loss = parallel.Loss(Rows(), [&](const Batch& batch) { return LossOf(model, batch); });
        EXPECT_NEAR(parallel.Backward(loss, step), expected.item<double>(), 1e-14);
        EXPECT_FALSE(parallel.interrupted());
        for (std::size_t i = 0; i < model->parameters().size(); ++i) {
          EXPECT_TRUE(at::allclose(model->parameters()[i].grad(), whole->parameters()[i].grad(), 1e-12, 1e-15)) << i;
        }
      }
    });
  }
}

// docs/distributed.md tells of these bytes.
TEST(DataParallelTest, AStepAddsUpEveryGradientOnceAndTwoNumbersMore) {
  OnThreads(2, [](Ranks& ranks) {
    torch::nn::Sequential model = MakeLayers(5);
    std::vector<std::string> events;
    const auto recorder = Record(ranks, events);
    DataParallel parallel(ranks, NamedParameters(*model), kBatch);
    for (const int64_t step : {0, 1, 2}) {
      recorder->bytes = 0;
      model->zero_grad();
      parallel.Backward(parallel.Loss(Rows(), [&](const Batch& batch) { return LossOf(model, batch); }), step);
      constexpr std::size_t kNumbers = 5 * (kWidth * kWidth + kWidth), kTensors = 2 * 5;
      EXPECT_EQ(recorder->bytes, 8 * kNumbers + 4 * kTensors + 2 * 8) << step;
    }
  });
}

TEST(DataParallelTest, BucketsAreOnTheirWayBeforeTheBackwardPassEnds) {
  OnThreads(2, [](Ranks& ranks) {
    torch::nn::Sequential model = MakeLayers(6);  // of 0.7 MiB each
    std::vector<std::string> events;
    const auto recorder = Record(ranks, events);
    DataParallel parallel(ranks, NamedParameters(*model), kBatch);
    model->parameters()[0].register_hook([&](const at::Tensor&) { events.emplace_back("first layer"); });
    for (const int64_t step : {0, 1}) {
      events.clear();
      model->zero_grad();
      parallel.Backward(parallel.Loss(Rows(), [&](const Batch& batch) { return LossOf(model, batch); }), step);
      // Two layers fill a bucket: those of the last four are gone when the first one's gradient comes.
      EXPECT_EQ(events, (std::vector<std::string>{"bucket", "bucket", "first layer", "bucket"})) << step;
    }
  });
}

TEST(DataParallelTest, AnInfiniteLossOnOneRankIsEveryRanks) {
  OnThreads(3, [](Ranks& ranks) {
    torch::nn::Sequential model = MakeLayers(1);
    DataParallel parallel(ranks, NamedParameters(*model), kBatch);
    const double factor = ranks.rank() == 2 ? std::numeric_limits<double>::infinity() : 1.0;
    const at::Tensor loss = parallel.Loss(Rows(), [&](const Batch& batch) { return LossOf(model, batch) * factor; });
    EXPECT_FALSE(std::isfinite(parallel.Backward(loss, 0)));
    EXPECT_FALSE(std::isfinite(model->parameters()[0].grad().sum().item<double>()));
  });
}

TEST(DataParallelTest, RowsOfMaskedBatchesKeepTheirPredictions) {
  // Three windows of four steps, two of which are to be predicted.
  const Batch batch{at::arange(12).view({3, 4}), at::arange(6), at::tensor({1, 3, 4, 6, 9, 11}, at::kLong)};
  const Batch part = RowsOf(batch, 1, 3);
  EXPECT_TRUE(at::equal(part.inputs, at::arange(4, 12).view({2, 4})));
  EXPECT_TRUE(at::equal(part.targets, at::arange(2, 6)));
  EXPECT_TRUE(at::equal(part.rows, at::tensor({0, 2, 5, 7}, at::kLong)));
}

TEST(DataParallelTest, FewerRowsThanRanksAreRefused) {
  OnThreads(3, [](Ranks& ranks) { EXPECT_THROW(DataParallel(ranks, NamedParameters(*MakeLayers(1)), 2), InvalidArgument); });
}

TEST(DataParallelTest, TheValidationLossHasTheBitsOfOneProcess) {
  const Corpus corpus = MakeCorpus(SampleText(), 16);
  const auto make = [&] {
    LanguageModel model{nullptr};
    BuildSeeded(1, [&] { model = LanguageModel(SmallModel(), corpus.vocabulary); });
    return model;
  };
  LanguageModel alone = make();
  const Evaluation expected = Evaluate(alone, corpus.train.tokens);
  OnThreads(3, [&](Ranks& ranks) {
    LanguageModel model = make();
    const Evaluation found = Evaluate(model, corpus.train.tokens, 0, {}, &ranks);
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.predictions, expected.predictions);
  });
}

}  // namespace
}  // namespace heed::lab
