// Keys and values travel: each rank computes its queries with the keys of one rank after the other.
#include <cstddef>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "distributed/call.h"
#include "distributed/steps.h"
#include "heed/log_sum_exp.h"
#include "tensor_view.h"

namespace heed::nn::distributed {
namespace {

using torch::autograd::variable_list;

at::Tensor RowsOf(const at::Tensor& tensor, Piece rows) {
  return tensor.defined() ? tensor.narrow(2, rows.start, rows.length()) : tensor;
}

constexpr double kNothing = -std::numeric_limits<double>::infinity();

at::Tensor RowsIn(const at::Tensor& numbers, Piece rows) { return numbers.narrow(-1, rows.start, rows.length()); }

// What rounding took from a log-sum-exp, from the factor that the forward pass leaves beside it. Where all biases of a row are
// so low that the factor is lost too, the largest weight says it: the reference is then the largest score.
at::Tensor RestOf(const ForwardResult& of, const at::Tensor& far) {
  at::Tensor rest = -of.correction.to(at::kDouble).log2();
  if (far.defined()) rest = at::where(far, -of.statistics[1].to(at::kDouble).log2(), rest);
  return at::where(of.lse == kNothing, 0.0, rest);
}

// What some queries get from some keys. A row's weights have the sum 2^(reference + rest).
struct Part {
  at::Tensor output;      // [B, H, n, Dv]
  at::Tensor lse;         // [B, H, n] as it was rounded, -inf for a row without keys
  at::Tensor reference;   // float64: lse as both passes take it, in powers of two, see ReferenceOf
  at::Tensor rest;        // float64: what the sum has beyond it
  at::Tensor correction;  // what the backward pass takes beside lse
  at::Tensor far;         // bool: rows so far from 0 that the correction was lost; undefined where there are none
  at::Tensor statistics;  // [3, B, H, n], or undefined
};

// A log-sum-exp of a block as the engine takes it in both passes. It is rounded, by as much as the scores are large: beside lse
// itself the weights of two blocks would miss each other by that.
at::Tensor ReferenceOf(const at::Tensor& lse) {
  at::Tensor reference = lse.contiguous().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  const bool wide = lse.scalar_type() == at::kDouble;
  for (double& of : ElementsOf<double>(reference)) {
    if (of != kNothing) of = wide ? -MinusInPowersOfTwo(of) : -static_cast<double>(MinusInPowersOfTwo(static_cast<float>(of)));
  }
  return reference;
}

// Computes a part. Operands have the accumulator's type.
Part PartOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, AttentionOptions options,
            bool statistics) {
  ForwardResult result = ResultsOf(query, key, value, options.return_statistics(statistics), Kept::kExact);
  at::Tensor far = (result.correction == 0).logical_and(result.lse.isfinite());
  if (!far.any().item<bool>()) {
    far = at::Tensor();
  } else if (!statistics) {
    result.statistics = ResultsOf(query, key, value, options.return_statistics(true), Kept::kLse).statistics;
  }
  const at::Tensor rest = RestOf(result, far);
  return {result.output,
          result.lse,
          ReferenceOf(result.lse),
          rest,
          result.correction,
          far,
          statistics ? result.statistics : at::Tensor()};
}

// The state of some queries, held in float64, so that it is rounded once.
class Merged {
 public:
  Merged(int64_t batch, int64_t heads, int64_t queries, int64_t value_dim, bool statistics);

  // Takes in what further keys give the queries `rows`. The order of calls decides about the last bits.
  void Add(Piece rows, const Part& part);

  // Behind all keys, where there are sinks [1, H, 1]: they count once, wherever the keys lie. Rows without a key stay as they
  // are.
  void AddSinks(const at::Tensor& sinks);

  at::Tensor Output(at::ScalarType type) const { return output_.to(type); }  // [B, H, n, Dv]
  at::Tensor Lse(at::ScalarType type) const;
  // The log-sum-exp of a part and the correction beside which it is the merged one, for the backward pass of parts that are not
  // far.
  at::Tensor Nearest(at::ScalarType type) const { return lse_.to(type); }
  at::Tensor Correction(at::ScalarType type) const { return (-rest_).exp2().to(type); }
  // bool [B, H, n]: rows that are far in some part. Undefined where there are none.
  const at::Tensor& Far() const { return far_; }
  at::Tensor Statistics(at::ScalarType type) const { return statistics_.to(type); }  // [3, B, H, n], where asked for

 private:
  void AddStatistics(Piece rows, const Part& part, const at::Tensor& before, const at::Tensor& added);

