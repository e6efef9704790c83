// Each rank computes some heads of the whole sequence: tokens go to where their heads are, and results come back.
#include <cstddef>
#include <vector>

#include <ATen/ATen.h>

#include "distributed/block_call.h"
#include "distributed/call.h"
#include "distributed/dealt_heads.h"
#include "distributed/redistribution.h"

namespace heed::nn::distributed {
namespace {

using torch::autograd::variable_list;

// The numbers of query, key and value among the operands.
constexpr std::size_t kOfQuery = 0, kOfKey = 1, kOfValue = 2;

struct Arrived {
  at::Tensor d_output, d_lse;
};

// The gradients of output and, where the caller has it, log-sum-exp. A rank may have none where others have some.
Arrived GatherGradients(const Call& call, const Redistribution& between, const SavedCall& saved, at::Tensor d_output,
                        at::Tensor d_lse) {
  const int64_t batch = saved.output.size(0), q_heads = call.heads.q_heads, own = call.queries.length(call.rank());
  if (!d_output.defined()) d_output = at::zeros({batch, q_heads, own, saved.output.size(3)}, saved.output.options());
  Arrived arrived;
  arrived.d_output = between.Gather({Side::kQuery}, {d_output}, "whose gradients of results it needs")[0];
  if (!call.returns_lse) return arrived;
  if (!d_lse.defined()) d_lse = at::zeros({batch, q_heads, own}, saved.lse.options());
  arrived.d_lse =
      between.Gather({Side::kQuery}, {d_lse.unsqueeze(-1)}, "whose gradients of log-sum-exps it needs")[0].squeeze(-1);
  return arrived;
}

// What ranks found goes to where the tokens are. What several ranks add up is rounded once, here.
void ScatterGradients(const Call& call, const Redistribution& between, Operands& found, Gradients& d) {
  const auto scatter = [&](Side side, const std::vector<std::size_t>& operands, bool wide) {
    std::vector<at::Tensor> wanted;
    for (const std::size_t t : operands) {
      if (!call.needs[t]) continue;
      const at::Tensor& gradient = *found.All()[t];
      wanted.push_back(wide ? gradient.to(AccumulatorType(gradient.scalar_type())) : gradient);
    }
    if (wanted.empty()) return;
    const std::vector<at::Tensor> sums = between.Scatter(side, wanted, "whose gradients it needs");
    auto sum = sums.begin();
    for (const std::size_t t : operands)
      if (call.needs[t]) d[t] = (sum++)->to(found.All()[t]->scalar_type());
  };
  scatter(Side::kQuery, {kOfQuery}, /*wide=*/false);
  scatter(Side::kKey, {kOfKey, kOfValue}, call.heads.Shared());
}

}  // namespace

AttentionOutput AllToAllForward(const Call& call, const Operands& operands, variable_list& saved) {
  const at::ScalarType own = operands.query.scalar_type(), wide = AccumulatorType(own);
  const Redistribution between(call);
  const std::vector<at::Tensor> wholes =
      between.Gather({Side::kQuery, Side::kKey, Side::kKey}, {operands.query, operands.key, operands.value},
                     "whose queries, keys and values it needs");
  AttentionOptions options = OptionsOfHeads(call.whole.options(), call.heads.Queries(call.rank()));
  options.return_statistics(call.statistics);
  const ForwardResult result =
      ForwardOfBlock(wholes[0], wholes[1], wholes[2], options, call.needs_gradient ? Kept::kExact : Kept::kLse);
  std::vector<at::Tensor> rows{result.lse};
  if (call.statistics) rows.insert(rows.end(), {result.statistics[0], result.statistics[1], result.statistics[2]});
  const at::Tensor output = between.Scatter(Side::kQuery, {result.output}, "whose results it needs")[0];
  const at::Tensor figures = between.Scatter(Side::kQuery, {at::stack(rows, -1)}, "whose log-sum-exps it needs")[0];
  // Of query, key and value the whole sequence of some heads.
  saved = {wholes[0], wholes[1], wholes[2], result.output, result.lse, result.remainder, result.correction};
  return {output.to(own),
          figures.select(-1, 0).to(wide).contiguous(),
          {},
          call.statistics ? figures.narrow(-1, 1, 3).movedim(-1, 0).to(wide) : at::Tensor()};
}

Gradients AllToAllBackward(const Call& call, const variable_list& d_results, const variable_list& all_saved,
                           const Operands& operands) {
  const SavedCall saved{
      all_saved[0], all_saved[1], all_saved[2], all_saved[3], all_saved[4], all_saved[5], all_saved[6], {}, {}};
  const Redistribution between(call);
  const Piece own = call.heads.Queries(call.rank());
  const Arrived arrived = GatherGradients(call, between, saved, d_results[0], d_results[1]);
  Operands found =
      BackwardOfBlock(arrived.d_output, arrived.d_lse, saved, OptionsOfHeads(call.whole.options(), own), call.needs);
  Gradients d;
  ScatterGradients(call, between, found, d);
  Operands tables = operands;
  AddTableSums(call, tables, d);
  for (std::size_t t = Operands::kOwnNames.size(); t < Operands::kCount; ++t)
    if (d[t].defined()) OfHeads(t - Operands::kOwnNames.size(), d[t], own).add_(*found.All()[t]);
  SumTables(call, tables, d);
  return d;
}

}  // namespace heed::nn::distributed
