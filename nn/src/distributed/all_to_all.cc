// Each rank computes some heads of the whole sequence: tokens go to where their heads are, and results come back.
#include <cstddef>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "distributed/call.h"

namespace heed::nn::distributed {
namespace {

using torch::autograd::variable_list;

// The numbers of query, key and value among the operands.
constexpr std::size_t kOfQuery = 0, kOfKey = 1, kOfValue = 2;

// Which tokens each rank has, of queries or of keys and values, and which heads it computes.
struct Side {
  const Exchange& exchange;
  const Parts& parts;
  int64_t all_heads;
  std::vector<Piece> heads;

  int self() const { return exchange.rank(); }
};
Side SideOf(const Call& call, bool queries) {
  Side side{call.exchange, queries ? call.queries : call.keys, queries ? call.heads.q_heads : call.heads.kv_heads, {}};
  for (int rank = 0; rank < call.exchange.ranks(); ++rank)
    side.heads.push_back(queries ? call.heads.Queries(rank) : call.heads.Keys(rank));
  return side;
}

// [B, all heads, own tokens, width] -> [B, own heads, all tokens, width]
at::Tensor Gather(const Side& side, const at::Tensor& part, const char* what) {
  const auto room = [&](int64_t tokens) {
    return at::empty({part.size(0), side.heads[side.self()].length(), tokens, part.size(3)}, part.options());
  };
  std::vector<at::Tensor> leaving, rooms;
  for (const Piece theirs : side.heads) leaving.push_back(part.narrow(1, theirs.start, theirs.length()).contiguous());
  for (const int64_t tokens : side.parts.lengths()) rooms.push_back(room(tokens));
  const std::vector<at::Tensor> arrived = side.exchange.Swap(leaving, std::move(rooms), what);
  at::Tensor whole = room(side.parts.total());
  for (int rank = 0; rank < side.exchange.ranks(); ++rank)
    for (const auto& [piece, at] : side.parts.HeldBy(rank))
      whole.narrow(2, piece.start, piece.length()).copy_(arrived[rank].narrow(2, at, piece.length()));
  return whole;
}

// [B, own heads, all tokens, width] -> [B, all heads, own tokens, width] in float64, sums where ranks share a head.
at::Tensor Scatter(const Side& side, const at::Tensor& whole, const char* what) {
  const auto room = [&](int64_t heads, at::ScalarType type) {
    return at::zeros({whole.size(0), heads, side.parts.length(side.self()), whole.size(3)}, type);
  };
  std::vector<at::Tensor> leaving, rooms;
  for (int rank = 0; rank < side.exchange.ranks(); ++rank) {
    leaving.push_back(side.parts.Of(whole, 2, rank).contiguous());
    rooms.push_back(room(side.heads[rank].length(), whole.scalar_type()));
  }
  const std::vector<at::Tensor> arrived = side.exchange.Swap(leaving, std::move(rooms), what);
  at::Tensor total = room(side.all_heads, at::kDouble);
  for (int rank = 0; rank < side.exchange.ranks(); ++rank)
    total.narrow(1, side.heads[rank].start, side.heads[rank].length()).add_(arrived[rank]);
  return total;
}

// What ranks found of some operands goes to where the tokens are. What several ranks add up is rounded once, here.
void ScatterGradients(const Side& side, const std::vector<std::size_t>& operands, bool wide, Operands& found, Gradients& d) {
  std::vector<at::Tensor> gradients;
  std::vector<int64_t> widths;
  for (const std::size_t t : operands) {
    const at::Tensor& gradient = *found.All()[t];
    gradients.push_back(wide ? gradient.to(AccumulatorType(gradient.scalar_type())) : gradient);
    widths.push_back(gradient.size(3));
  }
  if (gradients.empty()) return;
  const std::vector<at::Tensor> sums =
      Scatter(side, at::cat(gradients, 3), "whose gradients it needs").split_with_sizes(widths, 3);
  for (std::size_t n = 0; n < operands.size(); ++n) d[operands[n]] = sums[n].to(found.All()[operands[n]]->scalar_type());
}

}  // namespace

AttentionOutput AllToAllForward(const Call& call, const Operands& operands, variable_list& saved) {
  const at::ScalarType own = operands.query.scalar_type(), wide = AccumulatorType(own);
  const Side queries = SideOf(call, /*queries=*/true);
  const at::Tensor query = Gather(queries, operands.query, "whose queries it needs"),
                   both = Gather(SideOf(call, /*queries=*/false), at::cat({operands.key, operands.value}, 3),
                                 "whose keys and values it needs");
  const at::Tensor key = both.narrow(3, 0, operands.key.size(3)),
                   value = both.narrow(3, operands.key.size(3), operands.value.size(3));
  AttentionOptions options = OptionsOfHeads(call.whole.options(), call.heads.Queries(call.rank()));
  options.return_statistics(call.statistics);
  const ForwardResult result = ResultsOf(query, key, value, options, call.needs_gradient ? Kept::kExact : Kept::kLse);
  std::vector<at::Tensor> rows{result.lse};
  if (call.statistics) rows.insert(rows.end(), {result.statistics[0], result.statistics[1], result.statistics[2]});
  const at::Tensor output = Scatter(queries, result.output, "whose results it needs");
  const at::Tensor figures = Scatter(queries, at::stack(rows, -1), "whose log-sum-exps it needs");
  // Of query, key and value the whole sequence of some heads.
  saved = {query, key, value, result.output, result.lse, result.remainder, result.correction};
  return {output.to(own),
          figures.select(-1, 0).to(wide).contiguous(),
          {},
          call.statistics ? figures.narrow(-1, 1, 3).movedim(-1, 0).to(wide) : at::Tensor()};
}

Gradients AllToAllBackward(const Call& call, const variable_list& d_results, const variable_list& all_saved,
                           const Operands& operands) {
  const SavedCall saved{all_saved[0], all_saved[1], all_saved[2], all_saved[3], all_saved[4], all_saved[5], all_saved[6]};
  const Side queries = SideOf(call, /*queries=*/true);
  // A rank may have no gradients where others have some.
  const auto gather = [&](const at::Tensor& gradient, const at::Tensor& of, const char* what) {
    const int64_t tokens = queries.parts.length(call.rank()), width = of.size(-1);
    return Gather(
        queries, gradient.defined() ? gradient : at::zeros({of.size(0), queries.all_heads, tokens, width}, of.options()), what);
  };
  const at::Tensor d_output = gather(d_results[0], saved.output, "whose gradients of results it needs");
  at::Tensor d_lse;
  if (call.returns_lse)
    d_lse = gather(d_results[1].defined() ? d_results[1].unsqueeze(-1) : at::Tensor(), saved.lse.unsqueeze(-1),
                   "whose gradients of log-sum-exps it needs")
                .squeeze(-1);
  const Piece own = call.heads.Queries(call.rank());
  Operands found = GradientsOf({d_output, d_lse}, saved, OptionsOfHeads(call.whole.options(), own), call.needs);
  Gradients d;
  std::vector<std::size_t> of_keys;
  for (const std::size_t t : {kOfKey, kOfValue})
    if (call.needs[t]) of_keys.push_back(t);
  if (call.needs[kOfQuery]) ScatterGradients(queries, {kOfQuery}, /*wide=*/false, found, d);
  ScatterGradients(SideOf(call, /*queries=*/false), of_keys, call.heads.Shared(), found, d);
  Operands tables = operands;
  AddTableSums(call, tables, d);
  for (std::size_t t = Operands::kOwnNames.size(); t < Operands::kCount; ++t)
    if (d[t].defined()) OfHeads(t - Operands::kOwnNames.size(), d[t], own).add_(*found.All()[t]);
  SumTables(call, tables, d);
  return d;
}

}  // namespace heed::nn::distributed
