// What a scheme adds to the options of a call, and where the call's tokens stand.
#ifndef HEED_NN_SRC_TOKEN_POSITIONS_H_
#define HEED_NN_SRC_TOKEN_POSITIONS_H_

#include <cstdint>
#include <string>

#include "heed/nn/attention.h"
#include "heed/nn/attention_position.h"

namespace heed::nn {

// The options with the scheme's tensors, program and scale. Throws InvalidArgument where the call brings its own tensors for
// the same, and for a scheme of another number of heads than query has.
AttentionOptions WithScheme(const AttentionPosition& scheme, AttentionOptions options, const at::Tensor& query);

struct CallPositions {
  TokenPositions queries, keys;
};

// Where tokens stand on the axes of a scheme, [B or 1, N, axes]; undefined where a call does not say so.
struct AxesPositions {
  at::Tensor queries, keys;
};

// Takes lists of three dimensions out of the options, as a caller gave them. Throws InvalidArgument where their scheme has not
// as many axes, and where the options ask for an order that positions on axes do not have.
AxesPositions TakeAxes(AttentionOptions& options);

// Of a call with q_len queries and kv_len keys, as the options list, offset, align or pack them. The options' tensors are
// resolved. Throws InvalidArgument where packed sequences or their lists do not fit the tokens.
CallPositions PositionsOf(const AttentionOptions& options, int64_t q_len, int64_t kv_len, const AxesPositions& on_axes = {});

// A list, dense. Throws InvalidArgument, beginning with the name, unless it is int64 or float64.
at::Tensor DensePositions(const std::string& name, const at::Tensor& positions);

// The length of a text whose positions these are: the largest + 1, whole; at least 0. Throws InvalidArgument.
int64_t LengthOf(const at::Tensor& positions);

// Throws InvalidArgument, beginning with `who`, unless a list has a position for each of `steps` tokens, [steps] or [1 or
// batch, steps], and requires no gradient.
void CheckList(const char* who, const char* name, const at::Tensor& list, int64_t batch, int64_t steps);

// Lists in the options the places that a scheme has tokens count by.
void PlaceTokens(const AttentionPosition& scheme, const AxesPositions& on_axes, int64_t q_len, int64_t kv_len,
                 AttentionOptions& options);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_TOKEN_POSITIONS_H_
