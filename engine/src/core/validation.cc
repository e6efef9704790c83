#include "core/validation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heed::core {
namespace {

[[noreturn]] void Refuse(const std::string& argument, const std::string& why) { throw InvalidArgument(argument + ": " + why); }

template <class T, int Rank>
void CheckPresent(const char* name, const View<T, Rank>& view) {
  for (int64_t e : view.extent)
    if (e < 0) Refuse(name, "extents must not be negative, got " + ShapeText<Rank>(view.extent));
  int64_t size = 1;
  for (int64_t e : view.extent) size = CheckedProduct(size, e, name);
  if (size > 0 && !view.present()) Refuse(name, "no memory behind shape " + ShapeText<Rank>(view.extent));
  for (int r = 0; r < Rank; ++r) {
    const int64_t stride = view.stride[r];
    if (stride == std::numeric_limits<int64_t>::min()) Refuse(name, "stride out of range");
    CheckedProduct(view.extent[r], std::abs(stride), name);
  }
}

template <class T, int Rank>
void CheckShape(const char* name, const View<T, Rank>& view, const std::type_identity_t<std::array<int64_t, Rank>>& expected,
                const char* meaning) {
  if (view.extent != expected)
    Refuse(name,
           std::string("expected ") + meaning + " = " + ShapeText<Rank>(expected) + ", got " + ShapeText<Rank>(view.extent));
}

// The half-open range of addresses a view touches.
struct Span {
  const std::byte* begin;
  const std::byte* end;
};

template <class T, int Rank>
Span SpanOf(const View<T, Rank>& view) {
  int64_t low = 0, high = 0;
  for (int r = 0; r < Rank; ++r) {
    const int64_t reach = (view.extent[r] - 1) * view.stride[r];
    (reach < 0 ? low : high) += reach;
  }
  const auto* base = reinterpret_cast<const std::byte*>(view.data);
  return {base + low * static_cast<int64_t>(sizeof(T)), base + (high + 1) * static_cast<int64_t>(sizeof(T))};
}

template <class A, int RankA, class B, int RankB>
void CheckApart(const char* output, const View<A, RankA>& a, const char* other, const View<B, RankB>& b) {
  if (!a.present() || !b.present() || a.size() == 0 || b.size() == 0) return;
  const Span x = SpanOf(a), y = SpanOf(b);
  if (x.begin < y.end && y.begin < x.end) Refuse(output, std::string("its memory overlaps ") + other);
}

// No two elements of an output may share an address. Sorted by stride, each dimension must step over all smaller ones.
template <class T, int Rank>
void CheckDistinct(const char* name, const View<T, Rank>& view) {
  if (view.size() == 0) return;
  std::array<std::pair<int64_t, int64_t>, Rank> steps;
  for (int r = 0; r < Rank; ++r) steps[r] = {std::abs(view.stride[r]), view.extent[r]};
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, extent] : steps) {
    if (extent <= 1) continue;
    if (stride <= reach) Refuse(name, "its elements overlap each other; an output needs distinct elements");
    reach += (extent - 1) * stride;
  }
}

void CheckLengths(const char* name, const Lengths& lengths, int64_t batch, int64_t q_len, int64_t limit) {
  if (!lengths.present()) return;
  const auto& values = lengths.values;
  const bool per_query = values.extent[1] != 1 || q_len == 1;
  if (values.extent[0] != batch || (per_query && values.extent[1] != q_len))
    Refuse(name, "expected [B, 1] or [B, Nq] with B = " + std::to_string(batch) + " and Nq = " + std::to_string(q_len) +
                     ", got " + ShapeText<2>(values.extent));
  for (int64_t b = 0; b < values.extent[0]; ++b)
    for (int64_t i = 0; i < values.extent[1]; ++i)
      if (values(b, i) < 0 || values(b, i) > limit)
        Refuse(name, "expected values in 0.." + std::to_string(limit) + ", got " + std::to_string(values(b, i)) +
                         " in batch row " + std::to_string(b));
}

