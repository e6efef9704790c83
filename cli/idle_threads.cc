#include "cli/idle_threads.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace heed::cli {
namespace {

// Seconds of `heed train`, 60 steps of width 64, two threads on two cores (AMD EPYC, Zen 4), of gru and of attention; "busy" is
// beside a process that never waits. libgomp's own choice: quiet 8.2 and 2.3, busy 22.1 and 7.8. 1000: quiet 6.4 and 2.5,
// busy 13.5 and 4.5. 200: quiet 10.1 and 2.5, busy 9.5 and 3.7.
constexpr const char* kSpins = "1000";

constexpr std::array<std::string_view, 4> kTraining = {"depth", "study", "tasks", "train"};

}  // namespace

void LetIdleThreadsSleep(int count, char** arguments) {
  if (count < 2 || std::ranges::find(kTraining, arguments[1]) == kTraining.end()) return;
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (getauxval(AT_BASE) == 0) return;  // started by naming the loader, which /proc/self/exe then is
  setenv("GOMP_SPINCOUNT", kSpins, 1);
  execv("/proc/self/exe", arguments);
}

}  // namespace heed::cli