  at::Tensor output_, lse_, reference_, rest_, far_, statistics_;
};

Merged::Merged(int64_t batch, int64_t heads, int64_t queries, int64_t value_dim, bool statistics)
    : output_(at::zeros({batch, heads, queries, value_dim}, at::kDouble)),
      lse_(at::full({batch, heads, queries}, kNothing, at::kDouble)),
      reference_(lse_.clone()),
      rest_(at::zeros({batch, heads, queries}, at::kDouble)) {
  if (statistics) statistics_ = at::zeros({3, batch, heads, queries}, at::kDouble);
}

void Merged::Add(Piece rows, const Part& part) {
  at::Tensor own = RowsIn(reference_, rows), rest = RowsIn(rest_, rows);
  const at::Tensor &other = part.reference, reference = at::maximum(own, other);
  // -inf - -inf, of rows that have seen nothing yet, is no number.
  at::Tensor before = at::where(own == kNothing, 0.0, (own - reference + rest).exp2());
  at::Tensor added = at::where(other == kNothing, 0.0, (other - reference + part.rest).exp2());
  const at::Tensor total = before + added, some = total != 0;
  before = at::where(some, before / total, 0.0);
  added = at::where(some, added / total, 0.0);
  if (statistics_.defined()) AddStatistics(rows, part, before, added);
  // What has no weight is left out, whatever it is.
  const at::Tensor weighted = at::where((added != 0).unsqueeze(-1), part.output, 0.0) * added.unsqueeze(-1);
  output_.narrow(2, rows.start, rows.length()).mul_(before.unsqueeze(-1)).add_(weighted);
  at::Tensor lse = RowsIn(lse_, rows);
  lse.copy_(at::maximum(lse, part.lse.to(at::kDouble)));
  own.copy_(reference);
  rest.copy_(at::where(some, total.log2(), 0.0));
  if (!part.far.defined()) return;
  if (!far_.defined()) far_ = at::zeros(reference_.sizes(), at::kBool);
  RowsIn(far_, rows).logical_or_(part.far);
}

void Merged::AddSinks(const at::Tensor& sinks) {
  if (!sinks.defined()) return;
  const at::Tensor lse = at::where(lse_ == kNothing, kNothing, sinks.to(at::kDouble).expand_as(lse_)).to(sinks.scalar_type());
  const at::Tensor zeros = at::zeros_like(rest_);
  Add({0, lse.size(-1)},
      {at::zeros_like(output_), lse, ReferenceOf(lse), zeros, {}, {}, at::stack({zeros, at::ones_like(rest_), zeros})});
}

void Merged::AddStatistics(Piece rows, const Part& part, const at::Tensor& before, const at::Tensor& added) {
  at::Tensor own = RowsIn(statistics_, rows);
  const at::Tensor other = part.statistics.to(at::kDouble);
  const at::Tensor entropy = before * own[0] - at::xlogy(before, before) + (added * other[0] - at::xlogy(added, added));
  const at::Tensor largest = at::maximum(before * own[1], added * other[1]);
  own.copy_(at::stack({entropy, largest, before * own[2] + added * other[2]}));
}

at::Tensor Merged::Lse(at::ScalarType type) const {
  // A sum of small numbers beside one of any size, which is rounded once.
  const at::Tensor beyond = (rest_ + (reference_ - lse_ * std::numbers::log2e)) * std::numbers::ln2;
  return at::where(lse_ == kNothing, lse_, lse_ + beyond).to(type);
}

// A part's share in the weights of its rows, float64 [B, H, n]: what its gradients are multiplied by. nearest, correction:
// of the same rows of the merged state.
at::Tensor ShareOf(const Part& part, const at::Tensor& nearest, const at::Tensor& correction) {
  const at::Tensor distance = part.reference - ReferenceOf(nearest);
  return at::where(part.reference == kNothing, 0.0, (distance + part.rest).exp2() * correction.to(at::kDouble));
}

// What the forward pass leaves beside the operands.
struct RingState {
  at::Tensor output, nearest, correction;  // in the accumulator's type
  at::Tensor far;                          // see Merged
};

// Keys and values of a rank, for one message; and some of them, taken apart.
at::Tensor SideBySide(const Operands& of) { return at::cat({of.key, of.value}, 3); }
std::pair<at::Tensor, at::Tensor> KeyAndValue(const at::Tensor& rows, const Operands& of) {
  return {rows.narrow(3, 0, of.key.size(3)), rows.narrow(3, of.key.size(3), of.value.size(3))};
}

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
    if (call_.needs[kQuery]) d_[kQuery] = at::zeros(operands_.query.sizes(), at::kDouble);
    AddTableSums(call_, operands_, d_);
    const at::Tensor& key = operands_.key;
    for (const std::size_t t : {kKey, kValue}) {
      if (!call_.needs[t]) continue;
      wanted_.emplace_back(t, Piece{width_, width_ + operands_.All()[t]->size(3)});
      width_ = wanted_.back().second.stop;
    }
    totals_ = at::zeros({key.size(0), key.size(1), key.size(2), width_}, at::kDouble);
  }

  // One step after the other; what the last one found of other ranks' keys is on its way home meanwhile.
  Gradients Compute() {
    std::optional<Steps::WayHome> way_home;
    const auto arrive = [&] {
      if (!way_home) return;
      call_.exchange.Wait(way_home->transfer);
      steps_.Add(way_home->taker, way_home->arriving, totals_);
      way_home.reset();
    };
    steps_.Travel(SideBySide(operands_), "whose keys and values it needs for gradients",
                  [&](int source, int taker, const HeldKeys& held) {
                    const at::Tensor found = OfKeys(held);
                    arrive();
                    if (source == call_.rank()) {
                      steps_.Add(source, found, totals_);
                    } else {
                      way_home = steps_.Send(source, taker, found.to(wide_));
                    }
                  });
    arrive();
    for (const auto& [t, columns] : wanted_) d_[t] = totals_.narrow(3, columns.start, columns.length());
    AddSinks();
    for (std::size_t t = 0; t < 3; ++t)
      if (d_[t].defined()) d_[t] = d_[t].to(operands_.All()[t]->scalar_type());
    SumTables(call_, operands_, d_);
    return d_;
  }

 private:
  static constexpr std::size_t kQuery = 0, kKey = 1, kValue = 2;

  // The gradients of the keys and values held that are wanted, and, on the way, those of everything else.
  at::Tensor OfKeys(const HeldKeys& held) {
    const HeldKeys found{held.pieces,
                         at::zeros({held.rows.size(0), held.rows.size(1), held.rows.size(2), width_}, at::kDouble)};
    for (const HeldBlock& block : steps_.Blocks(held)) {
      const auto [key, value] = KeyAndValue(held.Of(block.piece, block.columns).to(wide_), operands_);
      Operands d = OfBlock(block, key, value);
      if (call_.needs[kQuery]) RowsOf(d_[kQuery], block.rows).add_(d.query);
      for (const auto& [t, columns] : wanted_)
        found.Of(block.piece, block.columns).narrow(3, columns.start, columns.length()).add_(*d.All()[t]);
      AddTables(block.block, d);
    }
    return found.rows;
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
    SavedCall saved{query, key, value, RowsOf(state_.output, of.rows), RowsOf(state_.nearest, of.rows)};
    saved.correction = RowsOf(state_.correction, of.rows);
    if (state_.far.defined() && RowsOf(state_.far, of.rows).any().item<bool>()) {
      // Numbers so far from 0 hold no merged log-sum-exp beside which weights are exact. Those of the block's own are; times
      // the block's share they are the merged ones, and gradients are linear in what arrives.
      const Part part = PartOf(query, key, value, options, /*statistics=*/false);
      const at::Tensor share = ShareOf(part, saved.lse, saved.correction).to(wide_);
      saved.lse = part.lse, saved.correction = part.correction;
      if (d_output.defined()) d_output = d_output * share.unsqueeze(-1);
      if (d_lse.defined()) d_lse = d_lse * share;
    }
    return GradientsOf({d_output, d_lse}, saved, options, call_.needs);
  }

  const Call& call_;
  Operands operands_;
  RingState state_;
  Steps steps_;
  at::ScalarType wide_;
  at::Tensor query_, d_output_, d_lse_;
  Gradients d_;
  std::vector<std::pair<std::size_t, Piece>> wanted_;  // of keys and values, and where their gradients lie side by side
  int64_t width_ = 0;                                  // of those
  at::Tensor totals_;
};

}  // namespace

AttentionOutput RingForward(const Call& call, const Operands& operands, variable_list& saved) {
  const at::Tensor& query = operands.query;
  const at::ScalarType own = query.scalar_type(), wide = AccumulatorType(own);
  const at::Tensor queries = query.to(wide);
  const Steps steps(call);
  Merged merged(query.size(0), query.size(1), query.size(2), operands.value.size(3), call.statistics);
  steps.Travel(SideBySide(operands), "whose keys and values it needs", [&](int, int, const HeldKeys& held) {
    for (const HeldBlock& block : steps.Blocks(held)) {
      const auto [key, value] = KeyAndValue(held.Of(block.piece, block.columns).to(wide), operands);
      const Part part = PartOf(RowsOf(queries, block.rows), key, value, call.whole.OptionsOf(block.block), call.statistics);
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
