// The answers of whole kept models: a row has the same bits alone and beside others, for any number of threads, and a text for
// any number of threads. That they are the same on every target, tests/portable holds.
#include "kept_models.h"

#include <gtest/gtest.h>

#include "tests/folder_fixture.h"

namespace heed {
namespace {

using KeptModelBits = ScratchFolderTest;

TEST_F(KeptModelBits, OfARowAreThoseAloneAndForAnyThreads) {
  SerialExecutor serial;
  const KeptModelRows rows;
  const auto count = static_cast<int64_t>(rows.lengths.size());
  for (const BitsEncoder& made : AllBitsEncoders()) {
    const SeriesModel model = KeepSeriesModel(folder().string(), made);
    const std::vector<double> all = rows.Answers(model, 0, count, serial);
    const int64_t outputs = model.form().outputs();
    for (int64_t row = 0; row < count; ++row) {
      const std::vector<double> within(all.begin() + row * outputs, all.begin() + (row + 1) * outputs);
      EXPECT_EQ(rows.Answers(model, row, 1, serial), within) << made.name << ", row " << row;
    }
    for (const int threads : {2, 8}) {
      ThreadPool pool(threads);
      EXPECT_EQ(rows.Answers(model, 0, count, pool), all) << made.name << ", " << threads << " threads";
    }
  }
}

TEST_F(KeptModelBits, OfATextAreThoseForAnyThreads) {
  SerialExecutor serial;
  for (const BitsEncoder& made : AllBitsEncoders()) {
    if (!made.options.causal) continue;
    const CharacterModel model = KeepCharacterModel(folder().string(), made);
    const std::vector<float> logits = model.Logits(KeptTokens(), serial);
    for (const int threads : {2, 8}) {
      ThreadPool pool(threads);
      EXPECT_EQ(model.Logits(KeptTokens(), pool), logits) << made.name << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace heed
