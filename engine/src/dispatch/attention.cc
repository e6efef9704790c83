// The public functions: types erased, then one call of dispatch/calls.h.
#include "heed/attention.h"

#include "core/operand.h"
#include "dispatch/calls.h"
#include "dispatch/layouts.h"
#include "heed/error.h"

namespace heed {

template <class T>
void Forward(const Attention& attention, const ForwardInputs<T>& inputs, const ForwardResults<T>& results, Workspace& workspace,
             Executor& executor) {
  using core::OperandOf;
  dispatch::RunForward<Accum<T>>(attention,
                                 {{.v = OperandOf(inputs.v),
                                   .out = OperandOf(results.out),
                                   .lse = results.lse,
                                   .statistics = results.statistics,
                                   .remainder = OperandOf(results.remainder),
                                   .correction = results.correction,
                                   .largest_key = results.largest_key},
                                  OperandOf(inputs.q),
                                  OperandOf(inputs.k)},
                                 workspace, executor);
}

template <class T>
void Tangent(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, const Tangents<T>& tangents, View<T, 4> out, View<T, 4> t_out,
             View<Accum<T>, 3> lse, View<Accum<T>, 3> t_lse, Workspace& workspace, Executor& executor) {
  using core::OperandOf;
  dispatch::ForwardArrays<Accum<T>> arrays{{.v = OperandOf(v), .out = OperandOf(out), .lse = lse}, OperandOf(q), OperandOf(k)};
  arrays.tangents = {.wanted = true,
                     .q = OperandOf(tangents.q),
                     .k = OperandOf(tangents.k),
                     .v = OperandOf(tangents.v),
                     .out = OperandOf(t_out),
                     .lse = t_lse};
  arrays.scheme_tangents = tangents.biases;
  dispatch::RunForward<Accum<T>>(attention, arrays, workspace, executor);
}

namespace {

template <class T>
dispatch::BackwardArrays<Accum<T>> ArraysOf(const BackwardInputs<T>& inputs, const InputGradients<T>& gradients) {
  using core::OperandOf;
  return {{.v = OperandOf(inputs.v),
           .out = OperandOf(inputs.out),
           .lse = inputs.lse,
           .d_out = OperandOf(inputs.d_out),
           .d_lse = inputs.d_lse,
           .remainder = OperandOf(inputs.remainder),
           .correction = inputs.correction,
           .statistics = inputs.statistics,
           .d_q = OperandOf(gradients.q),
           .d_k = OperandOf(gradients.k),
           .d_v = OperandOf(gradients.v)},
          OperandOf(inputs.q),
          OperandOf(inputs.k),
          gradients.biases};
}

}  // namespace

template <class T>
void Backward(const Attention& attention, const BackwardInputs<T>& inputs, const InputGradients<T>& gradients,
              Workspace& workspace, Executor& executor) {
  dispatch::RunBackward<Accum<T>>(attention, ArraysOf(inputs, gradients), workspace, executor);
}

template <class T>
void BackwardTangent(const Attention& attention, const BackwardInputs<T>& inputs, const Tangents<T>& tangents,
                     const RowTangents<T>& of_rows, View<T, 4> t_d_q, View<T, 4> t_d_k, View<T, 4> t_d_v,
                     const BiasGradients<Accum<T>>& t_d_biases, Workspace& workspace, Executor& executor) {
  using core::OperandOf;
  if (inputs.statistics.wanted()) throw InvalidArgument("statistics: expected no gradients: they have no second derivatives");
  dispatch::BackwardArrays<Accum<T>> arrays = ArraysOf<T>(inputs, {t_d_q, t_d_k, t_d_v, t_d_biases});
  arrays.tangents = {.wanted = true,
                     .q = OperandOf(tangents.q),
                     .k = OperandOf(tangents.k),
                     .v = OperandOf(tangents.v),
                     .out = OperandOf(of_rows.out),
                     .d_out = OperandOf(of_rows.d_out),
                     .lse = of_rows.lse,
                     .d_lse = of_rows.d_lse};
  arrays.scheme_tangents = tangents.biases;
  dispatch::RunBackward<Accum<T>>(attention, arrays, workspace, executor);
}

template <class T>
void Weights(const Attention& attention, View<const T, 4> q, View<const T, 4> k, View<const Accum<T>, 3> lse,
             View<const int64_t, 1> heads, View<const int64_t, 1> rows, View<Accum<T>, 4> weights, Workspace& workspace,
             Executor& executor) {
  using core::OperandOf;
  dispatch::RunWeights<Accum<T>>(attention,
                                 {{.lse = lse, .heads = heads, .rows = rows, .weights = weights}, OperandOf(q), OperandOf(k)},
                                 workspace, executor);
}

namespace {

// Bytes of workspace for a call with all gradients and `workers` workers; T: the type of computation.
template <class T>
std::size_t BytesOf(const Attention& attention, const Shape& shape, dispatch::Elements elements, int workers,
                    position::Pass pass) {
  using enum position::Pass;
  const BiasGradients<T> none;
  if (pass == kForward || pass == kTangent) {
    const attention::Cut cut = attention::CutForward(attention, shape, sizeof(T), pass == kTangent);
    dispatch::ForwardLayout<T> layout(attention, cut, shape, elements, workers, pass == kTangent ? &none : nullptr);
    return layout.Memory(workers).bytes();
  }
  const attention::Cut cut = attention::CutBackward(shape, sizeof(T), position::LimitsOf(attention));
  dispatch::BackwardLayout<T> layout(attention, cut, shape, elements, {},
                                     dispatch::AllGradients<T>(attention, pass == kBackwardTangent), workers,
                                     pass == kBackwardTangent ? &none : nullptr);
  return layout.Memory().bytes();
}

std::size_t BytesOf(const Attention& attention, const Shape& shape, int element_bytes, int concurrency, position::Pass pass) {
  dispatch::CheckQuestion(attention, shape, element_bytes, concurrency);
  const dispatch::Elements elements = dispatch::ElementsOf(element_bytes);
  if (element_bytes == 8) return BytesOf<double>(attention, shape, elements, concurrency, pass);
  return BytesOf<float>(attention, shape, elements, concurrency, pass);
}

}  // namespace

std::size_t ForwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  return BytesOf(attention, shape, element_bytes, concurrency, position::Pass::kForward);
}

