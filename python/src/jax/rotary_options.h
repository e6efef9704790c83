// The engine's options of rotary frequencies from settings.
#ifndef HEED_PYTHON_SRC_JAX_ROTARY_OPTIONS_H_
#define HEED_PYTHON_SRC_JAX_ROTARY_OPTIONS_H_

#include "heed/rotary.h"
#include "settings.h"

namespace heed::jax {

// Names are those of torch.ops.heed.rotary_frequencies. Throws InvalidArgument for unknown choices.
RotaryOptions RotaryOptionsOf(const Settings& settings);

}  // namespace heed::jax

#endif  // HEED_PYTHON_SRC_JAX_ROTARY_OPTIONS_H_