void CheckRelativeBias(const Attention& attention, const Shape& shape) {
  if (!attention.relative_bias) return;
  std::visit(
      [&](const auto& table) {
        CheckPresent("relative_bias", table);
        if (table.extent[0] != shape.q_heads || table.extent[1] % 2 != 1)
          Refuse("relative_bias",
                 "expected [Hq, 2M+1] with Hq = " + std::to_string(shape.q_heads) + ", got " + ShapeText<2>(table.extent));
      },
      attention.relative_bias->table);
}

void CheckOptions(const Attention& attention, const Shape& shape) {
  if (attention.scale && !std::isfinite(*attention.scale)) Refuse("scale", "expected a finite number");
  const double p = attention.dropout.probability;
  if (!(p >= 0.0 && p < 1.0)) Refuse("dropout.probability", "expected a number in [0, 1), got " + std::to_string(p));
  if (attention.dropout.batch_offset < 0) Refuse("dropout.batch_offset", "expected at least 0");
  if (std::lround(p * 65536) > 65535) Refuse("dropout.probability", "expected at most 65535/65536, got " + std::to_string(p));
  if (p > 0) {
    // The counter of the generator holds 32 bits of batch index, 16 of head and 40 each of query and key index.
    if (shape.batch + attention.dropout.batch_offset > (int64_t{1} << 32)) Refuse("dropout", "batch index beyond 2^32");
    if (shape.q_heads > (int64_t{1} << 16)) Refuse("dropout", "more than 65536 heads");
    if (std::max(shape.q_len, shape.kv_len) > (int64_t{1} << 40)) Refuse("dropout", "sequence beyond 2^40");
  }
  if (attention.causal == Causal::kTopLeft && attention.query_positions.offset)
    Refuse("causal",
           "kTopLeft fixes where the queries stand; with query_positions use kBottomRight (key position <= query position)");
  CheckLengths("query_lengths", attention.query_lengths, shape.batch, 1, shape.q_len);
  CheckLengths("key_lengths", attention.key_lengths, shape.batch, shape.q_len, shape.kv_len);
  CheckRelativeBias(attention, shape);
}

template <class T>
Shape CheckInputs(const Attention& attention, const View<const T, 4>& q, const View<const T, 4>& k, const View<const T, 4>& v) {
  CheckPresent("q", q);
  CheckPresent("k", k);
  CheckPresent("v", v);
  const Shape shape{q.extent[0], q.extent[1], k.extent[1], q.extent[2], k.extent[2], q.extent[3], v.extent[3]};
  const std::string both = "q is " + ShapeText<4>(q.extent) + ", k is " + ShapeText<4>(k.extent);
  if (k.extent[0] != shape.batch) Refuse("k", "batch sizes differ: " + both);
  if (k.extent[3] != shape.head_dim) Refuse("k", "head widths differ: " + both);
  if (shape.kv_heads == 0 ? shape.q_heads != 0 : shape.q_heads % shape.kv_heads != 0)
    Refuse("k", "the number of query heads must be a multiple of the number of key heads: " + both);
  CheckShape("v", v, {shape.batch, shape.kv_heads, shape.kv_len, shape.value_dim}, "[B, Hkv, Nk, Dv]");
  if (shape.head_dim == 0 && !attention.scale) Refuse("q", "a head width of 0 has no default scale: " + ShapeText<4>(q.extent));
  CheckOptions(attention, shape);
  return shape;
}

}  // namespace

int64_t CheckedProduct(int64_t a, int64_t b, const char* what) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) Refuse(what, "its size does not fit in 63 bits");
  return product;
}

int64_t MaxDistance(const RelativeBias& bias) {
  return std::visit([](const auto& table) { return (table.extent[1] - 1) / 2; }, bias.table);
}

