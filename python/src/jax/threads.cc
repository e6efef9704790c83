#include "threads.h"

#include <mutex>
#include <string>
#include <vector>

#include "heed/error.h"

namespace heed::jax {
namespace {

struct Shared {
  std::mutex mutex;
  std::shared_ptr<Executor> threads;
  std::vector<std::unique_ptr<Workspace>> workspaces;
};

// Never destroyed: XLA's threads may still compute when the process ends.
Shared& TheShared() {
  static Shared& shared = *new Shared;
  return shared;
}

}  // namespace

std::shared_ptr<Executor> SharedThreads() {
  Shared& shared = TheShared();
  const std::lock_guard lock(shared.mutex);
  if (!shared.threads) shared.threads = std::make_shared<ThreadPool>();
  return shared.threads;
}

void SetThreads(int threads) {
  if (threads < 1) throw InvalidArgument("n: expected at least 1 thread, got " + std::to_string(threads));
  std::shared_ptr<Executor> pool = std::make_shared<ThreadPool>(threads);
  Shared& shared = TheShared();
  const std::lock_guard lock(shared.mutex);
  shared.threads.swap(pool);
}

std::shared_ptr<Workspace> LentWorkspace() {
  Shared& shared = TheShared();
  const std::lock_guard lock(shared.mutex);
  if (shared.workspaces.empty()) shared.workspaces.push_back(std::make_unique<Workspace>());
  Workspace* lent = shared.workspaces.back().release();
  shared.workspaces.pop_back();
  return {lent, [&shared](Workspace* workspace) {
            const std::lock_guard lock(shared.mutex);
            shared.workspaces.emplace_back(workspace);
          }};
}

void ReleaseWorkspaces() {
  std::vector<std::unique_ptr<Workspace>> released;
  Shared& shared = TheShared();
  const std::lock_guard lock(shared.mutex);
  released.swap(shared.workspaces);
}

}  // namespace heed::jax
