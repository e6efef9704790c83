// Normalisation of queries and keys, which bounds scores.
#ifndef HEED_NN_QUERY_KEY_NORM_H_
#define HEED_NN_QUERY_KEY_NORM_H_

#include <cstdint>
#include <optional>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace heed::nn {

enum class QueryKeyNormKind {
  kNone,
  kL2,   // divides both by their norms, multiplies queries by exp(log_scale), at most 100, in each head: Swin V2's attention
  kRms,  // divides both by their root mean square and multiplies them by a weight in each column
};

// Normalises queries and keys in each head, before any rotation. Henry et al. 2020, "Query-Key Normalization for Transformers",
// section 3; Liu et al. 2022, "Swin Transformer V2", section 3.2.
class QueryKeyNormImpl : public torch::nn::Cloneable<QueryKeyNormImpl> {
 public:
  // heads: query heads. Throws InvalidArgument.
  QueryKeyNormImpl(QueryKeyNormKind kind, int64_t heads, int64_t head_dim);
  void reset() override;
  // query [B, heads, N, head_dim], key [B, kv_heads, N, head_dim] -> the same shape and type.
  torch::Tensor norm_query(const torch::Tensor& query) const;
  torch::Tensor norm_key(const torch::Tensor& key) const;
  // The scale to give attention: 1 for kL2, else none.
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
