#include "distributed/block_call.h"

#include <cstddef>

#include <ATen/ATen.h>

namespace heed::nn::distributed {

ForwardResult ForwardOfBlock(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, AttentionOptions options,
                             Kept kept) {
  options.tensors() = Resolved(options.tensors(), query);
  return AttentionForward(query, key, value, options, kept);
}

Operands BackwardOfBlock(const at::Tensor& d_output, const at::Tensor& d_lse, const SavedCall& saved, AttentionOptions options,
                         const Wanted& wanted) {
  Operands given{saved.query, saved.key, saved.value, options.tensors()};
  options.tensors() = Resolved(options.tensors(), saved.query);
  Operands d = AttentionBackward({d_output, d_lse, {}}, saved, options, wanted);
  for (std::size_t t = 0; t < Operands::kCount; ++t) {
    at::Tensor& gradient = *d.All()[t];
    if (gradient.defined()) gradient = gradient.sum_to_size(given.All()[t]->sizes());
  }
  return d;
}

}  // namespace heed::nn::distributed
