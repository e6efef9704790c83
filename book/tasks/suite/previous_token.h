// The token some steps before.
#ifndef HEED_BOOK_TASKS_SUITE_PREVIOUS_TOKEN_H_
#define HEED_BOOK_TASKS_SUITE_PREVIOUS_TOKEN_H_

#include <string>

#include "book/tasks/task.h"

namespace heed::lab {

// Random symbols of 0..15; at step i the symbol of step i - distance is asked for. All steps that have one are scored; chance
// is 1/16. One layer of attention has to tell distances apart, and without causality left from right.
class PreviousTokenTask : public SequenceTask {
 public:
  static constexpr int64_t kAlphabet = 16;

  PreviousTokenTask(int64_t distance, bool causal)
      : SequenceTask({.id = (causal ? "previous-" : "previous-of-both-") + std::to_string(distance),
                      .name = "Previous token" + (distance == 1 ? std::string() : ", " + std::to_string(distance) + " back") +
                              (causal ? "" : ", seeing both sides"),
                      .definition = "Which symbol stood " +
                                    (distance == 1 ? std::string("one step") : std::to_string(distance) + " steps") +
                                    " before? Steps see " + (causal ? "those before them" : "both sides") +
                                    "; all that have an answer are counted.",
                      .chance = 1.0 / kAlphabet,
                      .solved = 0.95,
                      .symbols = kAlphabet,
                      .outputs = kAlphabet,
                      .causal = causal,
                      .layers = 1,
                      .shortest = distance + 1}),
        distance_(distance) {}

 protected:
  void Fill(TaskRow row, Random& random) const override {
    for (int64_t i = 0; i < row.steps(); ++i) row.token(i) = static_cast<int64_t>(random.Below(kAlphabet));
    for (int64_t i = distance_; i < row.steps(); ++i) row.ScoreClass(i, row.token(i - distance_));
  }

 private:
  int64_t distance_;
};

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SUITE_PREVIOUS_TOKEN_H_