std::size_t TangentWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  return BytesOf(attention, shape, element_bytes, concurrency, position::Pass::kTangent);
}

std::size_t BackwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  return BytesOf(attention, shape, element_bytes, concurrency, position::Pass::kBackward);
}

std::size_t BackwardTangentWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  return BytesOf(attention, shape, element_bytes, concurrency, position::Pass::kBackwardTangent);
}

// The four element types of the public functions.
// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses
#define HEED_INSTANTIATE(T)                                                                                                    \
  template void Forward(const Attention&, const ForwardInputs<T>&, const ForwardResults<T>&, Workspace&, Executor&);           \
  template void Tangent(const Attention&, View<const T, 4>, View<const T, 4>, View<const T, 4>, const Tangents<T>&,            \
                        View<T, 4>, View<T, 4>, View<Accum<T>, 3>, View<Accum<T>, 3>, Workspace&, Executor&);                  \
  template void Backward(const Attention&, const BackwardInputs<T>&, const InputGradients<T>&, Workspace&, Executor&);         \
  template void BackwardTangent(const Attention&, const BackwardInputs<T>&, const Tangents<T>&, const RowTangents<T>&,         \
                                View<T, 4>, View<T, 4>, View<T, 4>, const BiasGradients<Accum<T>>&, Workspace&, Executor&);    \
  template void Weights(const Attention&, View<const T, 4>, View<const T, 4>, View<const Accum<T>, 3>, View<const int64_t, 1>, \
                        View<const int64_t, 1>, View<Accum<T>, 4>, Workspace&, Executor&)
HEED_INSTANTIATE(float);
HEED_INSTANTIATE(double);
HEED_INSTANTIATE(BFloat16);
HEED_INSTANTIATE(Float16);
#undef HEED_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace heed
