// What ranks talk through, for those that include LibTorch.
#ifndef HEED_LAB_TRAINING_RANK_GROUP_H_
#define HEED_LAB_TRAINING_RANK_GROUP_H_

#include <string>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lab/training/ranks.h"

namespace heed::lab {

struct RankGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

// The numbers of every rank's tensor become those of rank 0's; see Ranks.
void TakeFromFirst(Ranks& ranks, const at::Tensor& tensor, const std::string& what);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_RANK_GROUP_H_
