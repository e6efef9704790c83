// The options of a call apart from positional schemes.
#ifndef HEED_CALL_OPTIONS_H_
#define HEED_CALL_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <variant>

#include "heed/view.h"

namespace heed {

// Causality: a query at position p attends to keys at positions up to p.
enum class Causal {
  kNone,
  kBottomRight,  // query i stands at i + Nk - Nq: the last query sees every key
  kTopLeft,      // query i stands at i: the first query sees only the first key
};

// The result of a query without any key. A query beyond its query length always returns zeros.
enum class EmptyRow {
  kZero,     // output 0, lse -inf, no gradient
  kUniform,  // the mean of all Nk values, as d2l 1.0.3 computes it; lse log(Nk); gradient to the values only
};

// Valid lengths, absent, one per batch row [B], or one per query [B, Nq]: key j counts if j < length. Calls refuse values
// outside 0..Nk, or 0..Nq for queries. A null pointer: absent. A call reads the numbers and keeps no reference.
struct Lengths {
  View<const int64_t, 2> values;  // [B, 1] or [B, Nq]

  Lengths() = default;
  static Lengths PerBatch(const int64_t* lengths, int64_t batch);                 // [B], contiguous
  static Lengths PerQuery(const int64_t* lengths, int64_t batch, int64_t q_len);  // [B, Nq], contiguous
  bool present() const { return values.present(); }
};

// Positions of the queries or the keys: token t at offset + t, or listed, [1, N] or [B, N], finite whole or real numbers
// (timestamps) in any order, repeated or not. Absent: keys at 0..Nk-1, queries as `causal` aligns them (0..Nq-1 without
// causality). Positions lie within -2^53..2^53. A call reads lists and keeps no reference.
struct Positions {
  std::optional<int64_t> offset;
  std::variant<std::monostate, View<const int64_t, 2>, View<const double, 2>> list;

  bool listed() const { return list.index() != 0; }
  bool present() const { return offset.has_value() || listed(); }
};

// A query at position p attends to keys at p - left .. p + right only; -1: no bound on that side.
struct Window {
  int64_t left = -1, right = -1;
  bool present() const { return left >= 0 || right >= 0; }
};

// Sequences of different lengths end to end: sequence b holds queries query_offsets[b] .. query_offsets[b+1] - 1 and keys
// likewise. Arrays are then [1, H, T, D] with T tokens in all. B is the number of sequences: options per batch row ([B], or
// [B, N] up to the longest sequence) are per sequence, and positions begin anew in each.
struct Packed {
  View<const int64_t, 1> query_offsets, key_offsets;  // [B + 1], from 0, ascending
  bool present() const { return query_offsets.present() || key_offsets.present(); }
};

// True where a query may attend to a key; an array in the caller's memory. Extents are those of [B, Hq, Nq, Nk] or 1.
struct Mask {
  View<const bool, 4> values;
  bool present() const { return values.present(); }
};

// Drops attention weights after the softmax with `probability`, rounded to 1/65536, and divides the kept ones by the rounded
// probability of keeping. Philox4x32-10 (Salmon et al. 2011) decides from (seed, batch index, query head, query index, key
// index) alone, so a call stores nothing.
struct Dropout {
  double probability = 0.0;  // 0 .. 65535/65536
  uint64_t seed = 0;
  int64_t batch_offset = 0;  // batch index of row 0, to compute some rows of a batch alone
  // Indices of the first head, query and key, to compute some heads, queries or keys of a larger call alone.
  int64_t first_head = 0, first_query = 0, first_key = 0;
};

// Precision of products with weights and with gradients of scores in BFloat16 calls. It has no effect on other types.
enum class Precision {
  kFloat32,  // keeps weights in float and rounds every result once
  kFused,    // rounds weights and gradients of scores to BFloat16 before products, as flash attention does
};

}  // namespace heed

#endif  // HEED_CALL_OPTIONS_H_
