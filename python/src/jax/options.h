// The engine's options from the arrays and settings of a call.
#ifndef HEED_PYTHON_SRC_JAX_OPTIONS_H_
#define HEED_PYTHON_SRC_JAX_OPTIONS_H_

#include "call.h"
#include "heed/attention.h"
#include "heed/rotary.h"

namespace heed::jax {

// Of the call's slice. A is the accumulator. Throws InvalidArgument for settings that are none of the engine's choices.
template <class A>
Attention AttentionOf(Call& call);

// Names are those of torch.ops.heed.rotary_frequencies. Throws InvalidArgument for unknown choices.
RotaryOptions RotaryOptionsOf(const Settings& settings);

}  // namespace heed::jax

#endif  // HEED_PYTHON_SRC_JAX_OPTIONS_H_
