// Associative recall with several queries.
#ifndef HEED_BOOK_TASKS_SUITE_RECALL_H_
#define HEED_BOOK_TASKS_SUITE_RECALL_H_

#include <algorithm>
#include <string>
#include <vector>

#include "book/tasks/task.h"

namespace heed::lab {

// Pairs of a key (1..4 pairs, all different) and a value (the 16 tokens behind the keys) stand end to end at the start; each
// key stands once more at a random later place among blanks (0), where its value is asked for. Those steps are scored; chance
// is 1/16. More pairs are more to hold: attention looks each of them up, a state of fixed size runs full. Arora et al. 2023,
// "Zoology", section 3.2 (MQAR); theirs draws from larger alphabets and repeats nearer places more often.
class RecallTask : public SequenceTask {
 public:
  static constexpr int64_t kFewest = 4, kValues = 16;

  explicit RecallTask(int64_t pairs)
      : SequenceTask({.id = pairs == kFewest ? "recall" : "recall-" + std::to_string(pairs),
                      .name = "Associative recall, " + std::to_string(pairs) + " pairs",
                      .definition = std::to_string(pairs) +
                                    " pairs of a key and a value come first; each key comes once more, among blanks, and its "
                                    "value is asked for there. The accuracy of those steps is counted.",
                      .chance = 1.0 / kValues,
                      .solved = 0.95,
                      .symbols = 1 + 4 * pairs + kValues,
                      .outputs = kValues,
                      .shortest = 3 * pairs}),
        pairs_(pairs) {}

  // Of keys; values are the tokens behind them.
  int64_t alphabet() const { return 4 * pairs_; }

 protected:
  void Fill(TaskRow row, Random& random) const override {
    const std::vector<int64_t> keys = DrawDistinct(pairs_, alphabet(), random);
    std::vector<int64_t> values(pairs_);
    for (int64_t i = 0; i < pairs_; ++i) {
      values[i] = static_cast<int64_t>(random.Below(kValues));
      row.token(2 * i) = 1 + keys[i];
      row.token(2 * i + 1) = 1 + alphabet() + values[i];
    }
    std::vector<int64_t> places = DrawDistinct(pairs_, row.steps() - 2 * pairs_, random);
    std::vector<int64_t> sorted = places;
    std::sort(sorted.begin(), sorted.end());
    for (const int64_t place : sorted) {
      const auto pair = std::find(places.begin(), places.end(), place) - places.begin();
      row.token(2 * pairs_ + place) = 1 + keys[pair];
      row.ScoreClass(2 * pairs_ + place, values[pair]);
    }
  }

 private:
  int64_t pairs_;
};

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SUITE_RECALL_H_
