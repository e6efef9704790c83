#include "core/validation.h"

#include "core/arrays.h"

namespace heed::core {
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

Shape CheckQueriesAndKeys(const Attention& attention, const Input& q, const Input& k) {
  CheckPresent("q", q);
  CheckPresent("k", k);
  CheckSameElement("k", k, q);
  Shape shape{q.extent[0], q.extent[1], k.extent[1], q.extent[2], k.extent[2], q.extent[3], 0};
  const auto both = [&] { return "q is " + ShapeText(q.extent) + ", k is " + ShapeText(k.extent); };
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

Shape CheckInputs(const Attention& attention, const Input& q, const Input& k, const Input& v) {
  Shape shape = CheckQueriesAndKeys(attention, q, k);
  CheckPresent("v", v);
  CheckSameElement("v", v, q);
  shape.value_dim = v.extent[3];
  CheckShape("v", v, ArrayShape(attention, shape, shape.kv_heads, false, shape.value_dim), "[B, Hkv, Nk, Dv]");
  CheckOptions(attention, shape);
  return shape;
}

// Only what is rounded leaves a remainder.
template <class Array>
void CheckNarrow(const char* name, const Array& out) {
  if (out.element == Element::kFloat32 || out.element == Element::kFloat64)
    Refuse(name, "expected none, because float32 and float64 outputs are not rounded");
}

// A gradient or result with one number a query, or with the shape of a table.
template <class Array>
void CheckOutput(const char* name, const Array& array, const decltype(ExtentsOf(array).extent)& expected, const char* meaning) {
  CheckPresent(name, array);
  CheckShape(name, array, expected, meaning);
  CheckDistinct(name, array);
}

template <class T, int Rank>
void CheckTableGradient(const char* name, const View<T, Rank>& gradient, const Table<Rank>* table) {
  if (!gradient.present()) return;
  if (!table) Refuse(name, "there is nothing it could be the gradient of");
  CheckOutput(name, gradient, std::visit([](const auto& t) { return ExtentsOf(t).extent; }, *table),
              "the shape of what it belongs to");
}

template <class T>
void CheckBiasGradients(const Attention& attention, const BiasGradients<T>& d) {
  CheckTableGradient("d_bias", d.bias, attention.bias ? &attention.bias->values : nullptr);
  CheckTableGradient("d_relative_bias", d.relative_bias, attention.relative_bias ? &attention.relative_bias->table : nullptr);
  CheckTableGradient("d_slopes", d.slopes, attention.slope_bias ? &attention.slope_bias->slopes : nullptr);
  const auto table = [&](const auto& side) { return side ? &*side : nullptr; };
  CheckTableGradient("d_content_keys", d.content_keys, attention.content_bias ? table(attention.content_bias->keys) : nullptr);
  CheckTableGradient("d_content_values", d.content_values,
                     attention.content_bias ? table(attention.content_bias->values) : nullptr);
  CheckTableGradient("d_content_queries", d.content_queries,
                     attention.content_bias ? table(attention.content_bias->queries) : nullptr);
}

}  // namespace

int64_t CheckedProduct(int64_t a, int64_t b, const char* what) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) Refuse(what, "its size does not fit in 63 bits");
  return product;
}

template <class T>
Shape CheckForward(const Attention& attention, const ForwardArrays<T>& arrays) {
  const Shape shape = CheckInputs(attention, arrays.q, arrays.k, arrays.v);
  const auto check_apart = [&](const char* name, const auto& array) {
    CheckApart(name, array, "q", arrays.q);
    CheckApart(name, array, "k", arrays.k);
    CheckApart(name, array, "v", arrays.v);
  };
  CheckOutput("out", arrays.out, ArrayShape(attention, shape, shape.q_heads, true, shape.value_dim), "[B, Hq, Nq, Dv]");
  check_apart("out", arrays.out);
  const auto check_rows = [&](const char* name, const View<T, 3>& rows) {
    if (!rows.present()) return;
    CheckOutput(name, rows, RowShape(attention, shape), "[B, Hq, Nq]");
    CheckApart(name, rows, "out", arrays.out);
    check_apart(name, rows);
  };
  check_rows("lse", arrays.lse);
  check_rows("statistics.entropy", arrays.statistics.entropy);
  check_rows("statistics.max_weight", arrays.statistics.max_weight);
  check_rows("statistics.mean_distance", arrays.statistics.mean_distance);
  if (arrays.remainder.data) {
    CheckNarrow("remainder", arrays.out);
    CheckOutput("remainder", arrays.remainder, arrays.out.extent, "the shape of out");
    CheckApart("remainder", arrays.remainder, "out", arrays.out);
    check_apart("remainder", arrays.remainder);
  }
  return shape;
}

