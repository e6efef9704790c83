// What kernels need of Highway's library: which targets there are. A processor of 64-bit Arm has NEON.
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "hwy/highway.h"
#include "hwy/targets.h"

namespace hwy {
namespace {

int64_t forced = 0, disabled = 0;

}  // namespace

int64_t SupportedTargets() { return (forced != 0 ? forced : HWY_TARGETS) & ~disabled; }
void DisableTargets(int64_t targets) { disabled = targets; }
void SetSupportedTargetsForTest(int64_t targets) { forced = targets; }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

HWY_NORETURN void HWY_FORMAT(3, 4) Abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "%s:%d: ", file, line);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::abort();
}

}  // namespace hwy
