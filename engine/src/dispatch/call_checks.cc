#include "dispatch/calls.h"

#include "core/arrays.h"
#include "core/refuse.h"
#include "core/regions.h"
#include "core/validation.h"
#include "heed/attention_check.h"
#include "position/scheme_set.h"

namespace heed::dispatch {

using core::CheckExtents;
using core::CheckPacked;
using core::CheckPresent;
using core::CheckShape;
using core::ExtentsOf;
using core::PackedSize;
using core::Refuse;
using core::Regions;
using core::ShapeText;

namespace {

// [B or 1, H, tokens, width] for an array of a call of `shape`: packed sequences lie end to end in one row.
std::array<int64_t, 4> ArrayShape(const Attention& attention, const Shape& shape, int64_t heads, bool queries, int64_t width) {
  if (!attention.packed.present()) return {shape.batch, heads, queries ? shape.q_len : shape.kv_len, width};
  const PackedSize size = CheckPacked(attention.packed);
  return {1, heads, queries ? size.queries : size.keys, width};
}

std::array<int64_t, 3> RowShape(const Attention& attention, const Shape& shape) {
  const auto of = ArrayShape(attention, shape, shape.q_heads, true, 0);
  return {of[0], of[1], of[2]};
}

void CheckSameElement(const char* name, const Input& array, const Input& q) {
  if (array.element != q.element) Refuse(name, "its elements have another type than those of q");
}

Shape CheckQueriesAndKeys(const Attention& attention, const Input& q, const Input& k, Regions& regions) {
  CheckPresent("q", q);
  CheckPresent("k", k);
  regions.Read("q", q);
  regions.Read("k", k);
  CheckSameElement("k", k, q);
  Shape shape{q.extent[0], q.extent[1], k.extent[1], q.extent[2], k.extent[2], q.extent[3], 0};
  const auto both = [&] { return "q is " + ShapeText(q.extent) + ", k is " + ShapeText(k.extent); };
  if (q.extent == std::array<int64_t, 4>{} && q.extent != k.extent)
    Refuse("q", "it is absent; expected [B, H, N, D] beside k, which is " + ShapeText(k.extent));
  if (k.extent == std::array<int64_t, 4>{} && q.extent != k.extent)
    Refuse("k", "it is absent; expected [B, Hkv, Nk, D] beside q, which is " + ShapeText(q.extent));
  if (k.extent[0] != shape.batch) Refuse("k", "batch sizes differ: " + both());
  if (k.extent[3] != shape.head_dim) Refuse("k", "head widths differ: " + both());
  if (shape.kv_heads == 0 ? shape.q_heads != 0 : shape.q_heads % shape.kv_heads != 0)
    Refuse("k", "the number of query heads must be a multiple of the number of key heads: " + both());
  if (shape.head_dim == 0 && !attention.scale) Refuse("q", "a head width of 0 has no default scale: " + ShapeText(q.extent));
  if (attention.packed.present()) {
    if (shape.batch != 1) Refuse("q", "packed sequences lie in arrays [1, H, T, D], got " + ShapeText(q.extent));
    const PackedSize size = CheckPacked(attention.packed);
    if (size.queries != shape.q_len)
      Refuse("packed.query_offsets",
             "expected to end at the " + std::to_string(shape.q_len) + " queries of q, got " + std::to_string(size.queries));
    if (size.keys != shape.kv_len)
      Refuse("packed.key_offsets",
             "expected to end at the " + std::to_string(shape.kv_len) + " keys of k, got " + std::to_string(size.keys));
    shape.batch = size.batch;
    shape.q_len = size.longest_queries;
    shape.kv_len = size.longest_keys;
  }
  return shape;
}

// The options of a call: arrays that are there first, because the checks read them.
void CheckAllOptions(const Attention& attention, const Shape& shape, Regions& regions) {
  position::ForEachArray(attention, [](const char* name, const auto& view) { CheckPresent(name, view); });
  core::CheckOptions(attention, shape);
  position::CheckSchemes(attention, shape);
  position::ForEachArray(attention, [&](const char* name, const auto& view) { regions.Read(name, view); });
}

// Options are left for later: lists without extents of their own are as long as q says, which the outputs must confirm before
// one is read.
Shape CheckInputs(const Attention& attention, const Input& q, const Input& k, const Input& v, Regions& regions) {
  Shape shape = CheckQueriesAndKeys(attention, q, k, regions);
  CheckSameElement("v", v, q);
  shape.value_dim = v.extent[3];
  regions.Read("v", v, ArrayShape(attention, shape, shape.kv_heads, false, shape.value_dim), "[B, Hkv, Nk, Dv]");
  return shape;
}

// Only what is rounded leaves a remainder.
template <class Array>
void CheckNarrow(const char* name, const Array& out) {
  if (out.element == core::Element::kFloat32 || out.element == core::Element::kFloat64)
    Refuse(name, "expected none, because float32 and float64 outputs are not rounded");
}

// Calls visit(name, numbers) for every statistic.
template <class T, class Visit>
void ForEachStatistic(const Statistics<T>& statistics, const Visit& visit) {
  const auto& [entropy, max_weight, mean_distance] = statistics;
  visit("statistics.entropy", entropy);
  visit("statistics.max_weight", max_weight);
  visit("statistics.mean_distance", mean_distance);
}

// Calls visit(name, numbers) for what a gradient of a statistic needs, and refuses one that lacks it.
template <class T, class Visit>
void ForEachStatisticGradient(const StatisticGradients<T>& statistics, const Visit& visit) {
  const auto pair = [&](const char* name, const View<const T, 3>& numbers, const char* d_name, const View<const T, 3>& d) {
    if (!d.present()) return;
    if (!numbers.present()) Refuse(name, std::string("expected what the forward pass returned beside ") + d_name);
    visit(name, numbers);
    visit(d_name, d);
  };
  pair("statistics.entropy", statistics.entropy, "statistics.d_entropy", statistics.d_entropy);
  pair("statistics.max_weight", statistics.max_weight, "statistics.d_max_weight", statistics.d_max_weight);
  pair("statistics.mean_distance", statistics.mean_distance, "statistics.d_mean_distance", statistics.d_mean_distance);
  if (!statistics.d_max_weight.present()) return;
  if (!statistics.largest_key.present())
    Refuse("statistics.largest_key", "expected what the forward pass returned beside statistics.d_max_weight");
  visit("statistics.largest_key", statistics.largest_key);
}

// Of a table, whose gradient or tangent has its shape.
template <class T>
auto ExtentOf(const T& table) {
  return std::visit([](const auto& t) { return ExtentsOf(t).extent; }, table);
}

template <class T>
void CheckSchemeGradients(const Attention& attention, const BiasGradients<T>& gradients, Regions& regions) {
  position::ForEachSchemeGradient(attention, gradients, [&](const char* name, const auto& gradient, const auto* table) {
    if (!gradient.present()) return;
    if (!table) Refuse(name, "expected none, because the array that it belongs to is not given");
    regions.Write(name, gradient, ExtentOf(*table), "the shape of what it belongs to");
  });
}

// A tangent, where it is given, of an operand; in elements of q.
void CheckTangentOf(const char* name, const Input& tangent, const Input& operand, const char* meaning, const Input& q,
                    Regions& regions) {
  if (!tangent.present()) return;
  CheckSameElement(name, tangent, q);
  regions.Read(name, tangent, operand.extent, meaning);
}
// Those of a call's inputs.
template <class Arrays>
void CheckTangentsOfInputs(const Arrays& arrays, Regions& regions) {
  CheckTangentOf("tangents.q", arrays.tangents.q, arrays.q, "the shape of q", arrays.q, regions);
  CheckTangentOf("tangents.k", arrays.tangents.k, arrays.k, "the shape of k", arrays.q, regions);
  CheckTangentOf("tangents.v", arrays.tangents.v, arrays.v, "the shape of v", arrays.q, regions);
}
// One of a table of a scheme, under a name that does not outlive the check.
template <class Tangent, class Table>
void CheckTangentOfTable(const char* name, const Tangent& tangent, const Table& table, Regions& regions) {
  CheckPresent(name, tangent);
  CheckShape(name, tangent, ExtentOf(table), "the shape of what it belongs to");
  regions.Read("tangents.biases", tangent);
}

// The tangents of a forward call, where it has some.
template <class T>
void CheckTangents(const Attention& attention, const Shape& shape, const ForwardArrays<T>& arrays, Regions& regions) {
  CheckTangentsOfInputs(arrays, regions);
  position::CheckTangents(attention, arrays.scheme_tangents, [&](const char* name, const auto& tangent, const auto* table) {
    CheckTangentOfTable(name, tangent, *table, regions);
  });
  regions.Write("t_out", arrays.tangents.out, arrays.out.extent, "the shape of out");
  if (arrays.tangents.lse.present()) regions.Write("t_lse", arrays.tangents.lse, RowShape(attention, shape), "[B, Hq, Nq]");
}

// The tangents of a backward call, where it has some.
template <class T>
void CheckBackwardTangents(const Attention& attention, const Shape& shape, const BackwardArrays<T>& arrays, Regions& regions) {
  const attention::BackwardTangentArrays<T>& tangents = arrays.tangents;
  CheckTangentsOfInputs(arrays, regions);
  CheckTangentOf("of_rows.out", tangents.out, arrays.out, "the shape of out", arrays.q, regions);
  CheckTangentOf("of_rows.d_out", tangents.d_out, arrays.out, "the shape of out", arrays.q, regions);
  const auto read_rows = [&](const char* name, const View<const T, 3>& rows) {
    if (rows.present()) regions.Read(name, rows, RowShape(attention, shape), "the shape of lse");
  };
  read_rows("of_rows.lse", tangents.lse);
  read_rows("of_rows.d_lse", tangents.d_lse);
  bool of_scores = tangents.q.present() || tangents.k.present();
  position::CheckBackwardTangents(attention, arrays.scheme_tangents, arrays.d_biases,
                                  [&](const char* name, const auto& tangent, const auto* table) {
                                    of_scores = true;
                                    CheckTangentOfTable(name, tangent, *table, regions);
                                  });
  const char* expected = "expected what Tangent returned for these tangents";
  if ((of_scores || tangents.v.present()) && !tangents.out.present()) Refuse("of_rows.out", expected);
  if (of_scores && !tangents.lse.present()) Refuse("of_rows.lse", expected);
}

}  // namespace

void CheckDescribed(const Attention& attention, const Shape& shape) {
  const auto check = [](int64_t batch, int64_t heads, int64_t length, int64_t width) {
    CheckExtents<4>("shape", {batch, heads, length, width});
  };
  const bool packed = attention.packed.present();
  const PackedSize size = packed ? CheckPacked(attention.packed) : PackedSize{};
  if (packed && (size.batch != shape.batch || size.longest_queries != shape.q_len || size.longest_keys != shape.kv_len))
    Refuse("shape", "expected the number of packed sequences and the lengths of the longest");
  const int64_t rows = packed ? 1 : shape.batch, queries = packed ? size.queries : shape.q_len;
  const int64_t keys = packed ? size.keys : shape.kv_len;
  check(rows, shape.q_heads, queries, shape.head_dim);
  check(rows, shape.q_heads, queries, shape.value_dim);
  check(rows, shape.kv_heads, keys, shape.head_dim);
  check(rows, shape.kv_heads, keys, shape.value_dim);
  if (shape.kv_heads == 0 ? shape.q_heads != 0 : shape.q_heads % shape.kv_heads != 0)
    Refuse("shape", "expected a number of query heads that is a multiple of that of key heads");
}

void CheckQuestion(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  CheckDescribed(attention, shape);
  if (element_bytes != 2 && element_bytes != 4 && element_bytes != 8)
    Refuse("element_bytes", "expected 2, 4 or 8, got " + std::to_string(element_bytes));
  if (concurrency < 1) Refuse("concurrency", "expected at least 1, got " + std::to_string(concurrency));
}

template <class T>
Shape CheckForward(const Attention& attention, const ForwardArrays<T>& arrays) {
  Regions regions;
  const Shape shape = CheckInputs(attention, arrays.q, arrays.k, arrays.v, regions);
  regions.Write("out", arrays.out, ArrayShape(attention, shape, shape.q_heads, true, shape.value_dim), "[B, Hq, Nq, Dv]");
  CheckAllOptions(attention, shape, regions);
  const auto write_rows = [&](const char* name, const auto& rows) {
    if (rows.present()) regions.Write(name, rows, RowShape(attention, shape), "[B, Hq, Nq]");
  };
  write_rows("lse", arrays.lse);
  ForEachStatistic(arrays.statistics, write_rows);
  write_rows("correction", arrays.correction);
  write_rows("largest_key", arrays.largest_key);
  if (arrays.tangents.wanted) CheckTangents(attention, shape, arrays, regions);
  if (arrays.remainder.present()) {
    CheckNarrow("remainder", arrays.out);
    regions.Write("remainder", arrays.remainder, arrays.out.extent, "the shape of out");
  }
  regions.CheckApart();
  return shape;
}

template <class T>
Shape CheckBackward(const Attention& attention, const BackwardArrays<T>& arrays) {
  Regions regions;
  const Shape shape = CheckInputs(attention, arrays.q, arrays.k, arrays.v, regions);
  const auto out_shape = ArrayShape(attention, shape, shape.q_heads, true, shape.value_dim);
  const auto row_shape = RowShape(attention, shape);
  regions.Read("out", arrays.out, out_shape, "[B, Hq, Nq, Dv]");
  CheckSameElement("out", arrays.out, arrays.q);
  regions.Read("lse", arrays.lse, row_shape, "[B, Hq, Nq]");
  regions.Read("d_out", arrays.d_out, out_shape, "the shape of out");
  CheckSameElement("d_out", arrays.d_out, arrays.q);
  CheckAllOptions(attention, shape, regions);
  if (arrays.d_lse.present()) regions.Read("d_lse", arrays.d_lse, row_shape, "the shape of lse");
  if (arrays.remainder.present()) {
    CheckNarrow("remainder", arrays.out);
    regions.Read("remainder", arrays.remainder, out_shape, "the shape of out");
  }
  if (arrays.correction.present()) regions.Read("correction", arrays.correction, row_shape, "the shape of lse");
  ForEachStatisticGradient(arrays.statistics,
                           [&](const char* name, const auto& rows) { regions.Read(name, rows, row_shape, "[B, Hq, Nq]"); });
  const auto check_gradient = [&](const char* name, const Output& gradient, const Input& operand, const char* meaning) {
    if (gradient.present() || gradient.extent != Output().extent) regions.Write(name, gradient, operand.extent, meaning);
  };
  const bool tangents = arrays.tangents.wanted;
  check_gradient(tangents ? "t_d_q" : "d_q", arrays.d_q, arrays.q, "the shape of q");
  check_gradient(tangents ? "t_d_k" : "d_k", arrays.d_k, arrays.k, "the shape of k");
  check_gradient(tangents ? "t_d_v" : "d_v", arrays.d_v, arrays.v, "the shape of v");
  CheckSchemeGradients(attention, arrays.d_biases, regions);
  if (tangents) CheckBackwardTangents(attention, shape, arrays, regions);
  regions.CheckApart();
  return shape;
}

template <class T>
Shape CheckWeights(const Attention& attention, const WeightsArrays<T>& arrays) {
  if (attention.packed.present()) Refuse("packed", "weights on request are not defined for packed sequences");
  Regions regions;
  const Shape shape = CheckQueriesAndKeys(attention, arrays.q, arrays.k, regions);
  Shape without_values = shape;
  without_values.value_dim = -1;
  CheckAllOptions(attention, without_values, regions);
  regions.Read("lse", arrays.lse, RowShape(attention, shape), "[B, Hq, Nq]");
  const auto check_indices = [&](const char* name, const View<const int64_t, 1>& indices, int64_t limit) {
    CheckPresent(name, indices);
    for (int64_t x = 0; x < indices.extent[0]; ++x)
      if (indices(x) < 0 || indices(x) >= limit)
        Refuse(name, "expected values in 0.." + std::to_string(limit - 1) + ", got " + std::to_string(indices(x)));
    regions.Read(name, indices);
  };
  check_indices("heads", arrays.heads, shape.q_heads);
  check_indices("rows", arrays.rows, shape.q_len);
  regions.Write("weights", arrays.weights, {shape.batch, arrays.heads.extent[0], arrays.rows.extent[0], shape.kv_len},
                "[B, heads, rows, Nk]");
  regions.CheckApart();
  return shape;
}

template Shape CheckForward(const Attention&, const ForwardArrays<float>&);
template Shape CheckForward(const Attention&, const ForwardArrays<double>&);
template Shape CheckBackward(const Attention&, const BackwardArrays<float>&);
template Shape CheckBackward(const Attention&, const BackwardArrays<double>&);
template Shape CheckWeights(const Attention&, const WeightsArrays<float>&);
template Shape CheckWeights(const Attention&, const WeightsArrays<double>&);

}  // namespace heed::dispatch

namespace heed {

void CheckAttention(const Attention& attention, const Shape& shape) {
  dispatch::CheckDescribed(attention, shape);
  core::Regions regions;
  dispatch::CheckAllOptions(attention, shape, regions);
}

}  // namespace heed