template <class T>
Shape CheckBackward(const Attention& attention, const BackwardArrays<T>& arrays) {
  const Shape shape = CheckInputs(attention, arrays.q, arrays.k, arrays.v);
  const auto out_shape = ArrayShape(attention, shape, shape.q_heads, true, shape.value_dim);
  CheckPresent("out", arrays.out);
  CheckShape("out", arrays.out, out_shape, "[B, Hq, Nq, Dv]");
  CheckSameElement("out", arrays.out, arrays.q);
  CheckPresent("lse", arrays.lse);
  CheckShape("lse", arrays.lse, RowShape(attention, shape), "[B, Hq, Nq]");
  CheckPresent("d_out", arrays.d_out);
  CheckShape("d_out", arrays.d_out, out_shape, "the shape of out");
  CheckSameElement("d_out", arrays.d_out, arrays.q);
  if (arrays.d_lse.present()) {
    CheckPresent("d_lse", arrays.d_lse);
    CheckShape("d_lse", arrays.d_lse, RowShape(attention, shape), "the shape of lse");
  }

  if (arrays.remainder.data) {
    CheckNarrow("remainder", arrays.out);
    CheckShape("remainder", arrays.remainder, out_shape, "the shape of out");
  }

  const auto check_gradient = [&](const char* name, const Output& gradient, const Input& of, const char* meaning) {
    CheckOutput(name, gradient, of.extent, meaning);
    CheckApart(name, gradient, "q", arrays.q);
    CheckApart(name, gradient, "k", arrays.k);
    CheckApart(name, gradient, "v", arrays.v);
    CheckApart(name, gradient, "out", arrays.out);
    CheckApart(name, gradient, "lse", arrays.lse);
    CheckApart(name, gradient, "d_out", arrays.d_out);
  };
  check_gradient("d_q", arrays.d_q, arrays.q, "the shape of q");
  check_gradient("d_k", arrays.d_k, arrays.k, "the shape of k");
  check_gradient("d_v", arrays.d_v, arrays.v, "the shape of v");
  CheckApart("d_k", arrays.d_k, "d_q", arrays.d_q);
  CheckApart("d_v", arrays.d_v, "d_q", arrays.d_q);
  CheckApart("d_v", arrays.d_v, "d_k", arrays.d_k);
  CheckBiasGradients(attention, arrays.d_biases);
  return shape;
}

template <class T>
Shape CheckWeights(const Attention& attention, const WeightsArrays<T>& arrays) {
  if (attention.packed.present()) Refuse("packed", "weights on request are not defined for packed sequences");
  const Shape shape = CheckQueriesAndKeys(attention, arrays.q, arrays.k);
  CheckOptions(attention, shape);
  CheckPresent("lse", arrays.lse);
  CheckShape("lse", arrays.lse, RowShape(attention, shape), "[B, Hq, Nq]");
  const auto check_indices = [](const char* name, const View<const int64_t, 1>& indices, int64_t limit) {
    CheckPresent(name, indices);
    for (int64_t x = 0; x < indices.extent[0]; ++x)
      if (indices(x) < 0 || indices(x) >= limit)
        Refuse(name, "expected values in 0.." + std::to_string(limit - 1) + ", got " + std::to_string(indices(x)));
  };
  check_indices("heads", arrays.heads, shape.q_heads);
  check_indices("rows", arrays.rows, shape.q_len);
  CheckOutput("weights", arrays.weights, {shape.batch, arrays.heads.extent[0], arrays.rows.extent[0], shape.kv_len},
              "[B, heads, rows, Nk]");
  CheckApart("weights", arrays.weights, "q", arrays.q);
  CheckApart("weights", arrays.weights, "k", arrays.k);
  CheckApart("weights", arrays.weights, "lse", arrays.lse);
  return shape;
}

template Shape CheckForward(const Attention&, const ForwardArrays<float>&);
template Shape CheckForward(const Attention&, const ForwardArrays<double>&);
template Shape CheckBackward(const Attention&, const BackwardArrays<float>&);
template Shape CheckBackward(const Attention&, const BackwardArrays<double>&);
template Shape CheckWeights(const Attention&, const WeightsArrays<float>&);
template Shape CheckWeights(const Attention&, const WeightsArrays<double>&);

}  // namespace heed::core
