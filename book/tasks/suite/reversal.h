// Reversing a string.
#ifndef HEED_BOOK_TASKS_SUITE_REVERSAL_H_
#define HEED_BOOK_TASKS_SUITE_REVERSAL_H_

#include "book/tasks/task.h"

namespace heed::lab {

// n random symbols of 0..15, read from both sides by an encoder; a decoder writes them from the last to the first. All steps
// are scored, each after what the model itself wrote before it; chance is 1/16.
class ReversalTask : public SequenceTask {
 public:
  static constexpr int64_t kAlphabet = 16;

  ReversalTask()
      : SequenceTask(
            {.id = "reversal",
             .name = "Reversal",
             .definition =
                 "An encoder reads random symbols, and a Transformer decoder writes them in reverse order, one after the "
                 "other, after what it wrote itself. The accuracy of all its steps is counted.",
             .chance = 1.0 / kAlphabet,
             .solved = 0.95,
             .symbols = kAlphabet,
             .outputs = kAlphabet,
             .causal = false,
             .translates = true,
             .layers = 1}) {}

 protected:
  void Fill(TaskRow row, Random& random) const override {
    const int64_t n = row.steps();
    for (int64_t i = 0; i < n; ++i) row.token(i) = static_cast<int64_t>(random.Below(kAlphabet));
    for (int64_t i = 0; i < n; ++i) row.ScoreClass(i, row.token(n - 1 - i));
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SUITE_REVERSAL_H_
