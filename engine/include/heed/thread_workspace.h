// Scratch memory that a thread keeps between its calls.
#ifndef HEED_THREAD_WORKSPACE_H_
#define HEED_THREAD_WORKSPACE_H_

#include "heed/workspace.h"

namespace heed {

// The calling thread's own, freed when the thread ends. Calls without a workspace use it; it holds the memory for all workers
// of a call and keeps the size of the largest. ThreadWorkspace().Release() gives that memory back, and the next call takes what
// it needs.
Workspace& ThreadWorkspace();

}  // namespace heed

#endif  // HEED_THREAD_WORKSPACE_H_
