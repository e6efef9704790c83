#include "distributed/dealt_heads.h"

#include <cstddef>

#include <ATen/ATen.h>

#include "distributed/shifted_program.h"

namespace heed::nn::distributed {
namespace {

// The dimension of the heads; -1 where there is none.
int HeadDimension(std::size_t member, const at::Tensor& tensor) {
  const auto is = [member](at::Tensor AttentionTensors::*tensor_of) {
    return AttentionTensors::kMembers[member].tensor == tensor_of;
  };
  if (is(&AttentionTensors::bias) || is(&AttentionTensors::mask) || is(&AttentionTensors::sinks)) return 1;
  if (is(&AttentionTensors::content_queries)) return tensor.dim() == 3 ? 0 : -1;
  const bool by_head = is(&AttentionTensors::relative_bias) || is(&AttentionTensors::slopes) ||
                       is(&AttentionTensors::transformer_xl_positions) || is(&AttentionTensors::transformer_xl_bias);
  return by_head ? 0 : -1;
}

}  // namespace

std::string DealtHeads::Refusal() const {
  if (q_heads % ranks != 0) return c10::str(q_heads, " query heads do not go into ", ranks, " ranks");
  const int64_t each = q_heads / ranks, group = Group();
  if (each != 0 && each % group != 0 && group % each != 0) {
    return c10::str(each, " query heads a rank, of which ", group, " share a key head, do not go with whole key heads");
  }
  return {};
}

Piece DealtHeads::Queries(int64_t rank) const {
  const int64_t each = q_heads / ranks;
  return {rank * each, (rank + 1) * each};
}

Piece DealtHeads::Keys(int64_t rank) const {
  const Piece own = Queries(rank);
  if (own.empty()) return {};
  return {own.start / Group(), (own.stop + Group() - 1) / Group()};
}

bool DealtHeads::Shared() const {
  int64_t read = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) read += Keys(rank).length();
  return read > kv_heads;
}

at::Tensor OfHeads(std::size_t member, const at::Tensor& tensor, Piece heads) {
  const int dim = HeadDimension(member, tensor);
  return dim >= 0 && tensor.size(dim) != 1 ? tensor.narrow(dim, heads.start, heads.length()) : tensor;
}

AttentionOptions OptionsOfHeads(const AttentionOptions& options, Piece heads) {
  AttentionOptions own = options;
  const auto all = own.tensors().All();
  for (std::size_t t = 0; t < all.size(); ++t)
    if (all[t]->defined()) *all[t] = OfHeads(t, *all[t], heads);
  ShiftPrograms({.head = heads.start}, own);
  if (own.dropout() != 0.0) own.first_head(own.first_head() + heads.start);
  return own;
}

}  // namespace heed::nn::distributed
