#include "lab/report/environment.h"

#include <fstream>

#include <torch/version.h>

#include "heed/attention.h"
#include "heed/executor.h"
#include "lab/report/build.h"

namespace heed::lab {
namespace {

std::string ProcessorName() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Environment ThisEnvironment() {
  return {HEED_VERSION, TORCH_VERSION, __VERSION__, ProcessorName(), SupportedTargets(), AvailableThreads(), BuildIdentity()};
}

std::string MachineName() {
  const int threads = AvailableThreads();
  return ProcessorName() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
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
