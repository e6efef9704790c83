// Names of the norms of queries and keys.
#ifndef HEED_LAB_TRAINING_QUERY_KEY_NORM_H_
#define HEED_LAB_TRAINING_QUERY_KEY_NORM_H_

#include <string>

#include "heed/nn/query_key_norm.h"

namespace heed::lab {

// Throws InvalidArgument that lists QueryKeyNormNames().
nn::QueryKeyNormKind ParseQueryKeyNorm(const std::string& name);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_QUERY_KEY_NORM_H_
