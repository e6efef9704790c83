// Some tokens in a row.
#ifndef HEED_NN_SRC_DISTRIBUTED_PIECE_H_
#define HEED_NN_SRC_DISTRIBUTED_PIECE_H_

#include <algorithm>
#include <cstdint>

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

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_PIECE_H_
