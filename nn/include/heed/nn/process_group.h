// Process groups of torch.distributed with Gloo.
#ifndef HEED_NN_PROCESS_GROUP_H_
#define HEED_NN_PROCESS_GROUP_H_

#include <chrono>
#include <exception>
#include <string>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace heed::nn {

// Joins the group of the environment that torchrun sets: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and, for the agent's
// store, TORCHELASTIC_USE_AGENT_STORE=True and TORCHELASTIC_RESTART_COUNT; without them rank 0 opens the store. Returns once
// all ranks have joined. Joining and all operations of the group fail after `timeout`.
//
// Throws InvalidArgument, naming the missing or malformed variable, Error, naming the ranks that have not joined, and
// InvalidArgument where LibTorch has no Gloo.
c10::intrusive_ptr<c10d::ProcessGroup> JoinProcessGroup(std::chrono::milliseconds timeout);

// The group of `size` ranks that meet in `store`; call it once for each rank, in its own process or thread. Throws as
// JoinProcessGroup.
c10::intrusive_ptr<c10d::ProcessGroup> MakeProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                        std::chrono::milliseconds timeout);

// The reason of a failure between ranks, from PyTorch's message without its source line, back trace and advice.
std::string ReasonOf(const std::exception& error);

}  // namespace heed::nn

#endif  // HEED_NN_PROCESS_GROUP_H_
