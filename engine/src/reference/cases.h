// The one table of cases: what tests run, what `heed check` runs. A row is a shape, options and a memory layout.
#ifndef HEED_REFERENCE_CASES_H_
#define HEED_REFERENCE_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "heed/attention.h"

namespace heed::reference {

// How an input lies in memory.
enum class Layout {
  kContiguous,   // [B, H, N, D]
  kHeadsInside,  // [B, N, H, D], as a projection leaves it
  kSpread,       // every second element of a row
  kBackwards,    // rows in descending order: negative strides
  kShared,       // keys and values of batch row 0 serve all rows: stride 0
};

enum class LengthKind { kNone, kPerBatch, kPerQuery };

struct Case {
  std::string name;
  Shape shape;
  Causal causal = Causal::kNone;
  LengthKind key_lengths = LengthKind::kNone;
  bool query_lengths = false;
  int64_t max_distance = -1;  // of a relative bias; -1: none
  double dropout = 0.0;
  EmptyRow empty_row = EmptyRow::kZero;
  std::optional<double> scale;
  std::optional<int64_t> query_offset, key_offset;
  Layout layout = Layout::kContiguous;
};

// The fixed rows: each option alone, boundary sizes, and the combinations that share code paths.
const std::vector<Case>& Cases();

// A random row: sizes 0, 1, odd, around tile edges; options in any combination.
Case RandomCase(uint64_t seed);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_CASES_H_
