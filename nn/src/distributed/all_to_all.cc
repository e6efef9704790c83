// Each rank computes some heads of the whole sequence: tokens go to where their heads are, and results come back.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "distributed/block_call.h"
#include "distributed/call.h"
#include "distributed/dealt_heads.h"
#include "distributed/redistribution.h"

namespace heed::nn::distributed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

DealtHeads HeadsOf(const Call& call, int64_t q_heads, int64_t kv_heads) { return {q_heads, kv_heads, call.exchange.ranks()}; }

// The numbers of query, key and value among the operands.
constexpr std::size_t kOfQuery = 0, kOfKey = 1, kOfValue = 2, kOperands = 3;

// What the forward pass leaves: the whole sequence, of the heads of this rank.
constexpr std::size_t kSaved = 7;
SavedCall SavedFrom(at::TensorList saved) {
  const auto present = [](const at::Tensor& tensor) { return tensor.numel() > 0 || tensor.dim() > 1 ? tensor : at::Tensor(); };
  return {saved[0], saved[1], saved[2], saved[3], saved[4], present(saved[5]), present(saved[6]), {}, {}};
}

struct Arrived {
  at::Tensor d_output, d_lse;
};

// The gradients of output and, where the caller has it, log-sum-exp. A rank may have none where others have some.
Arrived GatherGradients(const Call& call, const Redistribution& between, const SavedCall& saved, int64_t q_heads,
                        at::Tensor d_output, at::Tensor d_lse) {
  const int64_t batch = saved.output.size(0), own = call.queries.length(call.rank());
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
void ScatterGradients(const Call& call, const Redistribution& between, bool shared, Operands& found, Gradients& d) {
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
  scatter(Side::kKey, {kOfKey, kOfValue}, shared);
}

// The backward pass. It is a function of its own so that asking for its derivative raises.
struct AllToAllGradient : Function<AllToAllGradient> {
  static variable_list forward(AutogradContext*, const std::optional<at::Tensor>& d_output,
                               const std::optional<at::Tensor>& d_lse, at::TensorList all_saved, int64_t q_heads,
                               int64_t kv_heads, const SharedCall& call) {
    const SavedCall saved = SavedFrom(all_saved);
    Wanted tables = call->given;
    std::fill_n(tables.begin(), kOperands, false);
    Operands operands = OperandsOf(tables, variable_list(all_saved.begin() + kSaved, all_saved.end()));
    const DealtHeads heads = HeadsOf(*call, q_heads, kv_heads);
    const Redistribution between(*call, heads);
    const Piece own = heads.Queries(call->rank());
    const Arrived arrived =
        GatherGradients(*call, between, saved, q_heads, d_output.value_or(at::Tensor()), d_lse.value_or(at::Tensor()));
    Operands found =
        BackwardOfBlock(arrived.d_output, arrived.d_lse, saved, OptionsOfHeads(call->whole.options(), own), call->needs);
    Gradients d;
    ScatterGradients(*call, between, heads.Shared(), found, d);
    AddTableSums(*call, operands, d);
    for (std::size_t t = Operands::kOwnNames.size(); t < Operands::kCount; ++t)
      if (d[t].defined()) OfHeads(t - Operands::kOwnNames.size(), d[t], own).add_(*found.All()[t]);
    SumTables(*call, operands, d);
    return Wanting(d);
  }

  static variable_list backward(AutogradContext*, const variable_list&) { RefuseSecondDerivative(); }
};

struct AllToAllFunction : Function<AllToAllFunction> {
  static variable_list forward(AutogradContext* ctx, at::TensorList present, const SharedCall& call) {
    const at::Tensor& query = present[0];
    const int64_t q_heads = query.size(1), kv_heads = present[1].size(1);
    const at::ScalarType wide = AccumulatorType(query.scalar_type());
    const DealtHeads heads = HeadsOf(*call, q_heads, kv_heads);
    const Redistribution between(*call, heads);
    const std::vector<at::Tensor> wholes = between.Gather(
        {Side::kQuery, Side::kKey, Side::kKey}, {query, present[1], present[2]}, "whose queries, keys and values it needs");
    AttentionOptions options = OptionsOfHeads(call->whole.options(), heads.Queries(call->rank()));
    options.return_statistics(call->statistics);
    const ForwardResult result =
        ForwardOfBlock(wholes[0], wholes[1], wholes[2], options, call->needs_gradient ? Kept::kExact : Kept::kLse);
    std::vector<at::Tensor> rows{result.lse};
    if (call->statistics) rows.insert(rows.end(), {result.statistics[0], result.statistics[1], result.statistics[2]});
    const at::Tensor output = between.Scatter(Side::kQuery, {result.output}, "whose results it needs")[0];
    const at::Tensor figures = between.Scatter(Side::kQuery, {at::stack(rows, -1)}, "whose log-sum-exps it needs")[0];
    Save(ctx, wholes, result, present);
    KeepCall(ctx, call);
    ctx->saved_data["heads"] = std::vector<int64_t>{q_heads, kv_heads};
    const at::Tensor statistics =
        call->statistics ? figures.narrow(-1, 1, 3).movedim(-1, 0).to(wide) : at::empty({0}, query.options().dtype(wide));
    ctx->mark_non_differentiable({statistics});
    return {output.to(query.scalar_type()), figures.select(-1, 0).to(wide).contiguous(), statistics};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const SharedCall call = KeptCall(ctx);
    const std::vector<int64_t> heads = ctx->saved_data["heads"].toIntVector();
    const variable_list saved = ctx->get_saved_variables();
    const auto present = [](const at::Tensor& tensor) {
      return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
    };
    return InPlaces(*call, AllToAllGradient::apply(present(d_outputs[0]), present(d_outputs[1]), at::TensorList(saved),
                                                   heads[0], heads[1], call));
  }

 private:
  // Beside the tables, of query, key and value the whole sequence of some heads.
  static void Save(AutogradContext* ctx, const std::vector<at::Tensor>& wholes, const ForwardResult& result,
                   at::TensorList present) {
    const auto or_empty = [&](const at::Tensor& tensor) { return tensor.defined() ? tensor : at::empty({0}); };
    variable_list saved{
        wholes[0], wholes[1], wholes[2], result.output, result.lse, or_empty(result.remainder), or_empty(result.correction)};
    saved.insert(saved.end(), present.begin() + kOperands, present.end());
    ctx->save_for_backward(saved);
  }
};

}  // namespace

variable_list AllToAllAttention(at::TensorList present, const SharedCall& call) {
  return AllToAllFunction::apply(present, call);
}

}  // namespace heed::nn::distributed
