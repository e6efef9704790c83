// Keys and values travel: each rank computes its queries with the keys of one rank after the other.
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "distributed/block_call.h"
#include "distributed/call.h"
#include "distributed/merge.h"
#include "distributed/steps.h"

namespace heed::nn::distributed {
namespace {

using torch::autograd::variable_list;

at::Tensor RowsOf(const at::Tensor& tensor, Piece rows) {
  return tensor.defined() ? tensor.narrow(2, rows.start, rows.length()) : tensor;
}

// What the forward pass leaves beside the operands.
struct RingState {
  at::Tensor output, nearest, correction;  // in the accumulator's type
  at::Tensor far;                          // see Merged
};

// The gradients of one backward pass, in float64: sums over keys for queries, over ranks for keys and values.
class RingSums {
 public:
  RingSums(const Call& call, Operands operands, RingState state, const at::Tensor& d_output, at::Tensor d_lse)
      : call_(call),
        operands_(std::move(operands)),
        state_(std::move(state)),
        steps_(call),
        wide_(AccumulatorType(operands_.query.scalar_type())),
        query_(operands_.query.to(wide_)),
        d_output_(d_output.defined() ? d_output.to(wide_) : d_output),
        d_lse_(std::move(d_lse)) {
    for (std::size_t t = 0; t < 3; ++t)
      if (call_.needs[t]) d_[t] = at::zeros(operands_.All()[t]->sizes(), at::kDouble);
    AddTableSums(call_, operands_, d_);
    for (const std::size_t t : {kKey, kValue}) {
      if (!call_.needs[t]) continue;
      wanted_.push_back(t);
      own_.push_back(*operands_.All()[t]);
      totals_.push_back(d_[t]);
    }
  }

  // One step after the other; what the last one found of other ranks' keys is on its way home meanwhile.
  Gradients Compute() {
    std::optional<Steps::WayHome> way_home;
    const auto arrive = [&] {
      if (!way_home) return;
      way_home->transfer.Wait();
      steps_.Add(way_home->taker, way_home->arriving, totals_);
      way_home.reset();
    };
    steps_.Travel({operands_.key, operands_.value}, "whose keys and values it needs for gradients",
                  [&](int source, int taker, const HeldKeys& held) {
                    const std::vector<at::Tensor> found = OfKeys(held);
                    arrive();
                    if (source == call_.rank()) {
                      steps_.Add(source, found, totals_);
                    } else if (!found.empty()) {
                      way_home = steps_.Send(source, taker, found, own_);
                    }
                  });
    arrive();
    AddSinks();
    for (std::size_t t = 0; t < 3; ++t)
      if (d_[t].defined()) d_[t] = d_[t].to(operands_.All()[t]->scalar_type());
    SumTables(call_, operands_, d_);
    return d_;
  }

 private:
  static constexpr std::size_t kQuery = 0, kKey = 1, kValue = 2;

  // The gradients of the keys and values held that are wanted, and, on the way, those of everything else.
  std::vector<at::Tensor> OfKeys(const HeldKeys& held) {
    HeldKeys found{held.pieces, {}};
    for (const std::size_t t : wanted_) found.tensors.push_back(at::zeros(held.tensors[t - kKey].sizes(), at::kDouble));
    for (const HeldBlock& block : steps_.Blocks(held)) {
      const at::Tensor key = held.Of(0, block.piece, block.columns).to(wide_),
                       value = held.Of(1, block.piece, block.columns).to(wide_);
      Operands d = OfBlock(block, key, value);
      if (call_.needs[kQuery]) RowsOf(d_[kQuery], block.rows).add_(d.query);
      for (std::size_t w = 0; w < wanted_.size(); ++w) found.Of(w, block.piece, block.columns).add_(*d.All()[wanted_[w]]);
      AddTables(block.block, d);
    }
    return found.tensors;
  }

  // Blocks know of no sink.
  void AddSinks() {
    constexpr std::size_t kSinks = Operands::Index("sinks");
    if (!d_[kSinks].defined()) return;
    const at::Tensor weights = at::where(
        state_.nearest == -std::numeric_limits<double>::infinity(), 0.0,
        (ReferenceOf(operands_.tensors.sinks) - ReferenceOf(state_.nearest)).exp2() * state_.correction.to(at::kDouble));
    at::Tensor d_weights = at::zeros_like(weights);
    if (d_lse_.defined()) d_weights.add_(d_lse_);
    if (d_output_.defined()) d_weights.sub_((state_.output.to(at::kDouble) * d_output_.to(at::kDouble)).sum(-1));
    d_[kSinks].add_(at::where(weights == 0, 0.0, weights * d_weights).sum(at::IntArrayRef{0, 2}, /*keepdim=*/true));
  }

