#include "cli/idle_threads.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace heed::cli {
namespace {

// `heed train`, 60 steps of width 64 on two threads of two cores (AMD EPYC, Zen 4), in seconds; busy: beside a process that
// never waits. With libgomp's own choice quiet gru 8.2, attention 2.3, busy gru 22.1, attention 7.8; with 1000 quiet 6.4
// and 2.5, busy 13.5 and 4.5; with 200 quiet 10.1 and 2.5, busy 9.5 and 3.7.
constexpr const char* kSpins = "1000";

constexpr std::array<std::string_view, 5> kTraining = {"depth", "eval", "study", "tasks", "train"};

}  // namespace

void LetIdleThreadsSleep(int count, char** arguments) {
  if (count < 2 || std::ranges::find(kTraining, arguments[1]) == kTraining.end()) return;
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", kSpins, 1);
  execv("/proc/self/exe", arguments);
}

}  // namespace heed::cli
