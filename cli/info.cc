#include <iostream>
#include <string>

#include <ATen/Parallel.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "heed/attention.h"
#include "heed/executor.h"
#include "lab/report/environment.h"
#include "lab/report/json.h"

namespace heed::cli {
namespace {

int RunInfo(const Context& context) {
  const std::vector<std::string> targets = SupportedTargets();
  if (context.json) {
    const nlohmann::ordered_json info = {{"version", HEED_VERSION},          {"cpu", lab::ThisEnvironment().cpu},
                                         {"simd_targets", targets},          {"threads_available", AvailableThreads()},
                                         {"threads", at::get_num_threads()}, {"libtorch", TORCH_VERSION},
                                         {"compiler", __VERSION__}};
    std::cout << lab::JsonText(info) << "\n";
    return 0;
  }
  std::cout << "heed      " << HEED_VERSION << "\n"
            << "cpu       " << lab::ThisEnvironment().cpu << "\n"
            << "simd     ";
  for (const std::string& target : targets) std::cout << " " << target;
  std::cout << "\n"
            << "threads   " << at::get_num_threads() << " of " << AvailableThreads() << "\n"
            << "libtorch  " << TORCH_VERSION << "\n"
            << "compiler  " << __VERSION__ << "\n";
  return 0;
}

}  // namespace

void AddInfo(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("info", "This processor, its SIMD targets, threads and versions");
  command->footer("Example:\n  heed info --json");
  command->callback([&run] { run = &RunInfo; });
}

}  // namespace heed::cli
