#include "distributed/merge.h"

#include <limits>
#include <numbers>
#include <utility>

#include <ATen/ATen.h>

#include "distributed/block_call.h"
#include "heed/log_sum_exp.h"
#include "tensor_view.h"

namespace heed::nn::distributed {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

at::Tensor RowsIn(const at::Tensor& numbers, Piece rows) { return numbers.narrow(-1, rows.start, rows.length()); }

// What rounding took from a log-sum-exp, from the factor that the forward pass leaves beside it. Where all biases of a row are
// so low that the factor is lost too, the largest weight says it: the reference is then the largest score.
at::Tensor RestOf(const ForwardResult& of, const at::Tensor& far) {
  at::Tensor rest = -of.correction.to(at::kDouble).log2();
  if (far.defined()) rest = at::where(far, -of.statistics[1].to(at::kDouble).log2(), rest);
  return at::where(of.lse == kNothing, 0.0, rest);
}

}  // namespace

at::Tensor ReferenceOf(const at::Tensor& lse) {
  at::Tensor reference = lse.contiguous().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  const bool wide = lse.scalar_type() == at::kDouble;
  for (double& of : ElementsOf<double>(reference)) {
    if (of != kNothing) of = wide ? -MinusInPowersOfTwo(of) : -static_cast<double>(MinusInPowersOfTwo(static_cast<float>(of)));
  }
  return reference;
}

Part PartOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, AttentionOptions options,
            bool statistics) {
  ForwardResult result = ForwardOfBlock(query, key, value, options.return_statistics(statistics), Kept::kExact);
  at::Tensor far = (result.correction == 0).logical_and(result.lse.isfinite());
  if (!far.any().item<bool>()) {
    far = at::Tensor();
  } else if (!statistics) {
    result.statistics = ForwardOfBlock(query, key, value, options.return_statistics(true), Kept::kLse).statistics;
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

at::Tensor ShareOf(const Part& part, const at::Tensor& nearest, const at::Tensor& correction) {
  const at::Tensor distance = part.reference - ReferenceOf(nearest);
  return at::where(part.reference == kNothing, 0.0, (distance + part.rest).exp2() * correction.to(at::kDouble));
}

}  // namespace heed::nn::distributed
