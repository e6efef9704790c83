#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "distributed/agreement.h"
#include "distributed/parts.h"
#include "distributed/prepared_call.h"
#include "operator_node.h"
#include "refuse.h"
#include "tensor_view.h"
#include "version.h"

namespace heed::nn::distributed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Move {
  Exchange exchange;
  Parts before, after;
  int64_t dim;
};
using SharedMove = std::shared_ptr<const Move>;

// Tokens that go from one rank to another: how many, where they lie there, and where they come to lie.
struct Moving {
  int64_t from, to, count;
};

std::vector<Moving> Common(const Parts& before, int giver, const Parts& after, int taker) {
  std::vector<Moving> found;
  for (const HeldPiece& held : before.HeldBy(giver)) {
    for (const HeldPiece& wanted : after.HeldBy(taker)) {
      const Piece piece = held.piece.Within(wanted.piece);
      if (piece.empty()) continue;
      found.push_back({held.at + piece.start - held.piece.start, wanted.at + piece.start - wanted.piece.start, piece.length()});
    }
  }
  return found;
}

// [tokens of this rank before, ...] -> [tokens of this rank after, ...]
at::Tensor Redistributed(const Move& move, const at::Tensor& x) {
  const auto& [exchange, before, after, dim] = move;
  const int self = exchange.rank();
  const auto room = [&](int64_t tokens) {
    std::vector<int64_t> shape = x.sizes().vec();
    shape[0] = tokens;
    return at::empty(shape, x.options());
  };
  std::vector<at::Tensor> leaving, rooms;
  for (int peer = 0; peer < exchange.ranks(); ++peer) {
    std::vector<at::Tensor> taken{x.narrow(0, 0, 0)};
    int64_t tokens = 0;
    for (const Moving& of : Common(before, self, after, peer)) taken.push_back(x.narrow(0, of.from, of.count));
    for (const Moving& of : Common(before, peer, after, self)) tokens += of.count;
    leaving.push_back(at::cat(taken).contiguous());
    rooms.push_back(room(tokens));
  }
  const std::vector<at::Tensor> arrived = exchange.Swap(leaving, std::move(rooms), "whose tokens it takes");
  at::Tensor result = room(after.length(self));
  for (int peer = 0; peer < exchange.ranks(); ++peer) {
    int64_t at = 0;
    for (const Moving& of : Common(before, peer, after, self)) {
      result.narrow(0, of.to, of.count).copy_(arrived[peer].narrow(0, at, of.count));
      at += of.count;
    }
  }
  return result;
}

struct MoveFunction : Function<MoveFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const SharedMove& move) {
    ctx->saved_data["move"] = Held(move);
    return Redistributed(*move, x.movedim(move->dim, 0)).movedim(0, move->dim);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_moved) {
    const SharedMove move = HeldIn<Move>(ctx->saved_data["move"]);
    const auto back = std::make_shared<const Move>(Move{move->exchange, move->after, move->before, move->dim});
    return {MoveFunction::apply(d_moved[0], back), at::Tensor()};
  }
};

}  // namespace

at::Tensor Moved(const Exchange& exchange, const at::Tensor& given, int64_t dim, Layout to) {
  at::Tensor x;
  const std::vector<Terms> agreed = AgreeOn(exchange, [&]() -> Statement {
    x = Dense("x", given);
    if (dim < -x.dim() || dim >= x.dim()) Refuse("dim: expected a dimension of x, of shape ", x.sizes(), ", got ", dim);
    dim = dim < 0 ? dim + x.dim() : dim;
    Statement own{Terms{{x.size(dim), 0, 0}}, Introduction(exchange, Version())};
    own.facts.insert(own.facts.end(), {{"dim", std::to_string(dim)}, {"x", DescribedPart(x, dim)}});
    return own;
  });
  std::vector<int64_t> lengths;
  int64_t total = 0;
  for (const Terms& terms : agreed) {
    lengths.push_back(terms.lengths[0]);
    total += terms.lengths[0];
  }
  const bool zigzag = to == Layout::kZigzag;
  Parts before("x", zigzag ? Layout::kContiguous : Layout::kZigzag, lengths);
  Parts after = zigzag ? Parts::ZigzagOf(total, exchange.ranks()) : Parts("x", Layout::kContiguous, lengths);
  return MoveFunction::apply(x, std::make_shared<const Move>(Move{exchange, std::move(before), std::move(after), dim}));
}

at::Tensor zigzag(const at::Tensor& x, int64_t dim, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  return Moved(Exchange("heed::nn::distributed::zigzag", group), x, dim, Layout::kZigzag);
}

at::Tensor unzigzag(const at::Tensor& x, int64_t dim, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  return Moved(Exchange("heed::nn::distributed::unzigzag", group), x, dim, Layout::kContiguous);
}

at::Tensor zigzag_part(const at::Tensor& x, int64_t dim, int64_t rank, int64_t ranks) {
  if (rank < 0 || rank >= ranks) Refuse("rank: expected a number in 0..", ranks - 1, ", got ", rank);
  return Parts::ZigzagOf(x.size(dim), ranks).Of(x, dim, static_cast<int>(rank));
}

}  // namespace heed::nn::distributed
