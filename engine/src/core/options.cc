// The options of a call against its shape and against each other.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/arrays.h"
#include "core/checked_integer.h"
#include "core/option_arrays.h"
#include "core/validation.h"

namespace heed::core {

void CheckDropout(const Dropout& dropout) {
  const double p = dropout.probability;
  if (!(p >= 0.0 && p < 1.0)) Refuse("dropout.probability", "expected a number in [0, 1), got " + std::to_string(p));
  if (dropout.batch_offset < 0) Refuse("dropout.batch_offset", "expected at least 0");
  if (std::lround(p * 65536) > 65535) Refuse("dropout.probability", "expected at most 65535/65536, got " + std::to_string(p));
}

namespace {

// What position differences stay exact in.
constexpr int64_t kFarthest = int64_t{1} << 53;  // both as a whole and as a real number

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

void CheckWholePositions(const char* scheme, const char* name, const Positions& positions) {
  const auto* list = std::get_if<View<const double, 2>>(&positions.list);
  if (!list) return;
  for (int64_t b = 0; b < list->extent[0]; ++b)
    for (int64_t t = 0; t < list->extent[1]; ++t)
      if ((*list)(b, t) != std::floor((*list)(b, t)))
        Refuse(name, std::string(scheme) + " is a table by whole offsets, but position " + std::to_string(t) + " is " +
                         std::to_string((*list)(b, t)));
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

// Tables are indexed by 32 bits where they are read as vectors.
constexpr int64_t kMostTableRows = int64_t{1} << 30;

void CheckTableRows(const char* name, int64_t rows) {
  if (rows > kMostTableRows) Refuse(name, "expected at most 2^30 offsets, got " + std::to_string(rows));
}

template <int Rank, class Check>
void VisitTable(const Table<Rank>& table, const Check& check) {
  std::visit([&](const auto& view) { check(ExtentsOf(view).extent); }, table);
}

// Extents of a dense array: those of the pairs, or 1.
template <class Array>
void CheckBroadcast(const char* name, const Array& array, const Shape& shape) {
  const std::array<int64_t, 4> full{shape.batch, shape.q_heads, shape.q_len, shape.kv_len};
  const auto& extent = array.extent;
  for (std::size_t r = 0; r < 4; ++r)
    if (extent[r] != full[r] && extent[r] != 1)
      Refuse(name, "expected extents of [B, Hq, Nq, Nk] = " + ShapeText(full) + " or 1, got " + ShapeText(extent));
}

void CheckDense(const Attention& attention, const Shape& shape) {
  if (attention.mask.present()) CheckBroadcast("mask", attention.mask.values, shape);
  if (attention.bias) std::visit([&](const auto& bias) { CheckBroadcast("bias", bias, shape); }, attention.bias->values);
}

void CheckRelative(const Attention& attention, const Shape& shape) {
  const std::string heads = std::to_string(shape.q_heads);
  if (attention.relative_bias) {
    VisitTable<2>(attention.relative_bias->table, [&](const std::array<int64_t, 2>& extent) {
      if (extent[0] != shape.q_heads || extent[1] % 2 != 1)
        Refuse("relative_bias", "expected [Hq, 2M+1] with Hq = " + heads + ", got " + ShapeText(extent));
      CheckTableRows("relative_bias", extent[1]);
    });
    CheckWholePositions("relative_bias", "query_positions", attention.query_positions);
    CheckWholePositions("relative_bias", "key_positions", attention.key_positions);
  }
  if (attention.slope_bias)
    VisitTable<1>(attention.slope_bias->slopes, [&](const std::array<int64_t, 1>& extent) {
      if (extent[0] != shape.q_heads)
        Refuse("slope_bias", "expected one slope for each of " + heads + " query heads, got " + ShapeText(extent));
    });
}

void CheckContent(const Attention& attention, const Shape& shape) {
  if (!attention.content_bias) return;
  const ContentBias& bias = *attention.content_bias;
  if (!bias.keys && !bias.values && !bias.queries) Refuse("content_bias", "expected keys, values or queries");
  int64_t rows = 0;
  const char* first = nullptr;
  const auto check = [&](const char* name, const std::optional<Table<2>>& table, int64_t width) {
    if (!table) return;
    VisitTable<2>(*table, [&](const std::array<int64_t, 2>& extent) {
      if (extent[0] % 2 != 1 || (width >= 0 && extent[1] != width))
        Refuse(name, "expected [2M+1, " + std::to_string(width) + "], got " + ShapeText(extent));
      if (rows != 0 && extent[0] != rows)
        Refuse(name, "expected " + std::to_string(rows) + " rows as " + first + " has, got " + ShapeText(extent));
      CheckTableRows(name, extent[0]);
      // Kernels hold a row of either width for each offset, whichever tables there are.
      CheckExtents<2>(name, {extent[0], std::max(shape.head_dim, shape.value_dim)});
      if (rows == 0) first = name;
      rows = extent[0];
    });
  };
  check("content_bias.keys", bias.keys, shape.head_dim);
  check("content_bias.queries", bias.queries, shape.head_dim);
  check("content_bias.values", bias.values, shape.value_dim == 0 ? -1 : shape.value_dim);
  CheckWholePositions("content_bias", "query_positions", attention.query_positions);
  CheckWholePositions("content_bias", "key_positions", attention.key_positions);
}

constexpr int64_t kBatchIndices = int64_t{1} << 32;

void CheckCounters(const Dropout& dropout, const Shape& shape) {
  if (dropout.probability == 0) return;
  // The counter of the generator holds 32 bits of batch index, 16 of head and 40 each of query and key index.
  if (SaturatedSum(shape.batch, dropout.batch_offset) > kBatchIndices)
    Refuse("dropout.batch_offset", "expected batch indices below 2^32, got " + std::to_string(shape.batch) + " rows from " +
                                       std::to_string(dropout.batch_offset) + " on");
  if (shape.q_heads > (int64_t{1} << 16)) Refuse("dropout", "more than 65536 heads");
  if (std::max(shape.q_len, shape.kv_len) > (int64_t{1} << 40)) Refuse("dropout", "sequence beyond 2^40");
}

// Fills count with the tokens of the longest sequence.
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

}  // namespace

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
  ForEachArray(attention, [](const char* name, const auto& view) { CheckPresent(name, view); });
  if (attention.scale && !std::isfinite(*attention.scale)) Refuse("scale", "expected a finite number");
  if (attention.softcap && !(*attention.softcap > 0 && std::isfinite(*attention.softcap)))
    Refuse("softcap", "expected a finite number above 0, got " + std::to_string(*attention.softcap));
  CheckDropout(attention.dropout);
  CheckCounters(attention.dropout, shape);
  CheckLengths("query_lengths", attention.query_lengths, shape.batch, 1, shape.q_len);
  CheckLengths("key_lengths", attention.key_lengths, shape.batch, shape.q_len, shape.kv_len);
  CheckOrder(attention, shape);
  CheckDense(attention, shape);
  CheckRelative(attention, shape);
  CheckContent(attention, shape);
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
