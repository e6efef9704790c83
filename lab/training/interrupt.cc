#include "lab/training/interrupt.h"

#include <csignal>

namespace heed::lab {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// Only async-signal-safe calls: the default action is what a second signal meets.
void Remember(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void WatchForInterrupt() {
  interrupted = 0;
  std::signal(SIGINT, &Remember);
  std::signal(SIGTERM, &Remember);
}

bool Interrupted() { return interrupted != 0; }

}  // namespace heed::lab
