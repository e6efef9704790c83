#include "heed/thread_workspace.h"

namespace heed {

Workspace& ThreadWorkspace() {
  static thread_local Workspace workspace;
  return workspace;
}

}  // namespace heed
