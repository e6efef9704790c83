// Modules over many processes: each rank of a group computes some tokens of every sequence.
//
//   distributed::SequencePart part(group, tokens.size(1), {.layout = distributed::Layout::kZigzag});
//   at::Tensor Y = encoder->forward(embedding->forward(part.of(tokens, 1)));
//
// Y is then the part of one process's result that belongs to this rank's tokens.
#ifndef HEED_NN_SEQUENCE_PART_H_
#define HEED_NN_SEQUENCE_PART_H_

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include "heed/nn/distributed.h"

namespace heed::nn::distributed {

// While it lives, the second dimension of the inputs that this thread gives to modules of nn is this rank's tokens of sequences
// spread over the ranks of the group. Attention becomes distributed::attention; encodings of the input and dropout count tokens
// of the whole. Give attention the lengths (valid_lens) and positions of the whole sequences, encodings of the input the
// positions of X. Call the same modules in the same order on every rank, also on one without tokens. Call the backward pass on
// every rank too; it needs no SequencePart. Batch rows are the same on all ranks of the group; see FirstBatchRow for several
// groups.
//
// Gradients of parameters, of schemes inside attention and of tensors among its options are then this rank's share: add them up
// over the ranks. (distributed::attention alone returns the latter whole.)
//
// It works with multi-head attention, Transformer encoders, AttentionEncoder, DecomposableEncoder, PositionalEncoding,
// LearnedPositions, Dropout and all modules that read one token at a time. Encoders that convolve or recur, and caches, throw
// InvalidArgument. A thread may have one at a time.
class SequencePart {
 public:
  // Sequences of `steps` tokens, in contiguous parts that differ by one token at most, or in a zigzag. Throws InvalidArgument
  // without a group, for negative steps, for a zigzag of steps that are no multiple of twice the ranks, and inside another
  // SequencePart.
  SequencePart(const c10::intrusive_ptr<c10d::ProcessGroup>& group, int64_t steps, Choice choice = {});
  ~SequencePart();
  SequencePart(const SequencePart&) = delete;
  SequencePart& operator=(const SequencePart&) = delete;

  // This rank's tokens of whole sequences that every rank holds, along a dimension. Differentiable.
  at::Tensor of(const at::Tensor& whole, int64_t dim) const;
  // Indices of this rank's tokens in the whole, int64.
  at::Tensor tokens() const;

  struct State;

 private:
  std::unique_ptr<const State> state_;
};

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SEQUENCE_PART_H_
