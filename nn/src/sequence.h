// What modules ask about the sequence whose tokens they are given: the whole of it, unless they are within a SequencePart.
#ifndef HEED_NN_SRC_SEQUENCE_H_
#define HEED_NN_SRC_SEQUENCE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "heed/nn/attention.h"

namespace heed::nn {

// heed::nn::attention, within a SequencePart over the ranks.
AttentionOutput AttentionOverSequence(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const AttentionOptions& options);

// Tokens of the sequence that a call has `steps` tokens of.
int64_t StepsOfSequence(int64_t steps);

// Which tokens of the sequence a call's are, int64 [steps].
at::Tensor TokensOfSequence(int64_t steps, const at::TensorOptions& options);

// Rows of a table, one for each of a call's tokens: rows(first, count) gives those of tokens that follow each other.
at::Tensor RowsOfSequence(int64_t steps, const std::function<at::Tensor(int64_t first, int64_t count)>& rows);

// Elements of a contiguous X [batch, steps, ...] that follow each other in it and in the array that it is a part of, by tokens
// and, with FirstBatchRow, by rows: where they begin in both, and how many they are.
struct Run {
  int64_t here, whole, count;
};
std::vector<Run> RunsOfWhole(const at::Tensor& X);

// Throws InvalidArgument within a SequencePart: `who` cannot be computed there, and why.
void RefuseSequencePart(const char* who, const char* why);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_SEQUENCE_H_
