// What ranks talk through, for those that include LibTorch.
#ifndef HEED_LAB_TRAINING_RANK_GROUP_H_
#define HEED_LAB_TRAINING_RANK_GROUP_H_

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace heed::lab {

struct RankGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_RANK_GROUP_H_
