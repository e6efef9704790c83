// Selective copy.
#ifndef HEED_BOOK_TASKS_SUITE_SELECTIVE_COPY_H_
#define HEED_BOOK_TASKS_SUITE_SELECTIVE_COPY_H_

#include <algorithm>
#include <vector>

#include "book/tasks/task.h"

namespace heed::lab {

// Copy memory whose 4 symbols stand at random places among blanks (0), so that a fixed distance does not find them; at the last
// 4 steps, signs "go" (9), they are asked for in their order. Those steps are scored; chance is 1/8. Gu and Dao 2023, "Mamba",
// section 3.1, after Jing et al. 2019; theirs has 16 symbols.
class SelectiveCopyTask : public SequenceTask {
 public:
  static constexpr int64_t kLength = 4, kSymbols = 8, kGo = 9;

  SelectiveCopyTask()
      : SequenceTask({.id = "selective-copy",
                      .name = "Selective copy",
                      .definition =
                          "Four symbols stand at random places among blanks, and are asked for in their order at the last four "
                          "steps, whose accuracy is counted.",
                      .chance = 1.0 / kSymbols,
                      .solved = 0.95,
                      .symbols = kGo + 1,
                      .outputs = kSymbols,
                      .shortest = 2 * kLength}) {}

 protected:
  void Fill(TaskRow row, Random& random) const override {
    const int64_t answers = row.steps() - kLength;
    std::vector<int64_t> places = DrawDistinct(kLength, answers, random);
    std::sort(places.begin(), places.end());
    for (int64_t i = 0; i < kLength; ++i) {
      const int64_t symbol = static_cast<int64_t>(random.Below(kSymbols));
      row.token(places[i]) = 1 + symbol;
      row.token(answers + i) = kGo;
      row.ScoreClass(answers + i, symbol);
    }
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SUITE_SELECTIVE_COPY_H_
