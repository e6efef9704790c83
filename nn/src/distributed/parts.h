// Which tokens of a sequence each rank holds.
#ifndef HEED_NN_SRC_DISTRIBUTED_PARTS_H_
#define HEED_NN_SRC_DISTRIBUTED_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "heed/nn/distributed.h"

namespace heed::nn::distributed {

// The tokens start .. stop - 1; none where stop does not lie behind start.
struct Piece {
  int64_t start = 0, stop = 0;

  int64_t length() const { return std::max<int64_t>(0, stop - start); }
  bool empty() const { return stop <= start; }
  // The tokens of both.
  Piece Within(Piece other) const { return {std::max(start, other.start), std::min(stop, other.stop)}; }
  // The same number of tokens, so many places further.
  Piece Moved(int64_t by) const { return {start + by, stop + by}; }
  // From the first to the last token of either.
  Piece Joined(Piece other) const {
    if (empty()) return other;
    return other.empty() ? *this : Piece{std::min(start, other.start), std::max(stop, other.stop)};
  }
  bool operator==(const Piece&) const = default;
};

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
