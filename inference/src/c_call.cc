// What belongs to no call of the C header: its messages, its version and its threads.
#include "c_call.h"

#include <mutex>

namespace heed {
namespace {

std::string& Message() {
  thread_local std::string message;
  return message;
}

struct Threads {
  std::mutex mutex;
  std::shared_ptr<ThreadPool> pool;  // null: the engine's own
};

Threads& Shared() {
  static Threads& threads = *new Threads;  // other threads may still compute when the process ends
  return threads;
}

}  // namespace

CallThreads::CallThreads() {
  const std::lock_guard lock(Shared().mutex);
  pool_ = Shared().pool;
}

void CallThreads::Set(int threads) {
  std::shared_ptr<ThreadPool> pool = threads == 0 ? nullptr : std::make_shared<ThreadPool>(threads);
  const std::lock_guard lock(Shared().mutex);
  Shared().pool.swap(pool);
}

heed_status Failed(heed_status status, const char* what) noexcept {
  try {
    Message() = what;
  } catch (...) {
    Message().clear();
  }
  return status;
}

}  // namespace heed

extern "C" {

const char* heed_message(void) { return heed::Message().c_str(); }

const char* heed_version(void) { return HEED_VERSION; }

heed_status heed_set_threads(int32_t threads) {
  return heed::Guarded([&] {
    if (threads < 0 || threads > 4096)
      throw heed::InvalidArgument("threads: expected 0 to 4096, got " + std::to_string(threads));
    heed::CallThreads::Set(threads);
  });
}

}  // extern "C"
