#include <cstdint>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "heed/machine.h"
#include "lab/report/environment.h"
#include "lab/report/json.h"
#include "lab/training/side_by_side.h"

namespace heed::cli {
namespace {

std::string KiB(int64_t bytes) { return bytes == 0 ? "unknown" : std::to_string(bytes / 1024) + " KiB"; }

struct InfoArguments {
  explicit InfoArguments(CLI::App& command) { command.footer("Example:\n  heed info --json"); }
};

int RunInfo(const InfoArguments&, const Context& context) {
  const lab::Environment environment = lab::ThisEnvironment();
  const Machine& machine = ThisMachine();
  if (context.json) {
    const nlohmann::ordered_json info = {{"version", environment.version},
                                         {"cpu", environment.cpu},
                                         {"simd_targets", environment.simd_targets},
                                         {"threads_available", environment.threads_available},
                                         {"threads", lab::ComputeThreads()},
                                         {"libtorch", environment.libtorch},
                                         {"compiler", environment.compiler},
                                         {"machine",
                                          {{"kind", machine.kind},
                                           {"second_level", machine.second_level},
                                           {"pair_instruction", machine.pair_instruction},
                                           {"far", machine.far},
                                           {"call_far", machine.call_far},
                                           {"few_ahead", machine.few_ahead}}}};
    std::cout << lab::JsonText(info) << "\n";
    return 0;
  }
  std::cout << "heed      " << environment.version << "\n"
            << "cpu       " << environment.cpu << "\n"
            << "simd     ";
  for (const std::string& target : environment.simd_targets) std::cout << " " << target;
  std::cout << "\n"
            << "threads   " << lab::ComputeThreads() << " of " << environment.threads_available << "\n"
            << "libtorch  " << environment.libtorch << "\n"
            << "compiler  " << environment.compiler << "\n"
            << "speed     as on " << machine.kind << " processors: pairs of bfloat16 by "
            << (machine.pair_instruction ? "VDPBF16PS where it is there" : "widened multiply-adds") << ",\n"
            << "          second-level cache " << KiB(machine.second_level) << ", keys and values asked for ahead from "
            << KiB(machine.far) << " on,\n"
            << "          of a call with few queries from " << KiB(machine.call_far) << " on, " << KiB(machine.few_ahead)
            << " ahead; no bit of a result depends on these\n";
  return 0;
}

const Command kInfo(120, "info", "Print this processor, its SIMD targets, threads and versions", &RunInfo);

}  // namespace
}  // namespace heed::cli
