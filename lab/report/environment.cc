#include "lab/report/environment.h"

#include <torch/version.h>

#include "heed/attention.h"
#include "heed/executor.h"
#include "lab/report/build.h"
#include "lab/report/machine.h"

namespace heed::lab {

Environment ThisEnvironment() {
  return {HEED_VERSION, TORCH_VERSION, __VERSION__, ProcessorName(), SupportedTargets(), AvailableThreads(), BuildIdentity()};
}

nlohmann::ordered_json ToJson(const Environment& environment) {
  return {{"version", environment.version},
          {"libtorch", environment.libtorch},
          {"compiler", environment.compiler},
          {"cpu", environment.cpu},
          {"simd_targets", environment.simd_targets},
          {"threads_available", environment.threads_available},
          {"build", environment.build}};
}

nlohmann::ordered_json ResultSettings(const Environment& environment) {
  // The kernels of another target round otherwise, on the same processor too where a build or a host leaves some out.
  const std::string target = environment.simd_targets.empty() ? "" : environment.simd_targets.front();
  return {{"version", environment.version},
          {"libtorch", environment.libtorch},
          {"cpu", environment.cpu},
          {"simd_target", target},
          {"build", environment.build}};
}

}  // namespace heed::lab
