// What a scheme adds to the options of a call.
#ifndef HEED_NN_SRC_SCHEME_OPTIONS_H_
#define HEED_NN_SRC_SCHEME_OPTIONS_H_

#include <ATen/core/Tensor.h>

#include "heed/nn/attention.h"
#include "heed/nn/attention_position.h"

namespace heed::nn {

// The options with the scheme's tensors, program and scale. Throws InvalidArgument where the call brings its own tensors for
// the same, and for a scheme of another number of heads than query has.
AttentionOptions WithScheme(const AttentionPosition& scheme, AttentionOptions options, const at::Tensor& query);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_SCHEME_OPTIONS_H_
