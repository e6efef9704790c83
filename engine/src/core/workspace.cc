#include "heed/workspace.h"

#include <new>

#include "heed/thread_workspace.h"

namespace heed {

void Workspace::Free::operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{kAlignment}); }

void Workspace::Reserve(std::size_t bytes) {
  if (bytes <= size_) return;
  Release();
  data_.reset(new (std::align_val_t{kAlignment}) std::byte[bytes]);
  size_ = bytes;
}

void Workspace::Release() {
  data_.reset();
  size_ = 0;
}

Workspace& ThreadWorkspace() {
  static thread_local Workspace workspace;
  return workspace;
}

}  // namespace heed
