// The processes of a distributed computation, as PyTorch's own engine has them (torch.distributed, with Gloo).
#ifndef HEED_NN_PROCESS_GROUP_H_
#define HEED_NN_PROCESS_GROUP_H_

#include <chrono>
#include <exception>
#include <string>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace heed::nn {

// The group that the environment describes, as torchrun sets it: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and, where the
// store is the agent's, TORCHELASTIC_USE_AGENT_STORE=True and TORCHELASTIC_RESTART_COUNT; else rank 0 opens the store. Returns
// once all ranks have joined. Whatever the group does fails after `timeout`, and so does joining it.
//
// Throws InvalidArgument that names the variable that is missing or malformed, and Error that names the ranks that have not
// joined. Where LibTorch has no Gloo, InvalidArgument says so.
c10::intrusive_ptr<c10d::ProcessGroup> JoinProcessGroup(std::chrono::milliseconds timeout);

// The group of `size` ranks that meet in `store`, each of which calls this with its own rank, in processes or threads of their
// own. Throws as JoinProcessGroup.
c10::intrusive_ptr<c10d::ProcessGroup> MakeProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                        std::chrono::milliseconds timeout);

// Why something between ranks failed, as the engine puts it, without the place in its source, where it was called from, and the
// advice that it ends with.
std::string ReasonOf(const std::exception& error);

}  // namespace heed::nn

#endif  // HEED_NN_PROCESS_GROUP_H_
