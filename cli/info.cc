#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "lab/report/environment.h"
#include "lab/report/json.h"
#include "lab/training/compute.h"

namespace heed::cli {
namespace {

int RunInfo(const Context& context) {
  const lab::Environment environment = lab::ThisEnvironment();
  if (context.json) {
    const nlohmann::ordered_json info = {
        {"version", environment.version},           {"cpu", environment.cpu},
        {"simd_targets", environment.simd_targets}, {"threads_available", environment.threads_available},
        {"threads", lab::ComputeThreads()},         {"libtorch", environment.libtorch},
        {"compiler", environment.compiler}};
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
            << "compiler  " << environment.compiler << "\n";
  return 0;
}

void AddInfo(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("info", "Print this processor, its SIMD targets, threads and versions");
  command->footer("Example:\n  heed info --json");
  command->callback([&run] { run = &RunInfo; });
}

const Command kInfo(120, &AddInfo);

}  // namespace
}  // namespace heed::cli
