#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "bench/study/record.h"
#include "bench/study/replay.h"
#include "lab/data/text.h"
#include "lab/report/file.h"
#include "lab/runs/contest.h"
#include "lab/study/study.h"
#include "tests/scratch_folder.h"

namespace heed::bench {
namespace {

lab::Text Lines() {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += "line " + std::to_string(i * i % 97) + " of a text\n";
  return lab::DecodeText("lines", bytes);
}

lab::StudyOptions Small() {
  lab::StudyOptions options = lab::BudgetOptions("quick");
  options.encoders = {"gru", "lstm", "convolution"};
  options.layers = 1, options.heads = 2, options.width = 16, options.context = 8, options.batch = 2;
  options.validation = 400, options.test = 400, options.seconds = 1;
  options.rates = {1e-3, 1e-2};
  return options;
}

// A study of 64 steps, and a record of it with trainings twice as long.
struct Studied {
  lab::StudyOptions options = Small();
  lab::Subject subject = lab::SubjectOf(Lines(), options);
  const lab::StudyTask& task = *subject.tasks.front();
  Record record = BeginRecord("lines", task, options, 2, std::vector<double>(task.models.size(), 1.0 / 64));

  Studied() {
    for (const RecordedModel& model : record.models)
      std::ranges::copy(RecordModel(task, model, record, 4), std::back_inserter(record.runs));
  }
};

const Studied& Study() {
  // Threads that wait for each other spin while other tests compute.
  at::set_num_threads(1);
  static const Studied study;
  return study;
}

std::string Held(const lab::Contest& contest, double seconds) {
  lab::ContestOptions held;
  held.seconds = seconds, held.rates = Study().options.rates;
  held.step_seconds.assign(contest.models.size(), 1.0 / 64);
  return lab::ToJson(lab::Hold("replay", contest, held, nullptr)).dump();
}

TEST(StudyReplayTest, WithoutADrawItIsTheStudyThatRan) {
  const RecordedContest replayed(Study().record, std::nullopt);
  for (const double seconds : {0.5, 1.0, 2.0}) EXPECT_EQ(Held(replayed, seconds), Held(Study().task, seconds)) << seconds;
}

TEST(StudyReplayTest, AFileHoldsTheRecordToFiveDigits) {
  const ScratchFolder folder;
  lab::WriteFile(folder.path() / "lines.jsonl", Text(Study().record));
  const Record read = ReadRecord(folder.path() / "lines.jsonl");
  EXPECT_EQ(Text(read), Text(Study().record));
  EXPECT_EQ(read.runs.size(), 3U * 2 * 4);
  EXPECT_EQ(read.simple_loss, Study().record.simple_loss);
}

TEST(StudyReplayTest, DrawsDependOnTheSeedAlone) {
  const RecordedContest first(Study().record, 1), again(Study().record, 1), other(Study().record, 2);
  EXPECT_EQ(Held(first, 1), Held(again, 1));
  EXPECT_NE(Held(first, 1), Held(other, 1));
}

TEST(StudyReplayTest, TheTruthIsTheMeanOfAllRuns) {
  const std::vector<double> truth = TruthOf(Study().record, 1), longer = TruthOf(Study().record, 2);
  ASSERT_EQ(truth.size(), 3U);
  for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_LT(longer[i], truth[i]) << i;
}

}  // namespace
}  // namespace heed::bench
