// One call of attention as `heed bench` times it, and the line of text that names it.
#ifndef HEED_BENCH_SUITES_CALL_CASE_H_
#define HEED_BENCH_SUITES_CALL_CASE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heed/attention.h"

namespace heed::lab {

enum class BenchPass { kForward, kForwardBackward, kTrainingStep };

enum class BenchType { kFloat, kBFloat16, kHalf, kDouble };

// In the order of BenchType: "float32", "bfloat16", "float16", "float64".
const std::vector<std::string>& TypeNames();
int ElementBytes(BenchType type);

struct CallCase {
  enum class Bias {
    kNone,
    kConstant,           // [1, Hq, Nq, Nk] of the call's type
    kTrainable,          // the same with a gradient
    kTrainableRelative,  // [Hq, 2 max(Nq, Nk) - 1], a value for every offset, with a gradient
  };

  Shape shape{1, 1, 1, 1, 1, 64, 64};
  BenchType type = BenchType::kFloat;
  Causal causal = Causal::kNone;
  Window window;
  bool key_lengths = false;    // of row b: from Nk / 8 for the first to Nk for the last, evenly
  bool query_lengths = false;  // likewise from Nq / 8 to Nq
  bool mask = false;           // [B, 1, Nq, Nk], a quarter of the pairs hidden at random
  Bias bias = Bias::kNone;
  double dropout = 0;
  int threads = 1;
  BenchPass pass = BenchPass::kForwardBackward;  // or kForward

  // Where query i stands among the keys.
  int64_t PositionOf(int64_t query) const {
    return causal == Causal::kBottomRight ? query + shape.kv_len - shape.q_len : query;
  }
  // Whether reading keys and values takes longer than computing with them: few queries of full rows, forward.
  bool BoundByReading() const;
};

// "B2 H8:2 n1:4096 d64", "d64:32" where values are of another width than keys.
std::string ShapeText(const Shape& shape);
// What is not shape, type, threads and pass: "causal window=128 dropout=0.1"; empty for none.
std::string OptionText(const CallCase& c);
// All of it: "B2 H8:2 n1:4096 d64 bfloat16 causal window=128 dropout=0.1 threads=1 pass=both". ParseCase reads it back.
std::string TextOf(const CallCase& c);

// Words between spaces: the four of the shape, in this order, then others in any order, each at most once. What is left out is
// as in CallCase. Throws InvalidArgument that names the word and what was expected, begun by `name`.
CallCase ParseCase(const std::string& text, const std::string& name);
// A line a word, for --help.
std::string CaseGrammar();

// Of row b where lengths go from total / 8 to total evenly.
int64_t LengthOf(int64_t total, int64_t batch, int64_t b);
// How many batch rows may see other keys than the others: all or, where no lengths tell them apart, one.
int64_t DifferentRows(const CallCase& c);
// The keys from first to last, end left out, that a query of batch row b sees by order, window and lengths; {0, 0} for none.
// Dense masks are not looked at.
std::pair<int64_t, int64_t> KeysOf(const CallCase& c, int64_t b, int64_t query);
// Pairs of all batch rows and one head, dense masks not looked at.
int64_t PairsOf(const CallCase& c);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_CALL_CASE_H_
