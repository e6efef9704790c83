// The process group of ranks, for code that includes LibTorch.
#ifndef HEED_LAB_TRAINING_RANK_GROUP_H_
#define HEED_LAB_TRAINING_RANK_GROUP_H_

#include <chrono>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lab/training/ranks.h"

namespace heed::lab {

struct RankGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::chrono::milliseconds time_out;                    // of this group and of those that are made within it
  c10::intrusive_ptr<c10d::ProcessGroup> sequence = {};  // those that share this rank's sequences, where ranks do
};

// The numbers of every rank's tensor become those of rank 0's; see Ranks.
void TakeFromFirst(Ranks& ranks, const at::Tensor& tensor, const std::string& what);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_RANK_GROUP_H_