template <class T>
Shape CheckForward(const Attention& attention, const View<const T, 4>& q, const View<const T, 4>& k, const View<const T, 4>& v,
                   const View<T, 4>& out, const View<T, 3>& lse) {
  const Shape shape = CheckInputs(attention, q, k, v);
  CheckPresent("out", out);
  CheckShape("out", out, {shape.batch, shape.q_heads, shape.q_len, shape.value_dim}, "[B, Hq, Nq, Dv]");
  CheckDistinct("out", out);
  CheckApart("out", out, "q", q);
  CheckApart("out", out, "k", k);
  CheckApart("out", out, "v", v);
  if (lse.present()) {
    CheckPresent("lse", lse);
    CheckShape("lse", lse, {shape.batch, shape.q_heads, shape.q_len}, "[B, Hq, Nq]");
    CheckDistinct("lse", lse);
    CheckApart("lse", lse, "out", out);
    CheckApart("lse", lse, "q", q);
    CheckApart("lse", lse, "k", k);
    CheckApart("lse", lse, "v", v);
  }
  return shape;
}

template <class T>
Shape CheckBackward(const Attention& attention, const BackwardViews<T>& views) {
  const Shape shape = CheckInputs(attention, views.q, views.k, views.v);
  const std::array<int64_t, 4> out_shape{shape.batch, shape.q_heads, shape.q_len, shape.value_dim};
  CheckPresent("out", views.out);
  CheckShape("out", views.out, out_shape, "[B, Hq, Nq, Dv]");
  CheckPresent("lse", views.lse);
  CheckShape("lse", views.lse, {shape.batch, shape.q_heads, shape.q_len}, "[B, Hq, Nq]");
  CheckPresent("d_out", views.d_out);
  CheckShape("d_out", views.d_out, out_shape, "the shape of out");

  const auto check_gradient = [&](const char* name, const View<T, 4>& gradient, const View<const T, 4>& of,
                                  const char* meaning) {
    CheckPresent(name, gradient);
    CheckShape(name, gradient, of.extent, meaning);
    CheckDistinct(name, gradient);
    CheckApart(name, gradient, "q", views.q);
    CheckApart(name, gradient, "k", views.k);
    CheckApart(name, gradient, "v", views.v);
    CheckApart(name, gradient, "out", views.out);
    CheckApart(name, gradient, "lse", views.lse);
    CheckApart(name, gradient, "d_out", views.d_out);
  };
  check_gradient("d_q", views.d_q, views.q, "the shape of q");
  check_gradient("d_k", views.d_k, views.k, "the shape of k");
  check_gradient("d_v", views.d_v, views.v, "the shape of v");
  CheckApart("d_k", views.d_k, "d_q", views.d_q);
  CheckApart("d_v", views.d_v, "d_q", views.d_q);
  CheckApart("d_v", views.d_v, "d_k", views.d_k);
  if (views.d_relative_bias.present()) {
    if (!attention.relative_bias) Refuse("d_relative_bias", "there is no relative_bias to have a gradient");
    CheckPresent("d_relative_bias", views.d_relative_bias);
    CheckShape("d_relative_bias", views.d_relative_bias, {shape.q_heads, 2 * MaxDistance(*attention.relative_bias) + 1},
               "the shape of relative_bias");
    CheckDistinct("d_relative_bias", views.d_relative_bias);
  }
  return shape;
}

template Shape CheckForward(const Attention&, const View<const float, 4>&, const View<const float, 4>&,
                            const View<const float, 4>&, const View<float, 4>&, const View<float, 3>&);
template Shape CheckForward(const Attention&, const View<const double, 4>&, const View<const double, 4>&,
                            const View<const double, 4>&, const View<double, 4>&, const View<double, 3>&);
template Shape CheckBackward(const Attention&, const BackwardViews<float>&);
template Shape CheckBackward(const Attention&, const BackwardViews<double>&);

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
