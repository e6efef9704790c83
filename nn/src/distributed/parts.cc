#include "distributed/parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>

#include "refuse.h"

namespace heed::nn::distributed {

Parts::Parts(const char* name, Layout layout, std::vector<int64_t> lengths)
    : layout_(layout), lengths_(std::move(lengths)), total_(std::accumulate(lengths_.begin(), lengths_.end(), int64_t{0})) {
  if (layout != Layout::kZigzag) return;
  const bool equal = std::ranges::all_of(lengths_, [this](int64_t length) { return length == lengths_[0]; });
  if (!equal || lengths_[0] % 2 != 0) {
    Refuse(name, ": layout 'zigzag' cuts a sequence into ", 2 * lengths_.size(),
           " equal parts, two for every rank; expected as many tokens on every rank, an even number, got ",
           at::IntArrayRef(lengths_));
  }
}

Parts Parts::ZigzagOf(int64_t total, int64_t ranks) {
  if (total % (2 * ranks) != 0) {
    Refuse("x: expected a number of tokens that is a multiple of ", 2 * ranks, ", two parts a rank, got ", total);
  }
  return {"x", Layout::kZigzag, std::vector<int64_t>(static_cast<std::size_t>(ranks), total / ranks)};
}

std::vector<HeldPiece> Parts::HeldBy(int rank) const {
  std::vector<Piece> pieces;
  if (layout_ == Layout::kZigzag) {
    const int64_t half = length(rank) / 2, last = 2 * static_cast<int64_t>(ranks()) - 1;
    pieces = {{rank * half, (rank + 1) * half}, {(last - rank) * half, (last - rank + 1) * half}};
  } else {
    const int64_t start = std::accumulate(lengths_.begin(), lengths_.begin() + rank, int64_t{0});
    pieces = {{start, start + length(rank)}};
  }
  std::vector<HeldPiece> held;
  int64_t at = 0;
  for (const Piece piece : pieces) {
    if (piece.empty()) continue;
    held.push_back({piece, at});
    at += piece.length();
  }
  return held;
}

at::Tensor Parts::Of(const at::Tensor& whole, int64_t dim, int rank) const {
  const std::vector<HeldPiece> held = HeldBy(rank);
  if (held.empty()) return whole.narrow(dim, 0, 0);
  std::vector<at::Tensor> pieces;
  pieces.reserve(held.size());
  for (const HeldPiece& one : held) pieces.push_back(whole.narrow(dim, one.piece.start, one.piece.length()));
  return at::cat(pieces, dim);
}

}  // namespace heed::nn::distributed
