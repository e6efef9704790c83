#include "heed/nn/attention_position.h"

#include "heed/error.h"

namespace heed::nn {

std::pair<at::Tensor, at::Tensor> AttentionPosition::rotate(const at::Tensor& query, const at::Tensor& key,
                                                            const TokenPositions& query_positions,
                                                            const TokenPositions& key_positions) const {
  if (!turns_once()) return {query, key};
  return {rotate_query(query, query_positions), rotate_key(key, key_positions)};
}

at::Tensor AttentionPosition::rotate_query(const at::Tensor&, const TokenPositions&) const {
  throw InvalidArgument("position: this scheme does not turn queries by themselves");
}

at::Tensor AttentionPosition::rotate_key(const at::Tensor&, const TokenPositions&) const {
  throw InvalidArgument("position: this scheme does not turn keys by themselves");
}

}  // namespace heed::nn
