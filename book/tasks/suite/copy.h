// Copy memory.
#ifndef HEED_BOOK_TASKS_SUITE_COPY_H_
#define HEED_BOOK_TASKS_SUITE_COPY_H_

#include "book/tasks/task.h"

namespace heed::lab {

// 8 symbols of 1..8, blanks (0), then 8 times the sign "go" (9), at which the symbols are asked for in their order. Those 8
// steps are scored; chance is 1/8. Hochreiter and Schmidhuber 1997 by way of Arjovsky et al. 2016, "Unitary evolution recurrent
// neural networks", section 5.1; theirs has 10 symbols.
class CopyTask : public SequenceTask {
 public:
  static constexpr int64_t kLength = 8, kSymbols = 8, kGo = 9;

  CopyTask()
      : SequenceTask(
            {.id = "copy",
             .name = "Copy memory",
             .definition =
                 "Eight symbols stand at the start, blanks follow, and the symbols are asked for in their order at the "
                 "last eight steps, whose accuracy is counted.",
             .chance = 1.0 / kSymbols,
             .solved = 0.95,
             .symbols = kGo + 1,
             .outputs = kSymbols,
             .shortest = 2 * kLength}) {}

 protected:
  void Fill(TaskRow row, Random& random) const override {
    const int64_t answers = row.steps() - kLength;
    for (int64_t i = 0; i < kLength; ++i) {
      const int64_t symbol = static_cast<int64_t>(random.Below(kSymbols));
      row.token(i) = 1 + symbol;
      row.token(answers + i) = kGo;
      row.ScoreClass(answers + i, symbol);
    }
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SUITE_COPY_H_
