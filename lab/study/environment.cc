#include "lab/study/environment.h"

#include <fstream>

#include <torch/version.h>

#include "heed/attention.h"
#include "heed/executor.h"

namespace heed::lab {
namespace {

std::string CpuName() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Environment ThisEnvironment() {
  return {HEED_VERSION, TORCH_VERSION, __VERSION__, CpuName(), SupportedTargets(), AvailableThreads()};
}

nlohmann::ordered_json ToJson(const Environment& environment) {
  return {{"version", environment.version},           {"libtorch", environment.libtorch},
          {"compiler", environment.compiler},         {"cpu", environment.cpu},
          {"simd_targets", environment.simd_targets}, {"threads_available", environment.threads_available}};
}

}  // namespace heed::lab
