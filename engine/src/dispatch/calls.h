// One call of each kind: check, plan, memory, workers. T is the type of computation, float or double.
#ifndef HEED_DISPATCH_CALLS_H_
#define HEED_DISPATCH_CALLS_H_

#include <cstddef>

#include "dispatch/call_checks.h"
#include "heed/attention.h"

namespace heed::dispatch {

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

// Bytes of workspace for a call with all gradients and `workers` workers. tangents: whether it has some.
template <class T>
std::size_t ForwardBytes(const Attention& attention, const Shape& shape, Elements elements, int workers, bool tangents);
template <class T>
std::size_t BackwardBytes(const Attention& attention, const Shape& shape, Elements elements, int workers, bool tangents);

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_CALLS_H_
