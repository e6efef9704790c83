// For a LibTorch that was built without Gloo.
#include "heed/error.h"
#include "heed/nn/process_group.h"

namespace heed::nn {
namespace {

[[noreturn]] void Refuse() {
  throw InvalidArgument(
      "process group: the LibTorch that heed was built with has no Gloo, which torch.distributed needs on CPUs; "
      "build heed with a PyTorch whose torch.distributed.is_gloo_available() is True");
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> MakeProcessGroup(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                                        std::chrono::milliseconds) {
  Refuse();
}

c10::intrusive_ptr<c10d::ProcessGroup> JoinProcessGroup(std::chrono::milliseconds) { Refuse(); }

}  // namespace heed::nn
