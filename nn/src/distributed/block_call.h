// Forward and backward of a block: what the operators compute, without the dispatcher.
#ifndef HEED_NN_SRC_DISTRIBUTED_BLOCK_CALL_H_
#define HEED_NN_SRC_DISTRIBUTED_BLOCK_CALL_H_

#include <ATen/core/Tensor.h>

#include "attention_call.h"
#include "heed/nn/attention.h"

namespace heed::nn::distributed {

ForwardResult ForwardOfBlock(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, AttentionOptions options,
                             Kept kept);

// Gradients in the shapes of what was given: one row of a table may have served all heads.
Operands BackwardOfBlock(const at::Tensor& d_output, const at::Tensor& d_lse, const SavedCall& saved, AttentionOptions options,
                         const Wanted& wanted);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_BLOCK_CALL_H_
