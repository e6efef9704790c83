// The options of a call that are not those of a positional scheme.
#ifndef HEED_CALL_OPTIONS_H_
#define HEED_CALL_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <variant>

#include "heed/view.h"

namespace heed {

// Which keys a query may look at by order. A query at position p looks at keys whose position is at most p.
enum class Causal {
  kNone,
  kBottomRight,  // query i stands at i + Nk - Nq: the last query sees every key
  kTopLeft,      // query i stands at i: the first query sees only the first key
};

// What a query without any key to look at returns. A query beyond its query length always returns zeros.
enum class EmptyRow {
  kZero,     // output 0, lse -inf, no gradient
  kUniform,  // the mean of all Nk values, as d2l 1.0.3 computes it; lse log(Nk); gradient to the values only
};

// Valid lengths: a key j counts if j < length. Absent, one per batch row [B], or one per query [B, Nq]. Values outside
// 0..N are refused. The numbers are read, not kept.
struct Lengths {
  View<const int64_t, 2> values;  // [B, 1] or [B, Nq]

  Lengths() = default;
  static Lengths PerBatch(const int64_t* lengths, int64_t batch);                 // [B], contiguous
  static Lengths PerQuery(const int64_t* lengths, int64_t batch, int64_t q_len);  // [B, Nq], contiguous
  bool present() const { return values.present(); }
};

// Where the tokens of one side stand. Either token t at offset + t, or as listed: [1, N] or [B, N], whole numbers or real
// ones (timestamps), in any order, repeated or not, finite. Absent: keys at 0..Nk-1, queries as `causal` aligns them (0..Nq-1
// without causality). No position may lie beyond 2^53 on either side of 0. Lists are read during the call, not kept.
struct Positions {
  std::optional<int64_t> offset;
  std::variant<std::monostate, View<const int64_t, 2>, View<const double, 2>> list;

  bool listed() const { return list.index() != 0; }
  bool present() const { return offset.has_value() || listed(); }
};

// A query at position p looks at keys in p - left .. p + right only; -1: no bound on that side, nor is one that reaches beyond
// all keys.
struct Window {
  int64_t left = -1, right = -1;
  bool present() const { return left >= 0 || right >= 0; }
};

// Sequences of different lengths end to end: sequence b holds queries query_offsets[b] .. query_offsets[b+1] - 1 and keys
// likewise. Arrays are then [1, H, T, D] with T tokens in all; B stands for the number of sequences, everything given per
// batch row ([B], [B, N] up to the longest sequence) is given per sequence, and positions begin anew in each.
struct Packed {
  View<const int64_t, 1> query_offsets, key_offsets;  // [B + 1], from 0, ascending
  bool present() const { return query_offsets.present() || key_offsets.present(); }
};

// True where a query may look at a key; a dense array in the caller's memory. Extents are those of [B, Hq, Nq, Nk] or 1.
struct Mask {
  View<const bool, 4> values;
  bool present() const { return values.present(); }
};

// Drops attention weights after the softmax with `probability`, resolved to 1/65536, and scales the kept ones by the
// inverse of the probability realised. The decision for a weight is a function of (seed, batch index,
// query head, query index, key index) alone: Philox4x32-10, Salmon et al. 2011. Nothing is stored.
struct Dropout {
  double probability = 0.0;  // 0 .. 65535/65536
  uint64_t seed = 0;
  int64_t batch_offset = 0;  // batch index of row 0; lets one row of a batch be recomputed alone
  // The index of the first of each: lets some heads, queries or keys of a larger call be computed alone.
  int64_t first_head = 0, first_query = 0, first_key = 0;
};

// How exact the products with weights, or with gradients of scores, of BFloat16 calls are. Other types know no difference.
enum class Precision {
  kFloat32,  // weights are kept in float, and every result is rounded once
  kFused,    // weights and gradients of scores are rounded to BFloat16 before they are multiplied, as flash attention does
};

}  // namespace heed

#endif  // HEED_CALL_OPTIONS_H_
