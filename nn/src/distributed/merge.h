// Softmax over keys that come in parts.
#ifndef HEED_NN_SRC_DISTRIBUTED_MERGE_H_
#define HEED_NN_SRC_DISTRIBUTED_MERGE_H_

#include <cstdint>

#include <ATen/ATen.h>

#include "distributed/piece.h"
#include "heed/nn/attention.h"

namespace heed::nn::distributed {

// What some queries get from some keys. A row's weights have the sum 2^(reference + rest).
struct Part {
  at::Tensor output;      // [B, H, n, Dv]
  at::Tensor lse;         // [B, H, n] as it was rounded, -inf for a row without keys
  at::Tensor reference;   // float64: lse as both passes take it, in powers of two, see ReferenceOf
  at::Tensor rest;        // float64: what the sum has beyond it
  at::Tensor correction;  // what the backward pass takes beside lse
  at::Tensor far;         // bool: rows so far from 0 that the correction was lost; undefined where there are none
  at::Tensor statistics;  // [3, B, H, n], or undefined
};

// A log-sum-exp of a block as the engine takes it in both passes. It is rounded, by as much as the scores are large: beside lse
// itself the weights of two blocks would miss each other by that.
at::Tensor ReferenceOf(const at::Tensor& lse);

// Computes a part. Operands have the accumulator's type.
Part PartOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, AttentionOptions options, bool statistics);

// The state of some queries, held in float64, so that it is rounded once.
class Merged {
 public:
  Merged(int64_t batch, int64_t heads, int64_t queries, int64_t value_dim, bool statistics);

  // Takes in what further keys give the queries `rows`. The order of calls decides about the last bits.
  void Add(Piece rows, const Part& part);

  // Behind all keys, where there are sinks [1, H, 1]: they count once, wherever the keys lie. Rows without a key stay as they
  // are.
  void AddSinks(const at::Tensor& sinks);

  at::Tensor Output(at::ScalarType type) const { return output_.to(type); }  // [B, H, n, Dv]
  at::Tensor Lse(at::ScalarType type) const;
  // The log-sum-exp of a part and the correction beside which it is the merged one, for the backward pass of parts that are not
  // far.
  at::Tensor Nearest(at::ScalarType type) const { return lse_.to(type); }
  at::Tensor Correction(at::ScalarType type) const { return (-rest_).exp2().to(type); }
  // bool [B, H, n]: rows that are far in some part. Undefined where there are none.
  const at::Tensor& Far() const { return far_; }
  at::Tensor Statistics(at::ScalarType type) const { return statistics_.to(type); }  // [3, B, H, n], where asked for

 private:
  void AddStatistics(Piece rows, const Part& part, const at::Tensor& before, const at::Tensor& added);

  at::Tensor output_, lse_, reference_, rest_, far_, statistics_;
};

// A part's share in the weights of its rows, float64 [B, H, n]: what its gradients are multiplied by. nearest, correction:
// of the same rows of the merged state.
at::Tensor ShareOf(const Part& part, const at::Tensor& nearest, const at::Tensor& correction);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_MERGE_H_
