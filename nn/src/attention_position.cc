#include "heed/nn/attention_position.h"

#include "heed/error.h"

namespace heed::nn {

at::Tensor AttentionPosition::rotate_query(const at::Tensor&, const TokenPositions&) const {
  throw InvalidArgument("position: this scheme does not turn queries by themselves");
}

at::Tensor AttentionPosition::rotate_key(const at::Tensor&, const TokenPositions&) const {
  throw InvalidArgument("position: this scheme does not turn keys by themselves");
}

}  // namespace heed::nn
