// One call of each kind: its arrays, what is checked of them before it computes, and the call. T is the type of computation,
// float or double.
#ifndef HEED_DISPATCH_CALLS_H_
#define HEED_DISPATCH_CALLS_H_

#include <cstddef>

#include "attention/problem.h"
#include "core/operand.h"
#include "heed/attention.h"

namespace heed::dispatch {

using core::Input;
using core::Output;

// The arrays of a call without their types. T is the type of lse, statistics and tables.
template <class T>
struct ForwardArrays : attention::ForwardOperands<T> {
  Input q{}, k{};
  BiasGradients<T> scheme_tangents{};  // only read
};

template <class T>
struct BackwardArrays : attention::BackwardOperands<T> {
  Input q{}, k{};
  BiasGradients<T> d_biases{};         // of a call about tangents those of the gradients
  BiasGradients<T> scheme_tangents{};  // only read
};

template <class T>
struct WeightsArrays : attention::WeightsOperands<T> {
  Input q{}, k{};
};

// The shape of a call, after checking every argument: for packed sequences batch counts them and lengths are the longest.
// Throws InvalidArgument.
template <class T>
Shape CheckForward(const Attention& attention, const ForwardArrays<T>& arrays);
template <class T>
Shape CheckBackward(const Attention& attention, const BackwardArrays<T>& arrays);
template <class T>
Shape CheckWeights(const Attention& attention, const WeightsArrays<T>& arrays);

// A shape that a caller describes without arrays: extents that could be those of a call. Throws InvalidArgument.
void CheckDescribed(const Attention& attention, const Shape& shape);
// The same, the bytes of an element and how many tasks may run at once, of a question about a call.
void CheckQuestion(const Attention& attention, const Shape& shape, int element_bytes, int concurrency);

// With tangents of inputs, those of out and lse too.
template <class T>
void RunForward(const Attention& attention, const ForwardArrays<T>& arrays, Workspace& workspace, Executor& executor);
template <class T>
void RunWeights(const Attention& attention, const WeightsArrays<T>& arrays, Workspace& workspace, Executor& executor);
// With tangents, those of the gradients alone.
template <class T>
void RunBackward(const Attention& attention, const BackwardArrays<T>& arrays, Workspace& workspace, Executor& executor);

// Whether the elements of a call are those that it computes in, or 16-bit ones.
enum class Elements { kOwn, kNarrow };
template <class T>
Elements ElementsOf(const Input& array) {
  return array.element == core::ElementOf<T>() ? Elements::kOwn : Elements::kNarrow;
}
inline Elements ElementsOf(int element_bytes) { return element_bytes == 2 ? Elements::kNarrow : Elements::kOwn; }

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_CALLS_H_
