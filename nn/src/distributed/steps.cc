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

// Room for so many tokens with as many heads and columns as `like` has.
at::Tensor RoomFor(const at::Tensor& like, int64_t tokens) {
  return at::empty({like.size(0), like.size(1), tokens, like.size(3)}, like.options());
}

}  // namespace

at::Tensor HeldKeys::Of(std::size_t piece, Piece columns) const {
  int64_t start = columns.start;
  for (std::size_t p = 0; p < piece; ++p) start += pieces[p].length();
  return rows.narrow(2, start, columns.length());
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

Steps::Fetched Steps::Fetch(int step, const at::Tensor& given, const std::string& what) const {
  const int source = SourceAt(step), taker = TakerAt(step);
  HeldKeys held{NeededKeys(*call_, call_->rank(), source), {}};
  const at::Tensor leaving = Local(given, taker);
  if (source == call_->rank()) {
    held.rows = leaving;
    return {std::move(held), std::nullopt};
  }
  held.rows = RoomFor(given, TokensOf(held.pieces));
  return {held, call_->exchange.Start({{taker, leaving.contiguous()}}, {{source, held.rows}}, what)};
}

void Steps::Travel(const at::Tensor& given, const std::string& what, const Step& step) const {
  const int count = call_->exchange.ranks();
  Fetched now = Fetch(0, given, what);
  for (int s = 0; s < count; ++s) {
    if (now.transfer) call_->exchange.Wait(*now.transfer);
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

Steps::WayHome Steps::Send(int source, int taker, const at::Tensor& found) const {
  const at::Tensor room = RoomFor(found, TokensOf(NeededKeys(*call_, taker, call_->rank())));
  return {
      taker, room,
      call_->exchange.Start({{source, found.contiguous()}}, {{taker, room}}, "whose gradients of keys and values it needs")};
}

void Steps::Add(int taker, const at::Tensor& found, const at::Tensor& totals) const {
  const std::vector<Piece> needed = NeededKeys(*call_, taker, call_->rank());
  const std::vector<HeldPiece> held = call_->keys.HeldBy(call_->rank());
  int64_t at = 0;
  for (std::size_t p = 0; p < held.size(); ++p) {
    const int64_t place = held[p].at + needed[p].start - held[p].piece.start, count = needed[p].length();
    totals.narrow(2, place, count).add_(found.narrow(2, at, count));
    at += count;
  }
}

}  // namespace heed::nn::distributed
