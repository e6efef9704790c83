// Which tokens of a sequence each rank holds.
#ifndef HEED_NN_SRC_DISTRIBUTED_PARTS_H_
#define HEED_NN_SRC_DISTRIBUTED_PARTS_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distributed/piece.h"
#include "heed/nn/distributed.h"

namespace heed::nn::distributed {

// A piece, and its place among the tokens of the rank that holds it.
struct HeldPiece {
  Piece piece;
  int64_t at = 0;
};

class Parts {
 public:
  // lengths: tokens of each rank. Throws InvalidArgument, naming what is cut, for lengths that are none of a zigzag.
  Parts(const char* name, Layout layout, std::vector<int64_t> lengths);

  // The zigzag parts of a sequence. Throws InvalidArgument for one that does not go into two equal parts a rank.
  static Parts ZigzagOf(int64_t total, int64_t ranks);

  const std::vector<int64_t>& lengths() const { return lengths_; }
  int ranks() const { return static_cast<int>(lengths_.size()); }
  int64_t length(int rank) const { return lengths_[static_cast<std::size_t>(rank)]; }
  int64_t total() const { return total_; }

  // What a rank holds, in the order in which it lies there; pieces without tokens are left out.
  std::vector<HeldPiece> HeldBy(int rank) const;

  // A rank's part of a whole sequence along a dimension. Differentiable.
  at::Tensor Of(const at::Tensor& whole, int64_t dim, int rank) const;

 private:
  Layout layout_;
  std::vector<int64_t> lengths_;
  int64_t total_;
};

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_PARTS_H_
