// Programs of part of a larger call.
#ifndef HEED_NN_SRC_DISTRIBUTED_SHIFTED_PROGRAM_H_
#define HEED_NN_SRC_DISTRIBUTED_SHIFTED_PROGRAM_H_

#include <cstdint>

#include "heed/nn/attention.h"

namespace heed::nn::distributed {

// What the batch rows, heads, queries and keys of a part count from.
struct First {
  int64_t batch = 0, head = 0, query = 0, key = 0;
};

// Makes the programs of the options count from there.
void ShiftPrograms(const First& first, AttentionOptions& options);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_SHIFTED_PROGRAM_H_
