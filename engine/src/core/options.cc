// The options of a call against its shape and against each other.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/arrays.h"
#include "core/checked_integer.h"
#include "core/validation.h"

namespace heed::core {

void CheckDropout(const Dropout& dropout) {
  const double p = dropout.probability;
  if (!(p >= 0.0 && p < 1.0)) Refuse("dropout.probability", "expected a number in [0, 1), got " + std::to_string(p));
  if (dropout.batch_offset < 0) Refuse("dropout.batch_offset", "expected at least 0");
  const auto check_first = [](const char* name, int64_t first) {
    if (first < 0) Refuse(name, "expected at least 0, got " + std::to_string(first));
  };
  check_first("dropout.first_head", dropout.first_head);
  check_first("dropout.first_query", dropout.first_query);
  check_first("dropout.first_key", dropout.first_key);
  if (std::lround(p * 65536) > 65535) Refuse("dropout.probability", "expected at most 65535/65536, got " + std::to_string(p));
}

namespace {

// What position differences stay exact in.
constexpr int64_t kFarthest = int64_t{1} << 53;  // both as a whole and as a real number

template <class V>
void CheckPositionList(const char* name, const View<const V, 2>& list, int64_t batch, int64_t count) {
  if ((list.extent[0] != 1 && list.extent[0] != batch) || list.extent[1] != count)
    Refuse(name, "expected [1, N] or [B, N] with B = " + std::to_string(batch) + " and N = " + std::to_string(count) +
                     ", got " + ShapeText(list.extent));
  for (int64_t b = 0; b < list.extent[0]; ++b)
    for (int64_t t = 0; t < count; ++t)
      if (!(list(b, t) >= V{-kFarthest} && list(b, t) <= V{kFarthest}))
        Refuse(name, "expected finite numbers of at most 2^53, got " + std::to_string(list(b, t)));
}

// The tokens first .. first + count - 1 of one side.
void CheckPositionsFrom(const char* name, int64_t first, int64_t count) {
  if (first < -kFarthest || first > kFarthest || first + std::max<int64_t>(count, 1) - 1 > kFarthest)
    Refuse(name,
           "expected positions from -2^53 to 2^53, got " + std::to_string(count) + " from " + std::to_string(first) + " on");
}

void CheckPositions(const char* name, const Positions& positions, int64_t batch, int64_t count) {
  if (positions.listed() && positions.offset) Refuse(name, "give either an offset or a list, not both");
  if (const auto* whole = std::get_if<View<const int64_t, 2>>(&positions.list)) CheckPositionList(name, *whole, batch, count);
  if (const auto* real = std::get_if<View<const double, 2>>(&positions.list)) CheckPositionList(name, *real, batch, count);
  if (positions.offset) CheckPositionsFrom(name, *positions.offset, count);
}

void CheckOrder(const Attention& attention, const Shape& shape) {
  // Keys are ranked by 32 bits.
  if (attention.key_positions.listed() && shape.kv_len > std::numeric_limits<int32_t>::max())
    Refuse("key_positions", "expected a list of fewer than 2^31, got " + std::to_string(shape.kv_len));
  CheckPositions("query_positions", attention.query_positions, shape.batch, shape.q_len);
  CheckPositions("key_positions", attention.key_positions, shape.batch, shape.kv_len);
  if (attention.causal == Causal::kBottomRight && !attention.query_positions.present() && !attention.packed.present())
    CheckPositionsFrom("key_positions, for the queries that causal aligns with them",
                       attention.key_positions.offset.value_or(0) + shape.kv_len - shape.q_len, shape.q_len);
  if (attention.causal == Causal::kTopLeft && attention.query_positions.present())
    Refuse("causal",
           "kTopLeft fixes where the queries stand; with query_positions use kBottomRight (key position <= query position)");
  if (attention.window.left < -1 || attention.window.right < -1)
    Refuse("window", "expected bounds of at least 0, or -1 for none, got left " + std::to_string(attention.window.left) +
                         ", right " + std::to_string(attention.window.right));
  if (attention.packed.present() && attention.causal == Causal::kBottomRight && attention.key_positions.listed() &&
      !attention.query_positions.present())
    Refuse("query_positions", "packed sequences with listed key_positions need listed query_positions too");
  CheckLengths("prefix_lengths", attention.prefix_lengths, shape.batch, 1, shape.kv_len);
  if (!attention.prefix_lengths.present()) return;
  if (attention.window.left >= 0) Refuse("prefix_lengths", "cannot be combined with window.left, which hides the prefix");
  if (attention.query_positions.listed() || attention.key_positions.listed())
    Refuse("prefix_lengths", "cannot be combined with listed query_positions or key_positions");
}

constexpr int64_t kBatchIndices = int64_t{1} << 32;

void CheckCounters(const Dropout& dropout, const Shape& shape) {
  if (dropout.probability == 0) return;
  // The counter of the generator holds 32 bits of batch index, 16 of head and 40 each of query and key index.
  if (SaturatedSum(shape.batch, dropout.batch_offset) > kBatchIndices)
    Refuse("dropout.batch_offset", "expected batch indices below 2^32, got " + std::to_string(shape.batch) + " rows from " +
                                       std::to_string(dropout.batch_offset) + " on");
  if (SaturatedSum(shape.q_heads, dropout.first_head) > (int64_t{1} << 16)) Refuse("dropout", "more than 65536 heads");
  if (std::max(SaturatedSum(shape.q_len, dropout.first_query), SaturatedSum(shape.kv_len, dropout.first_key)) >
      (int64_t{1} << 40))
    Refuse("dropout", "sequence beyond 2^40");
}

}  // namespace

void CheckLengths(const char* name, const Lengths& lengths, int64_t batch, int64_t q_len, int64_t limit) {
  if (!lengths.present()) return;
  const auto& values = lengths.values;
  const bool per_query = values.extent[1] != 1 || q_len == 1;
  if (values.extent[0] != batch || (per_query && values.extent[1] != q_len))
    Refuse(name, "expected [B, 1] or [B, Nq] with B = " + std::to_string(batch) + " and Nq = " + std::to_string(q_len) +
                     ", got " + ShapeText(values.extent));
  for (int64_t b = 0; b < values.extent[0]; ++b)
    for (int64_t i = 0; i < values.extent[1]; ++i)
      if (values(b, i) < 0 || values(b, i) > limit)
        Refuse(name, "expected values in 0.." + std::to_string(limit) + ", got " + std::to_string(values(b, i)) +
                         " in batch row " + std::to_string(b));
}

int64_t CheckOffsets(const char* name, const View<const int64_t, 1>& offsets, int64_t& longest) {
  if (!offsets.present()) Refuse(name, "expected cumulative lengths [B + 1]; query_offsets and key_offsets go together");
  CheckPresent(name, offsets);  // read before all other options are checked
  if (offsets.extent[0] < 1) Refuse(name, "expected cumulative lengths [B + 1], got " + ShapeText(ExtentsOf(offsets).extent));
  if (offsets(0) != 0) Refuse(name, "expected to begin with 0, got " + std::to_string(offsets(0)));
  longest = 0;
  for (int64_t b = 0; b + 1 < offsets.extent[0]; ++b) {
    if (offsets(b + 1) < offsets(b))
      Refuse(name,
             "expected ascending numbers, got " + std::to_string(offsets(b + 1)) + " after " + std::to_string(offsets(b)));
    longest = std::max(longest, offsets(b + 1) - offsets(b));
  }
  return offsets(offsets.extent[0] - 1);
}

PackedSize CheckPacked(const Packed& packed) {
  PackedSize size;
  size.queries = CheckOffsets("packed.query_offsets", packed.query_offsets, size.longest_queries);
  size.keys = CheckOffsets("packed.key_offsets", packed.key_offsets, size.longest_keys);
  size.batch = packed.query_offsets.extent[0] - 1;
  if (packed.key_offsets.extent[0] - 1 != size.batch)
    Refuse("packed.key_offsets", "expected as many sequences as query_offsets has, " + std::to_string(size.batch) + ", got " +
                                     std::to_string(packed.key_offsets.extent[0] - 1));
  return size;
}

void CheckElementCounters(const Dropout& dropout, int64_t count) {
  CheckDropout(dropout);
  CheckCounters(dropout, {.batch = 1});
  // Eight neighbours share a counter of 40 bits.
  if (count > int64_t{1} << 43) Refuse("count", "expected at most 2^43, got " + std::to_string(count));
}

void CheckOptions(const Attention& attention, const Shape& shape) {
  if (attention.scale && !std::isfinite(*attention.scale)) Refuse("scale", "expected a finite number");
  if (attention.softcap && !(*attention.softcap > 0 && std::isfinite(*attention.softcap)))
    Refuse("softcap", "expected a finite number above 0, got " + std::to_string(*attention.softcap));
  CheckDropout(attention.dropout);
  CheckCounters(attention.dropout, shape);
  CheckLengths("query_lengths", attention.query_lengths, shape.batch, 1, shape.q_len);
  CheckLengths("key_lengths", attention.key_lengths, shape.batch, shape.q_len, shape.kv_len);
  CheckOrder(attention, shape);
  if (attention.mask.present()) CheckBroadcast("mask", attention.mask.values, shape);
}

}  // namespace heed::core

namespace heed {

Lengths Lengths::PerBatch(const int64_t* lengths, int64_t batch) {
  Lengths result;
  result.values = {lengths, {batch, 1}, {1, 1}};
  return result;
}

Lengths Lengths::PerQuery(const int64_t* lengths, int64_t batch, int64_t q_len) {
  Lengths result;
  result.values = {lengths, {batch, q_len}, {q_len, 1}};
  return result;
}

}  // namespace heed
