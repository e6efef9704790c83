// Modules over many processes: each rank of a group computes some tokens of every sequence.
//
//   distributed::SequencePart part(group, tokens.size(1), {.layout = distributed::Layout::kZigzag});
//   at::Tensor Y = encoder->forward(embedding->forward(part.of(tokens, 1)));
//
// Y is then what one process computes of the whole tokens, at the tokens of this rank.
#ifndef HEED_NN_SEQUENCE_PART_H_
#define HEED_NN_SEQUENCE_PART_H_

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include "heed/nn/distributed.h"

namespace heed::nn::distributed {

// While it lives, the second dimension of what this thread hands to modules of nn is this rank's tokens of sequences whose
// other tokens lie on the ranks of the group: attention is distributed::attention, encodings of the input and dropout count
// tokens of the whole. Lengths (valid_lens) and positions that attention is given are those of the whole sequences; positions
// given to encodings of the input are those of X. Every rank calls the same modules in the same order, also one without tokens,
// and outside of it calls the backward pass of what it computed, which needs no SequencePart. Batch rows are the same on all
// ranks of the group; see FirstBatchRow for those of several groups.
//
// Gradients of parameters are then this rank's share, which whoever trains adds up over the ranks; those of schemes inside
// attention and of tensors among its options too, which distributed::attention would return whole.
//
// Multi-head attention, Transformer encoders, AttentionEncoder, DecomposableEncoder, PositionalEncoding, LearnedPositions,
// Dropout and all that looks at one token alone. Within it, encoders that convolve or recur and caches throw InvalidArgument.
// One at a time in a thread.
class SequencePart {
 public:
  // Sequences of `steps` tokens, in contiguous parts that differ by one token at most, or in a zigzag. Throws InvalidArgument
  // without a group, for a negative number of steps, for one that is no multiple of two parts a rank in a zigzag, and within
  // another.
  SequencePart(const c10::intrusive_ptr<c10d::ProcessGroup>& group, int64_t steps, Choice choice = {});
  ~SequencePart();
  SequencePart(const SequencePart&) = delete;
  SequencePart& operator=(const SequencePart&) = delete;

  // This rank's tokens of whole sequences that every rank has, along a dimension. Differentiable.
  at::Tensor of(const at::Tensor& whole, int64_t dim) const;
  // Which tokens of the whole they are, int64.
  at::Tensor tokens() const;

  struct State;

 private:
  std::unique_ptr<const State> state_;
};

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SEQUENCE_PART_H_
