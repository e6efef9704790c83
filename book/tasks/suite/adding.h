// The adding problem.
#ifndef HEED_BOOK_TASKS_SUITE_ADDING_H_
#define HEED_BOOK_TASKS_SUITE_ADDING_H_

#include "book/tasks/task.h"

namespace heed::lab {

// n steps of (value, mark): values uniform in [0, 1), two steps marked 1, one in each half, all others 0. The answer at the
// last step, the only one that is scored, is the sum of the two marked values. What looks at nothing does best with 1, and then
// has the variance of a sum of two uniform numbers, 1/6. Hochreiter and Schmidhuber 1997, "Long short-term memory",
// section 5.4.
class AddingTask : public SequenceTask {
 public:
  AddingTask()
      : SequenceTask({.id = "adding",
                      .name = "Adding problem",
                      .definition =
                          "Two of the numbers are marked, one in each half of the sequence; their sum is asked for at the last "
                          "step. Always answering 1 has an error of 1/6.",
                      .chance = 1.0 / 6,
                      .solved = 0.01,
                      .features = 2,
                      .shortest = 2}) {}

 protected:
  void Fill(TaskRow row, Random& random) const override {
    const int64_t n = row.steps(), half = n / 2;
    for (int64_t i = 0; i < n; ++i) row.number(i, 0) = static_cast<float>(random.Uniform());
    const int64_t first = static_cast<int64_t>(random.Below(half)),
                  second = half + static_cast<int64_t>(random.Below(n - half));
    row.number(first, 1) = row.number(second, 1) = 1;
    row.ScoreNumber(n - 1, static_cast<double>(row.number(first, 0)) + static_cast<double>(row.number(second, 0)));
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SUITE_ADDING_H_
