// Vectors by clipped offset beside keys, queries and values.
#ifndef HEED_POSITION_CONTENT_BIAS_H_
#define HEED_POSITION_CONTENT_BIAS_H_

#include <optional>

#include "heed/table.h"

namespace heed {

// Relative positions in the content: a[delta] is added to the key that a query sees, e[delta] to the query that a key meets,
// c[delta] to the value, with delta = key position - query position clipped to -M..M, a whole number, and the rows at
// delta + M. Vectors do not meet each other: there is no term a.e. Each may be absent. Finite entries only. Keys with tables of
// their own for every query head: TransformerXl.
// keys, values: Shaw et al. 2018, "Self-Attention with Relative Position Representations", section 3.2. keys, queries: the
// terms content-to-position and position-to-content of He et al. 2021, "DeBERTa", section 3.1; with one table for both, method
// 4 of Huang et al. 2020, "Improve Transformer Models with Better Relative Position Embeddings", section 3.4.
struct ContentBias {
  std::optional<Table<2>> keys;            // [2M+1, D]
  std::optional<Table<2>> values;          // [2M+1, Dv]
  std::optional<Table<2>> queries;         // [2M+1, D]
  std::optional<Table<3>> head_queries{};  // [Hq, 2M+1, D], one for every query head, in the place of `queries`
};

}  // namespace heed

#endif  // HEED_POSITION_CONTENT_BIAS_H_
