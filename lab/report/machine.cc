#include "lab/report/machine.h"

#include <fstream>

#include "heed/executor.h"

namespace heed::lab {

std::string ProcessorName() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string MachineName() {
  const int threads = AvailableThreads();
  return ProcessorName() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

}  // namespace heed::lab
