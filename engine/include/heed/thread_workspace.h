// Scratch memory that a thread keeps between its calls.
#ifndef HEED_THREAD_WORKSPACE_H_
#define HEED_THREAD_WORKSPACE_H_

#include "heed/workspace.h"

namespace heed {

// The calling thread's workspace, freed when the thread ends. Calls without a workspace use it for all their workers; it keeps
// the size of the largest call. ThreadWorkspace().Release() frees the memory, and the next call allocates anew.
Workspace& ThreadWorkspace();

}  // namespace heed

#endif  // HEED_THREAD_WORKSPACE_H_
