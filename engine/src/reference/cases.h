// The one table of cases: what tests run, what `heed check` runs. A row is a shape, options and a memory layout.
#ifndef HEED_REFERENCE_CASES_H_
#define HEED_REFERENCE_CASES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "position/references.h"
#include "reference/dense.h"

namespace heed::reference {

// How an input lies in memory.
enum class Layout {
  kContiguous,   // [B, H, N, D]
  kHeadsInside,  // [B, N, H, D], as a projection leaves it
  kSpread,       // every second element of a row
  kBackwards,    // rows in descending order: negative strides
  kShared,       // keys and values of batch row 0 serve all rows: stride 0
  kRandom,       // dimensions in any order, with gaps, backwards or with stride 0; tables and dense arrays likewise
};

enum class LengthKind { kNone, kPerBatch, kPerQuery };

// How positions are given: not at all, or listed per token.
enum class PositionKind {
  kNone,
  kAscending,  // whole numbers with gaps and repeats, one list for all batch rows
  kShuffled,   // whole numbers out of order, a list for each batch row
  kReal,       // real numbers, ascending
  kJumping,    // whole numbers that stay, go on or jump, beyond those of the keys too, a list for each batch row
};

// SchemeCases: what each positional scheme has a case say of it.
struct Case : SchemeCases {
  std::string name;
  Shape shape;
  Causal causal = Causal::kNone;
  LengthKind key_lengths = LengthKind::kNone;
  bool query_lengths = false;
  int mask = kNoDense;
  std::optional<double> softcap;
  Window window;
  bool prefix = false, packed = false;
  PositionKind positions = PositionKind::kNone;
  double dropout = 0.0;
  EmptyRow empty_row = EmptyRow::kZero;
  Precision precision = Precision::kFloat32;
  std::optional<double> scale;
  std::optional<int64_t> query_offset, key_offset;
  Layout layout = Layout::kContiguous;
  bool statistics = true, weights = false;  // what is asked for besides output and lse
  bool lse_gradient = false;                // whether lse has a gradient of its own
  bool statistic_gradients = false;         // whether statistics have, where they are asked for
  bool correction = true;                   // whether gradients are given what rounding took from lse
  bool remainder = true;                    // of 16-bit outputs, whether gradients are given what rounding took
  bool spoiled = false;                     // whether NaN and infinity stand where no row looks, see reference/spoiled.h
};

// The fixed rows, those of schemes last: each option alone, boundary sizes, and the combinations that share code paths.
const std::vector<Case>& Cases();

}  // namespace heed::reference

#endif  // HEED_REFERENCE_CASES_H_
