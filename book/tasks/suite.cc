#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "book/tasks/task.h"

namespace heed::lab {
namespace {

// `count` of 0..bound-1 without repetition, in random order.
std::vector<int64_t> DrawDistinct(int64_t count, int64_t bound, Random& random) {
  std::vector<int64_t> all(bound);
  std::iota(all.begin(), all.end(), 0);
  for (int64_t i = 0; i < count; ++i) {  // the first steps of a Fisher-Yates shuffle
    std::swap(all[i], all[i + static_cast<int64_t>(random.Below(bound - i))]);
  }
  all.resize(count);
  return all;
}

constexpr int64_t kAlphabet = 16;  // of tasks whose steps are random symbols

void FillRandomly(TaskRow& row, Random& random) {
  for (int64_t i = 0; i < row.steps(); ++i) row.token(i) = static_cast<int64_t>(random.Below(kAlphabet));
}

// n steps of (value, mark): values uniform in [0, 1), two steps marked 1, one in each half, all others 0. The answer at the
// last step, the only one that is scored, is the sum of the two marked values. What looks at nothing does best with 1, and then
// has the variance of a sum of two uniform numbers, 1/6. Hochreiter and Schmidhuber 1997, "Long short-term memory",
// section 5.4.
SequenceTask Adding() {
  return {{.id = "adding",
           .name = "Adding problem",
           .definition = "Two of the numbers are marked, one in each half of the sequence; their sum is asked for at the last "
                         "step. Always answering 1 has an error of 1/6.",
           .chance = 1.0 / 6,
           .solved = 0.01,
           .features = 2,
           .shortest = 2},
          [](TaskRow& row, Random& random) {
            const int64_t n = row.steps(), half = n / 2;
            for (int64_t i = 0; i < n; ++i) row.number(i, 0) = static_cast<float>(random.Uniform());
            const int64_t first = static_cast<int64_t>(random.Below(half)),
                          second = half + static_cast<int64_t>(random.Below(n - half));
            row.number(first, 1) = row.number(second, 1) = 1;
            row.ScoreNumber(n - 1, static_cast<double>(row.number(first, 0)) + static_cast<double>(row.number(second, 0)));
          }};
}

constexpr int64_t kCopied = 8, kGo = 9;  // symbols of both copies, 1 .. 8, and the sign at which they are asked for

// Asks for the symbols that stand at these places, ascending, at the last steps.
void FillCopy(const std::vector<int64_t>& places, TaskRow& row, Random& random) {
  for (int64_t i = 0; i < std::ssize(places); ++i) {
    const int64_t symbol = static_cast<int64_t>(random.Below(kCopied)), answer = row.steps() - std::ssize(places) + i;
    row.token(places[i]) = 1 + symbol;
    row.token(answer) = kGo;
    row.ScoreClass(answer, symbol);
  }
}

// 8 symbols of 1..8, blanks (0), then 8 times the sign "go" (9), at which the symbols are asked for in their order. Those 8
// steps are scored; chance is 1/8. Hochreiter and Schmidhuber 1997 by way of Arjovsky et al. 2016, "Unitary evolution recurrent
// neural networks", section 5.1; theirs has 10 symbols.
SequenceTask Copy() {
  return {{.id = "copy",
           .name = "Copy memory",
           .definition = "Eight symbols stand at the start, blanks follow, and the symbols are asked for in their order at the "
                         "last eight steps, whose accuracy is counted.",
           .symbols = kGo + 1,
           .outputs = kCopied,
           .shortest = 16},
          [](TaskRow& row, Random& random) {
            FillCopy({0, 1, 2, 3, 4, 5, 6, 7}, row, random);
          }};
}

// Copy memory whose 4 symbols stand at random places among blanks (0), so that a fixed distance does not find them; at the last
// 4 steps, signs "go" (9), they are asked for in their order. Those steps are scored; chance is 1/8. Gu and Dao 2023, "Mamba",
// section 3.1, after Jing et al. 2019; theirs has 16 symbols.
SequenceTask SelectiveCopy() {
  constexpr int64_t kLength = 4;
  return {{.id = "selective-copy",
           .name = "Selective copy",
           .definition = "Four symbols stand at random places among blanks, and are asked for in their order at the last four "
                         "steps, whose accuracy is counted.",
           .symbols = kGo + 1,
           .outputs = kCopied,
           .shortest = 2 * kLength},
          [](TaskRow& row, Random& random) {
            std::vector<int64_t> places = DrawDistinct(kLength, row.steps() - kLength, random);
            std::ranges::sort(places);
            FillCopy(places, row, random);
          }};
}

// Pairs of a key (1..4 pairs, all different) and a value (the 16 tokens behind the keys) stand end to end at the start; each
// key stands once more at a random later place among blanks (0), where its value is asked for. Those steps are scored; chance
// is 1/16. More pairs are more to hold: attention looks each of them up, a state of fixed size runs full. Arora et al. 2023,
// "Zoology", section 3.2 (MQAR); theirs draws from larger alphabets and repeats nearer places more often.
SequenceTask Recall(int64_t pairs, const std::string& id) {
  const int64_t alphabet = 4 * pairs;  // of keys; values are the tokens behind them
  return {{.id = id,
           .name = "Associative recall, " + std::to_string(pairs) + " pairs",
           .definition = std::to_string(pairs) +
                         " pairs of a key and a value come first; each key comes once more, among blanks, and its value is "
                         "asked for there. The accuracy of those steps is counted.",
           .symbols = 1 + alphabet + kAlphabet,
           .outputs = kAlphabet,
           .shortest = 3 * pairs},
          [pairs, alphabet](TaskRow& row, Random& random) {
            const std::vector<int64_t> keys = DrawDistinct(pairs, alphabet, random);
            std::vector<int64_t> values(pairs);
            for (int64_t i = 0; i < pairs; ++i) {
              values[i] = static_cast<int64_t>(random.Below(kAlphabet));
              row.token(2 * i) = 1 + keys[i];
              row.token(2 * i + 1) = 1 + alphabet + values[i];
            }
            const std::vector<int64_t> places = DrawDistinct(pairs, row.steps() - 2 * pairs, random);
            std::vector<int64_t> sorted = places;
            std::ranges::sort(sorted);
            for (const int64_t place : sorted) {
              const auto pair = std::ranges::find(places, place) - places.begin();
              row.token(2 * pairs + place) = 1 + keys[pair];
              row.ScoreClass(2 * pairs + place, values[pair]);
            }
          }};
}

// Random bits; at every step the parity of the bits so far is asked for, and all steps are scored. Chance is 1/2. One bit of
// state suffices, whatever the length, but no step may be missed: what cannot go on from its own last answer has to count all
// bits anew. Hahn 2020, "Theoretical limitations of self-attention in neural sequence models", section 1.
SequenceTask Parity() {
  return {{.id = "parity",
           .name = "Parity",
           .definition = "At every step, is the number of ones so far odd? The accuracy of all steps is counted.",
           .symbols = 2,
           .outputs = 2},
          [](TaskRow& row, Random& random) {
            int64_t parity = 0;
            for (int64_t i = 0; i < row.steps(); ++i) {
              row.token(i) = static_cast<int64_t>(random.Below(2));
              parity ^= row.token(i);
              row.ScoreClass(i, parity);
            }
          }};
}

// n random symbols of 0..15, read from both sides by an encoder; a decoder writes them from the last to the first. All steps
// are scored, each after what the model itself wrote before it; chance is 1/16.
SequenceTask Reversal() {
  return {{.id = "reversal",
           .name = "Reversal",
           .definition = "An encoder reads random symbols, and a Transformer decoder writes them in reverse order, one after "
                         "the other, after what it wrote itself. The accuracy of all its steps is counted.",
           .symbols = kAlphabet,
           .outputs = kAlphabet,
           .causal = false,
           .translates = true,
           .layers = 1},
          [](TaskRow& row, Random& random) {
            FillRandomly(row, random);
            for (int64_t i = 0; i < row.steps(); ++i) row.ScoreClass(i, row.token(row.steps() - 1 - i));
          }};
}

// Random symbols of 0..15; at step i the symbol of step i - distance is asked for. All steps that have one are scored; chance
// is 1/16. One layer of attention has to tell distances apart, and without causality left from right.
SequenceTask PreviousToken(int64_t distance, bool causal) {
  const std::string number = std::to_string(distance);
  return {{.id = (causal ? "previous-" : "previous-of-both-") + number,
           .name = "Previous token" + (distance == 1 ? std::string() : ", " + number + " back") +
                   (causal ? "" : ", seeing both sides"),
           .definition = "Which symbol stood " + (distance == 1 ? std::string("one step") : number + " steps") +
                         " before? Steps see " + (causal ? "those before them" : "both sides") +
                         "; all that have an answer are counted.",
           .symbols = kAlphabet,
           .outputs = kAlphabet,
           .causal = causal,
           .layers = 1,
           .shortest = distance + 1},
          [distance](TaskRow& row, Random& random) {
            FillRandomly(row, random);
            for (int64_t i = distance; i < row.steps(); ++i) row.ScoreClass(i, row.token(i - distance));
          }};
}

// Random symbols of 0..15; at every step after the first, the first one is asked for. Those steps are scored; chance is 1/16. A
// scheme that knows distances alone can read "first" only as "farthest".
SequenceTask FirstToken() {
  return {{.id = "first",
           .name = "First token",
           .definition = "Which symbol stood at the very start? All later steps are counted.",
           .symbols = kAlphabet,
           .outputs = kAlphabet,
           .layers = 1,
           .shortest = 2},
          [](TaskRow& row, Random& random) {
            FillRandomly(row, random);
            for (int64_t i = 1; i < row.steps(); ++i) row.ScoreClass(i, row.token(0));
          }};
}

}  // namespace

const std::vector<SequenceTask>& AllTasks() {
  static const std::vector<SequenceTask> all = {Adding(),
                                                Copy(),
                                                SelectiveCopy(),
                                                Recall(4, "recall"),
                                                Recall(8, "recall-8"),
                                                Recall(16, "recall-16"),
                                                Parity(),
                                                Reversal(),
                                                PreviousToken(1, /*causal=*/true),
                                                PreviousToken(3, /*causal=*/true),
                                                PreviousToken(1, /*causal=*/false),
                                                FirstToken()};
  return all;
}

}  // namespace heed::lab
