// Schemes whose tables are projections of encodings, made when their weights are loaded.
#ifndef HEED_INFERENCE_SRC_PROJECTED_SCHEMES_H_
#define HEED_INFERENCE_SRC_PROJECTED_SCHEMES_H_

#include <cstdint>
#include <memory>

#include "attention_scheme.h"

namespace heed {

// Throw InvalidArgument that names the size.
std::unique_ptr<AttentionScheme> MakeTransformerXl(const TransformerXlPosition& position, int64_t heads, int64_t head_dim);
std::unique_ptr<AttentionScheme> MakeDeberta(const DebertaPosition& position, int64_t heads, int64_t head_dim);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_PROJECTED_SCHEMES_H_
