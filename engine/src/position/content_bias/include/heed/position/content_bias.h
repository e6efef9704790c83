// Vectors by clipped offset, added to keys, queries and values.
#ifndef HEED_POSITION_CONTENT_BIAS_H_
#define HEED_POSITION_CONTENT_BIAS_H_

#include <optional>

#include "heed/table.h"

namespace heed {

// Adds a[delta] to keys, e[delta] to queries and c[delta] to values, with delta = key position - query position, a whole number
// clipped to -M..M, in row delta + M. There is no term a.e. Each table may be absent. Finite entries only. TransformerXl has
// tables of keys for every query head.
// keys, values: Shaw et al. 2018, "Self-Attention with Relative Position Representations", section 3.2. keys, queries: the
// terms content-to-position and position-to-content of He et al. 2021, "DeBERTa", section 3.1; with one table for both, method
// 4 of Huang et al. 2020, "Improve Transformer Models with Better Relative Position Embeddings", section 3.4.
struct ContentBias {
  std::optional<Table<2>> keys;            // [2M+1, D]
  std::optional<Table<2>> values;          // [2M+1, Dv]
  std::optional<Table<2>> queries;         // [2M+1, D]
  std::optional<Table<3>> head_queries{};  // [Hq, 2M+1, D], one for every query head, instead of `queries`
};

}  // namespace heed

#endif  // HEED_POSITION_CONTENT_BIAS_H_
