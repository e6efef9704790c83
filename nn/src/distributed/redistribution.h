// Arrays between parts of the sequence with all heads and the whole sequence with some.
#ifndef HEED_NN_SRC_DISTRIBUTED_REDISTRIBUTION_H_
#define HEED_NN_SRC_DISTRIBUTED_REDISTRIBUTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distributed/call.h"

namespace heed::nn::distributed {

// Whose tokens and heads an array has.
enum class Side : uint8_t { kQuery, kKey };

class Redistribution {
 public:
  explicit Redistribution(const Call& call) : call_(&call) {}

  // [B, all heads, own tokens, width] -> [B, own heads, all tokens, width]
  std::vector<at::Tensor> Gather(const std::vector<Side>& sides, const std::vector<at::Tensor>& parts,
                                 const std::string& what) const;
  // [B, own heads, all tokens, width] -> [B, all heads, own tokens, width] in float64, sums where ranks share a head.
  std::vector<at::Tensor> Scatter(Side side, const std::vector<at::Tensor>& wholes, const std::string& what) const;

 private:
  using Shape = std::vector<int64_t>;
  using OfRank = std::vector<at::Tensor>;
  const Parts& PartsOf(Side side) const { return side == Side::kQuery ? call_->queries : call_->keys; }
  Piece HeadsOf(Side side, int rank) const {
    return side == Side::kQuery ? call_->heads.Queries(rank) : call_->heads.Keys(rank);
  }
  // What every rank sent to this one, by rank; shapes likewise.
  std::vector<OfRank> Swapped(std::vector<OfRank> sent, const std::vector<std::vector<Shape>>& shapes,
                              const std::string& what) const;

  const Call* call_;
};

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_REDISTRIBUTION_H_
