#include "distributed/steps.h"

#include <utility>

#include <ATen/ATen.h>

namespace heed::nn::distributed {
namespace {

int64_t TokensOf(const std::vector<Piece>& pieces) {
  int64_t tokens = 0;
  for (const Piece piece : pieces) tokens += piece.length();
  return tokens;
}

at::Tensor EndToEnd(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  flat.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape(-1));
  return at::cat(flat);
}

// Room for tensors like those given with so many tokens, end to end, and the views of it.
struct Room {
  at::Tensor flat;
  std::vector<at::Tensor> tensors;
};
Room RoomFor(const std::vector<at::Tensor>& like, int64_t tokens, at::ScalarType type) {
  std::vector<int64_t> counts;
  int64_t all = 0;
  for (const at::Tensor& tensor : like) {
    counts.push_back(tensor.size(0) * tensor.size(1) * tokens * tensor.size(3));
    all += counts.back();
  }
  Room room{at::empty({all}, like[0].options().dtype(type)), {}};
  const std::vector<at::Tensor> parts = room.flat.split_with_sizes(counts);
  for (std::size_t t = 0; t < like.size(); ++t)
    room.tensors.push_back(parts[t].view({like[t].size(0), like[t].size(1), tokens, like[t].size(3)}));
  return room;
}

}  // namespace

at::Tensor HeldKeys::Of(std::size_t tensor, std::size_t piece, Piece columns) const {
  int64_t start = columns.start;
  for (std::size_t p = 0; p < piece; ++p) start += pieces[p].length();
  return tensors[tensor].narrow(2, start, columns.length());
}

std::vector<Piece> NeededKeys(const Call& call, int rank, int source) {
  std::vector<Piece> found;
  for (const HeldPiece& keys : call.keys.HeldBy(source)) {
    Piece part{keys.piece.start, keys.piece.start};
    for (const HeldPiece& queries : call.queries.HeldBy(rank)) part = part.Joined(call.whole.Needed(queries.piece, keys.piece));
    found.push_back(part);
  }
  return found;
}

int Steps::SourceAt(int step) const { return (call_->rank() - step + call_->exchange.ranks()) % call_->exchange.ranks(); }
int Steps::TakerAt(int step) const { return (call_->rank() + step) % call_->exchange.ranks(); }

// Of this rank's keys or values those that a rank needs; one piece after the other.
at::Tensor Steps::Local(const at::Tensor& tensor, int rank) const {
  const std::vector<Piece> needed = NeededKeys(*call_, rank, call_->rank());
  const std::vector<HeldPiece> held = call_->keys.HeldBy(call_->rank());
  std::vector<at::Tensor> parts;
  parts.reserve(held.size());
  for (std::size_t p = 0; p < held.size(); ++p)
    parts.push_back(tensor.narrow(2, held[p].at + needed[p].start - held[p].piece.start, needed[p].length()));
  if (parts.empty()) return tensor.narrow(2, 0, 0);
  return parts.size() == 1 ? parts[0] : at::cat(parts, 2);
}

Steps::Fetched Steps::Fetch(int step, const std::vector<at::Tensor>& given, const std::string& what) const {
  const int source = SourceAt(step), taker = TakerAt(step);
  HeldKeys held{NeededKeys(*call_, call_->rank(), source), {}};
  std::vector<at::Tensor> leaving;
  leaving.reserve(given.size());
  for (const at::Tensor& tensor : given) leaving.push_back(Local(tensor, taker));
  if (source == call_->rank()) {
    held.tensors = std::move(leaving);
    return {std::move(held), std::nullopt};
  }
  Room room = RoomFor(given, TokensOf(held.pieces), given[0].scalar_type());
  held.tensors = std::move(room.tensors);
  return {std::move(held), call_->exchange.Start({{taker, EndToEnd(leaving)}}, {{source, room.flat}}, what)};
}

void Steps::Travel(const std::vector<at::Tensor>& given, const std::string& what, const Step& step) const {
  const int count = call_->exchange.ranks();
  Fetched now = Fetch(0, given, what);
  for (int s = 0; s < count; ++s) {
    if (now.transfer) now.transfer->Wait();
    std::optional<Fetched> ahead;
    if (s + 1 < count) ahead = Fetch(s + 1, given, what + ", step " + std::to_string(s + 1));
    step(SourceAt(s), TakerAt(s), now.held);
    if (ahead) now = std::move(*ahead);
  }
}

std::vector<HeldBlock> Steps::Blocks(const HeldKeys& held) const {
  std::vector<HeldBlock> found;
  for (const HeldPiece& queries : call_->queries.HeldBy(call_->rank())) {
    for (std::size_t p = 0; p < held.pieces.size(); ++p) {
      for (const Block& block : call_->whole.Blocks(queries.piece, held.pieces[p])) {
        found.push_back({block, p, block.AllQueries().Moved(queries.at - queries.piece.start),
                         block.AllKeys().Moved(-held.pieces[p].start)});
      }
    }
  }
  return found;
}

Steps::WayHome Steps::Send(int source, int taker, const std::vector<at::Tensor>& found,
                           const std::vector<at::Tensor>& own) const {
  const at::ScalarType wide = AccumulatorType(own[0].scalar_type());
  Room room = RoomFor(own, TokensOf(NeededKeys(*call_, taker, call_->rank())), wide);
  Transfer transfer = call_->exchange.Start({{source, EndToEnd(found).to(wide)}}, {{taker, room.flat}},
                                            "whose gradients of keys and values it needs");
  return {taker, std::move(room.tensors), std::move(transfer)};
}

void Steps::Add(int taker, const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& totals) const {
  const std::vector<Piece> needed = NeededKeys(*call_, taker, call_->rank());
  const std::vector<HeldPiece> held = call_->keys.HeldBy(call_->rank());
  int64_t at = 0;
  for (std::size_t p = 0; p < held.size(); ++p) {
    const int64_t place = held[p].at + needed[p].start - held[p].piece.start, count = needed[p].length();
    for (std::size_t t = 0; t < totals.size(); ++t) totals[t].narrow(2, place, count).add_(found[t].narrow(2, at, count));
    at += count;
  }
}

}  // namespace heed::nn::distributed
