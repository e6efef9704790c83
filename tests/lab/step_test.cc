
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "lab/report/file.h"
#include "lab/training/fit.h"
#include "lab/training/train.h"
#include "lab/training/trainer.h"
#include "tests/error_text.h"
#include "tests/lab/sample_runs.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

TEST(RequireFiniteTest, FindsEveryKindOfNumberThatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const int64_t size : {1, 7, 64, 1000}) {
      const at::Tensor good = at::full({size}, type == at::kHalf ? 65504.0 : 3e38, type);
      EXPECT_EQ(WhatOf<Divergence>([&] { RequireFinite("x", {{"w", good}}); }), "") << type << size;
      for (const double bad : {infinity, -infinity, std::nan("")}) {
        at::Tensor tensor = at::zeros({size}, type);
        tensor[size - 1] = bad;
        const std::string message = WhatOf<Divergence>([&] { RequireFinite("x", {{"ok", good}, {"w", tensor}}); });
        EXPECT_TRUE(Holds(message, "x: the values of 'w'")) << type << size << bad << message;
      }
    }
  }
  EXPECT_EQ(WhatOf<Divergence>([&] {
              RequireFinite("x", {{"bytes", at::ones({3}, at::kByte)}, {"none", at::empty({0})}});
            }),
            "");
}

struct Fitted {
  torch::nn::Linear module{torch::nn::LinearOptions(4, 4)};
  TrainOptions options;
  std::string Message(double factor) {
    return WhatOf<Divergence>([&] {
      Fit(*module, options, [&] { return module->forward(at::ones({2, 4})).square().sum() * factor; });
    });
  }
};

TEST(TrainStepTest, AFitSaysWhichStepLeftTheFiniteNumbers) {
  Fitted fitted;
  fitted.options.steps = 1, fitted.options.warmup = 0;
  EXPECT_EQ(fitted.Message(1), "");
  EXPECT_TRUE(Holds(fitted.Message(std::nan("")), "at step 1: the loss is nan"));
  EXPECT_TRUE(Holds(fitted.Message(1e38), "the norm of the gradient inf")) << fitted.Message(1e38);
  EXPECT_TRUE(at::isfinite(fitted.module->weight).all().item<bool>()) << "nothing has changed";
  fitted.options.lr = 1e308;  // the last step breaks what nothing reads any more
  const std::string message = fitted.Message(1);
  EXPECT_TRUE(Holds(message, "at step 1: the values of '")) << message;
}

TEST(CheckpointTest, NoNumberThatIsNotFiniteIsWritten) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() / "run");
  TrainResult result = Train(SampleText(), SmallRun(), folder);
  const std::string before = ReadFile(folder.checkpoint());
  Trainer trainer(MakeCorpus(SampleText(), SmallRun().model.context), SmallRun());
  trainer.model()->parameters().front().data().flatten()[0] = std::nan("");
  EXPECT_TRUE(Holds(WhatOf<Divergence>([&] { SaveCheckpoint(folder, trainer); }), "checkpoint of step 0"));
  EXPECT_EQ(ReadFile(folder.checkpoint()), before);
}

TEST(TrainingTest, AFolderThatIsRemovedOrReplacedEndsTheRun) {
  for (const bool replaced : {false, true}) {
    const ScratchFolder scratch;
    const RunFolder folder(scratch.path() / "run");
    TrainCallbacks callbacks;
    callbacks.on_step = [&](int64_t step, double, double) {
      if (step != 3) return;
      std::filesystem::remove_all(folder.path());
      if (replaced) std::filesystem::create_directory(folder.path());
    };
    try {
      Train(SampleText(), SmallRun(), folder, callbacks);
      ADD_FAILURE() << "the run went on";
    } catch (const FileError& error) {
      EXPECT_TRUE(Holds(error.what(), folder.path().string())) << error.what();
    }
    EXPECT_EQ(std::filesystem::exists(folder.path()), replaced);
    EXPECT_TRUE(!replaced || std::filesystem::is_empty(folder.path()));
  }
}

}  // namespace
}  // namespace heed::lab
