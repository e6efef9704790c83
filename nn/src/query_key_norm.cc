#include "heed/nn/query_key_norm.h"

#include <cmath>

#include <ATen/ATen.h>

#include "refuse.h"
#include "sizes.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

constexpr double kEps = 1e-6;
const double kMostLogScale = std::log(100.0);

}  // namespace

QueryKeyNormImpl::QueryKeyNormImpl(QueryKeyNormKind kind, int64_t heads, int64_t head_dim)
    : kind_(kind), heads_(heads), head_dim_(head_dim) {
  if (kind == QueryKeyNormKind::kNone) Refuse("QueryKeyNorm: kind: expected kL2 or kRms");
  CheckSize("QueryKeyNorm", "heads", heads);
  CheckSize("QueryKeyNorm", "head_dim", head_dim);
  reset();
}

void QueryKeyNormImpl::reset() {
  if (kind_ == QueryKeyNormKind::kL2) {
    log_scale = register_parameter("log_scale", at::full({heads_}, std::log(10.0)));
    return;
  }
  query_weight = register_parameter("query_weight", at::ones({head_dim_}));
  key_weight = register_parameter("key_weight", at::ones({head_dim_}));
}

std::optional<double> QueryKeyNormImpl::default_scale() const {
  return kind_ == QueryKeyNormKind::kL2 ? std::optional(1.0) : std::nullopt;
}

// In the type that is computed in, so that 16 bits are rounded once.
torch::Tensor QueryKeyNormImpl::Normed(const char* operand, const torch::Tensor& x, const torch::Tensor& weight) const {
  if (!x.defined() || x.dim() != 4 || x.size(3) != head_dim_) {
    Refuse("QueryKeyNorm: ", operand, ": expected shape [batch, heads, steps, ", head_dim_, "], got ", ShapeText(x));
  }
  const at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  if (kind_ == QueryKeyNormKind::kL2) {
    // By 1 where the length is 0: a least length in its place would make the gradient there huge.
    const at::Tensor length = wide.norm(2, -1, true);
    return wide / at::where(length > 0, length, 1.0);
  }
  return wide * at::rsqrt(wide.square().mean(-1, true) + kEps) * weight;
}

torch::Tensor QueryKeyNormImpl::norm_query(const torch::Tensor& query) const {
  at::Tensor normed = Normed("query", query, query_weight);
  if (kind_ == QueryKeyNormKind::kL2) {
    if (query.size(1) != heads_) Refuse("QueryKeyNorm: query: expected ", heads_, " heads, got ", query.size(1));
    normed = normed * log_scale.clamp_max(kMostLogScale).exp().view({heads_, 1, 1});
  }
  return normed.to(query.scalar_type());
}

torch::Tensor QueryKeyNormImpl::norm_key(const torch::Tensor& key) const {
  return Normed("key", key, key_weight).to(key.scalar_type());
}

}  // namespace heed::nn
