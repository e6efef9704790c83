#include "lab/series/form.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/series/baselines.h"
#include "lab/series/batches.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

SeriesCut Options() {
  SeriesCut options;
  options.context = 4;
  return options;
}

// Twenty rows of t, x, y, of which row `changed` of the file is `cells`.
std::string ReadingError(int changed, const std::string& cells, const std::string& goal = "forecast", double scale = 1) {
  const ScratchFolder scratch;
  std::string csv = "t,x,y\n";
  for (int row = 2; row < 22; ++row) {
    csv += row == changed ? cells + "\n"
                          : std::to_string(row) + "," + std::to_string(row % 3) + "," + std::to_string(row % 5 * scale) + "\n";
  }
  const std::filesystem::path path = scratch.path() / "data.csv";
  WriteFile(path, csv);
  try {
    const SeriesData data = ReadSeriesCsv(path, {.target = "y", .sequence = "", .time = "t", .features = {}, .goal = goal});
    const SeriesBatches batches(data, Options());
    batches.ForEach(batches.validation_windows(), [](const SeriesBatch& batch) {
      for (const float value : batch.features) EXPECT_TRUE(std::isfinite(value * value));
      for (const float value : batch.values) EXPECT_TRUE(std::isfinite(value * value));
    });
    const Baseline simple = SimpleAnswer(batches);
    EXPECT_TRUE(std::isfinite(simple.loss) && simple.loss > 0);
  } catch (const FileError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find(path.string() + ": "), 0u) << message;
    return message.substr(path.string().size() + 2);
  }
  return {};
}

TEST(MagnitudesTest, NumbersThatCannotBeComputedWithAreNamedByTheirPlace) {
  EXPECT_EQ(ReadingError(7, "7,1,2"), "");
  EXPECT_EQ(ReadingError(7, "7,1,1e10"), "");
  EXPECT_TRUE(Holds(ReadingError(7, "7,1e308,2"), "row 7, column 'x': 1e+308 is beyond 1e100"));
  EXPECT_TRUE(Holds(ReadingError(8, "8,1,-1e200"), "row 8, column 'y': -1e+200 is beyond 1e100"));
  EXPECT_TRUE(Holds(ReadingError(21, "1e150,1,2"), "row 21, column 't': 1e+150 is beyond 1e100"));
  // Only the validation part has it, so that the training part's deviation does not tell.
  EXPECT_TRUE(Holds(ReadingError(21, "21,1e40,2"), "row 21, column 'x': 1e+40 lies more than 1e15 deviations"));
  EXPECT_TRUE(Holds(ReadingError(21, "21,1,1e40"), "row 21, column 'y': 1e+40 lies more than 1e15 deviations"));
}

TEST(MagnitudesTest, TimesThatLoseTheirStepsAreNamedByTheirPlace) {
  EXPECT_EQ(ReadingError(21, "9e14,1,2"), "");
  EXPECT_TRUE(Holds(ReadingError(21, "1e17,1,2"), "row 21, column 't': 1e+17 lies")) << ReadingError(21, "1e17,1,2");
  EXPECT_TRUE(Holds(ReadingError(2, "-1e17,1,2"), "row 3, column 't': 3 lies")) << ReadingError(2, "-1e17,1,2");
}

TEST(MagnitudesTest, TargetsThatHardlyDifferAreNamed) {
  const ScratchFolder scratch;
  std::string csv = "y\n";
  for (int row = 0; row < 20; ++row) csv += std::to_string(row % 5) + "e-200\n";
  WriteFile(scratch.path() / "small.csv", csv);
  const SeriesData data = ReadSeriesCsv(scratch.path() / "small.csv",
                                        {.target = "y", .sequence = "", .time = "", .features = {}, .goal = "forecast"});
  try {
    const SeriesBatches batches(data, Options());
    FAIL();
  } catch (const FileError& error) {
    EXPECT_TRUE(Holds(error.what(), "small.csv: column 'y'") && Holds(error.what(), "e-200")) << error.what();
  }
}

// Features too small to be squared are standardised like others.
TEST(MagnitudesTest, SmallFeaturesKeepTheirDeviation) {
  SeriesData data;
  data.name = "small", data.goal = "forecast", data.each_step = true;
  data.features = {"x"}, data.target = "y";
  SeriesSequence one{"all", 40, {}, {}, {}};
  for (int i = 0; i < 40; ++i) {
    one.features.push_back(i % 2 == 0 ? 1e-200 : -1e-200);
    one.targets.push_back(i % 3);
  }
  data.sequences.push_back(one);
  const SeriesBatches batches(data, Options());
  batches.ForEach(batches.validation_windows(), [](const SeriesBatch& batch) {
    for (const float value : batch.features) EXPECT_NEAR(std::abs(value), 1, 1e-6);  // rounding to float
  });
}

}  // namespace
}  // namespace heed::lab
