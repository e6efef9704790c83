// Parity.
#ifndef HEED_BOOK_TASKS_SUITE_PARITY_H_
#define HEED_BOOK_TASKS_SUITE_PARITY_H_

#include "book/tasks/task.h"

namespace heed::lab {

// Random bits; at every step the parity of the bits so far is asked for, and all steps are scored. Chance is 1/2. One bit of
// state suffices, whatever the length, but no step may be missed: what cannot go on from its own last answer has to count all
// bits anew. Hahn 2020, "Theoretical limitations of self-attention in neural sequence models", section 1.
class ParityTask : public SequenceTask {
 public:
  ParityTask()
      : SequenceTask({.id = "parity",
                      .name = "Parity",
                      .definition = "At every step, is the number of ones so far odd? The accuracy of all steps is counted.",
                      .chance = 0.5,
                      .solved = 0.95,
                      .symbols = 2,
                      .outputs = 2}) {}

 protected:
  void Fill(TaskRow row, Random& random) const override {
    int64_t parity = 0;
    for (int64_t i = 0; i < row.steps(); ++i) {
      row.token(i) = static_cast<int64_t>(random.Below(2));
      parity ^= row.token(i);
      row.ScoreClass(i, parity);
    }
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SUITE_PARITY_H_
