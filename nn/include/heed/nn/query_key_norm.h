// Queries and keys of a size that training does not let grow.
#ifndef HEED_NN_QUERY_KEY_NORM_H_
#define HEED_NN_QUERY_KEY_NORM_H_

#include <cstdint>
#include <optional>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace heed::nn {

enum class QueryKeyNormKind {
  kNone,
  kL2,   // divided by their lengths, and times exp(log_scale) in each head, at most 100: Swin V2's scaled cosine attention
  kRms,  // divided by the root of their mean square, and times a weight in each column
};

// What is done to the rows of queries and keys, before any rotation. Henry et al. 2020, "Query-Key Normalization for
// Transformers", section 3; Liu et al. 2022, "Swin Transformer V2", section 3.2.
class QueryKeyNormImpl : public torch::nn::Cloneable<QueryKeyNormImpl> {
 public:
  // heads: of the queries.
  QueryKeyNormImpl(QueryKeyNormKind kind, int64_t heads, int64_t head_dim);
  void reset() override;
  // [B, heads of its own, N, head_dim] -> the same shape and type.
  torch::Tensor norm_query(const torch::Tensor& query) const;
  torch::Tensor norm_key(const torch::Tensor& key) const;
  // The scale of attention that fits: 1 of kL2, which has its own.
  std::optional<double> default_scale() const;

  torch::Tensor log_scale;                 // [heads], log(10) at first; kL2 alone
  torch::Tensor query_weight, key_weight;  // [head_dim], ones at first; kRms alone

 private:
  torch::Tensor Normed(const char* operand, const torch::Tensor& x, const torch::Tensor& weight) const;

  QueryKeyNormKind kind_;
  int64_t heads_, head_dim_;
};
TORCH_MODULE(QueryKeyNorm);

}  // namespace heed::nn

#endif  // HEED_NN_QUERY_KEY_NORM_H_