  void AddTables(const Block& block, Operands& d) {
    for (std::size_t t = Operands::kOwnNames.size(); t < Operands::kCount; ++t) {
      if (!d_[t].defined() || !d.All()[t]->defined()) continue;
      const bool bias = d.All()[t] == &d.tensors.bias;
      (bias ? call_.whole.BiasOf(d_[t], block) : d_[t]).add_(*d.All()[t]);
    }
  }

  Operands OfBlock(const HeldBlock& of, const at::Tensor& key, const at::Tensor& value) const {
    const AttentionOptions options = call_.whole.OptionsOf(of.block);
    const at::Tensor query = RowsOf(query_, of.rows);
    // A gradient of the log-sum-exp, if only of zeros, says that those of a row's scores do not sum to 0 over the block.
    at::Tensor d_output = RowsOf(d_output_, of.rows);
    at::Tensor d_lse = d_lse_.defined() ? RowsOf(d_lse_, of.rows) : at::zeros_like(RowsOf(state_.nearest, of.rows));
    SavedCall saved{query,
                    key,
                    value,
                    RowsOf(state_.output, of.rows),
                    RowsOf(state_.nearest, of.rows),
                    {},
                    RowsOf(state_.correction, of.rows),
                    {},
                    {}};
    if (state_.far.defined() && RowsOf(state_.far, of.rows).any().item<bool>()) {
      // Numbers so far from 0 hold no merged log-sum-exp beside which weights are exact. Those of the block's own are; times
      // the block's share they are the merged ones, and gradients are linear in what arrives.
      const Part part = PartOf(query, key, value, options, /*statistics=*/false);
      const at::Tensor share = ShareOf(part, saved.lse, saved.correction).to(wide_);
      saved.lse = part.lse, saved.correction = part.correction;
      if (d_output.defined()) d_output = d_output * share.unsqueeze(-1);
      if (d_lse.defined()) d_lse = d_lse * share;
    }
    return BackwardOfBlock(d_output, d_lse, saved, options, call_.needs);
  }

  const Call& call_;
  Operands operands_;
  RingState state_;
  Steps steps_;
  at::ScalarType wide_;
  at::Tensor query_, d_output_, d_lse_;
  Gradients d_;
  std::vector<std::size_t> wanted_;       // of keys and values
  std::vector<at::Tensor> own_, totals_;  // of those
};

}  // namespace

AttentionOutput RingForward(const Call& call, const Operands& operands, variable_list& saved) {
  const at::Tensor &query = operands.query, &value = operands.value;
  const at::ScalarType own = query.scalar_type(), wide = AccumulatorType(own);
  const at::Tensor queries = query.to(wide);
  const Steps steps(call);
  Merged merged(query.size(0), query.size(1), query.size(2), value.size(3), call.statistics);
  steps.Travel({operands.key, value}, "whose keys and values it needs", [&](int, int, const HeldKeys& held) {
    for (const HeldBlock& block : steps.Blocks(held)) {
      const Part part =
          PartOf(RowsOf(queries, block.rows), held.Of(0, block.piece, block.columns).to(wide),
                 held.Of(1, block.piece, block.columns).to(wide), call.whole.OptionsOf(block.block), call.statistics);
      merged.Add(block.rows, part);
    }
  });
  merged.AddSinks(call.whole.options().tensors().sinks);
  const at::Tensor output = merged.Output(wide);
  saved = {output, merged.Nearest(wide), merged.Correction(wide), merged.Far()};
  return {own == wide ? output : merged.Output(own),
          merged.Lse(wide),
          {},
          call.statistics ? merged.Statistics(wide) : at::Tensor()};
}

Gradients RingBackward(const Call& call, const variable_list& d_results, const variable_list& saved, const Operands& operands) {
  RingSums sums(call, operands, {saved[0], saved[1], saved[2], saved[3]}, d_results[0], d_results[1]);
  return sums.Compute();
}

}  // namespace heed::nn::distributed
