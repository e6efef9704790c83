// Associative recall with several queries.
#ifndef HEED_BOOK_TASKS_SUITE_RECALL_H_
#define HEED_BOOK_TASKS_SUITE_RECALL_H_

#include <algorithm>
#include <vector>

#include "book/tasks/task.h"

namespace heed::lab {

// 4 pairs of a key (1..16, all different) and a value (17..32) stand end to end at the start; each key stands once more at a
// random later place among blanks (0), where its value is asked for. Those 4 steps are scored; chance is 1/16. Arora et al.
// 2023, "Zoology", section 3.2 (MQAR); theirs draws from larger alphabets and repeats nearer places more often.
class RecallTask : public SequenceTask {
 public:
  static constexpr int64_t kPairs = 4, kAlphabet = 16;

  RecallTask()
      : SequenceTask(
            {.id = "recall",
             .name = "Associative recall",
             .definition =
                 "Four pairs of a key and a value come first; each key comes once more, among blanks, and its value is "
                 "asked for there. The accuracy of those four steps is counted.",
             .chance = 1.0 / kAlphabet,
             .solved = 0.95,
             .symbols = 2 * kAlphabet + 1,
             .outputs = kAlphabet,
             .shortest = 3 * kPairs}) {}

 protected:
  void Fill(TaskRow row, Random& random) const override {
    const std::vector<int64_t> keys = DrawDistinct(kPairs, kAlphabet, random);
    std::vector<int64_t> values(kPairs);
    for (int64_t i = 0; i < kPairs; ++i) {
      values[i] = static_cast<int64_t>(random.Below(kAlphabet));
      row.token(2 * i) = 1 + keys[i];
      row.token(2 * i + 1) = 1 + kAlphabet + values[i];
    }
    std::vector<int64_t> places = DrawDistinct(kPairs, row.steps() - 2 * kPairs, random);
    std::vector<int64_t> sorted = places;
    std::sort(sorted.begin(), sorted.end());
    for (const int64_t place : sorted) {
      const auto pair = std::find(places.begin(), places.end(), place) - places.begin();
      row.token(2 * kPairs + place) = 1 + keys[pair];
      row.ScoreClass(2 * kPairs + place, values[pair]);
    }
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_SUITE_RECALL_H_
