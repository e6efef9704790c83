// The first token of all.
#ifndef HEED_BOOK_TASKS_SUITE_FIRST_TOKEN_H_
#define HEED_BOOK_TASKS_SUITE_FIRST_TOKEN_H_

#include "book/tasks/task.h"

namespace heed::lab {

// Random symbols of 0..15; at every step after the first, the first one is asked for. Those steps are scored; chance is 1/16. A
// scheme that knows distances alone can read "first" only as "farthest".
class FirstTokenTask : public SequenceTask {
 public:
  static constexpr int64_t kAlphabet = 16;

  FirstTokenTask()
      : SequenceTask({.id = "first",
                      .name = "First token",
                      .definition = "Which symbol stood at the very start? All later steps are counted.",
                      .chance = 1.0 / kAlphabet,
                      .solved = 0.95,
                      .symbols = kAlphabet,
                      .outputs = kAlphabet,
                      .layers = 1,
                      .shortest = 2}) {}

 protected:
  void Fill(TaskRow row, Random& random) const override {
    for (int64_t i = 0; i < row.steps(); ++i) row.token(i) = static_cast<int64_t>(random.Below(kAlphabet));
    for (int64_t i = 1; i < row.steps(); ++i) row.ScoreClass(i, row.token(0));
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SUITE_FIRST_TOKEN_H_
