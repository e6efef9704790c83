#include "distributed/redistribution.h"

#include <cstddef>
#include <utility>

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

namespace heed::nn::distributed {

std::vector<at::Tensor> Redistribution::Gather(const std::vector<Side>& sides, const std::vector<at::Tensor>& parts,
                                               const std::string& what) const {
  const int ranks = call_->exchange.ranks(), self = call_->rank();
  std::vector<OfRank> sent(static_cast<std::size_t>(ranks));
  std::vector<std::vector<Shape>> shapes(sent.size());
  std::vector<at::Tensor> wholes;
  for (std::size_t t = 0; t < parts.size(); ++t) {
    const Piece own = HeadsOf(sides[t], self);
    const int64_t batch = parts[t].size(0), width = parts[t].size(3);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const Piece theirs = HeadsOf(sides[t], rank);
      sent[r].push_back(parts[t].narrow(1, theirs.start, theirs.length()));
      shapes[r].push_back({batch, own.length(), PartsOf(sides[t]).length(rank), width});
    }
    wholes.push_back(at::empty({batch, own.length(), PartsOf(sides[t]).total(), width}, parts[t].options()));
  }
  const std::vector<OfRank> arrived = Swapped(std::move(sent), shapes, what);
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t t = 0; t < wholes.size(); ++t) {
      const at::Tensor& part = arrived[static_cast<std::size_t>(rank)][t];
      for (const auto& [piece, at] : PartsOf(sides[t]).HeldBy(rank))
        wholes[t].narrow(2, piece.start, piece.length()).copy_(part.narrow(2, at, piece.length()));
    }
  }
  return wholes;
}

std::vector<at::Tensor> Redistribution::Scatter(Side side, const std::vector<at::Tensor>& wholes,
                                                const std::string& what) const {
  const int ranks = call_->exchange.ranks();
  const int64_t tokens = PartsOf(side).length(call_->rank());
  const int64_t all_heads = side == Side::kQuery ? call_->heads.q_heads : call_->heads.kv_heads;
  std::vector<OfRank> sent(static_cast<std::size_t>(ranks));
  std::vector<std::vector<Shape>> shapes(sent.size());
  std::vector<at::Tensor> totals;
  for (const at::Tensor& whole : wholes) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      sent[r].push_back(PartsOf(side).Of(whole, 2, rank));
      shapes[r].push_back({whole.size(0), HeadsOf(side, rank).length(), tokens, whole.size(3)});
    }
    totals.push_back(at::zeros({whole.size(0), all_heads, tokens, whole.size(3)}, at::kDouble));
  }
  const std::vector<OfRank> arrived = Swapped(std::move(sent), shapes, what);
  for (int rank = 0; rank < ranks; ++rank) {
    const Piece theirs = HeadsOf(side, rank);
    for (std::size_t t = 0; t < totals.size(); ++t)
      totals[t].narrow(1, theirs.start, theirs.length()).add_(arrived[static_cast<std::size_t>(rank)][t]);
  }
  return totals;
}

std::vector<Redistribution::OfRank> Redistribution::Swapped(std::vector<OfRank> sent,
                                                            const std::vector<std::vector<Shape>>& shapes,
                                                            const std::string& what) const {
  ByPeer leaving, arriving;
  for (const int peer : call_->exchange.Others()) {
    const auto p = static_cast<std::size_t>(peer);
    std::vector<at::Tensor> flat;
    flat.reserve(sent[p].size());
    int64_t count = 0;
    for (const at::Tensor& tensor : sent[p]) flat.push_back(tensor.reshape(-1));
    for (const Shape& shape : shapes[p]) count += c10::multiply_integers(shape);
    leaving.emplace_back(peer, at::cat(flat));
    arriving.emplace_back(peer, at::empty({count}, sent[p][0].options()));
  }
  call_->exchange.Swap(leaving, arriving, what);
  for (const auto& [peer, flat] : arriving) {
    const auto p = static_cast<std::size_t>(peer);
    int64_t start = 0;
    for (std::size_t t = 0; t < shapes[p].size(); ++t) {
      const int64_t count = c10::multiply_integers(shapes[p][t]);
      sent[p][t] = flat.narrow(0, start, count).view(shapes[p][t]);
      start += count;
    }
  }
  return sent;
}

}  // namespace heed::nn::distributed
