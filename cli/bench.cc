#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/place.h"
#include "heed/attention.h"
#include "lab/bench/bench.h"
#include "lab/report/csv.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/output_place.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct BenchArguments {
  lab::BenchOptions options;
  std::string against = "torch";
  std::string out;
};

nlohmann::ordered_json ToJson(const lab::BenchRow& row) {
  return {{"case", row.suite + ": " + row.option},
          {"shape", row.shape},
          {"pass", row.pass},
          {"threads", row.threads},
          {"heed_ms", row.heed_ms},
          {"heed_median_ms", row.heed_median_ms},
          {"torch_ms", row.torch_ms},
          {"torch_median_ms", row.torch_median_ms},
          {"torch_path", row.torch_path},
          {"ratio", row.ratio},
          {"percent_of_peak", row.percent_of_peak},
          {"torch_percent_of_peak", row.torch_percent_of_peak},
          {"peak_gflops", row.peak_gflops},
          {"percent_of_bandwidth", row.percent_of_bandwidth},
          {"torch_percent_of_bandwidth", row.torch_percent_of_bandwidth},
          {"heed_mib", row.heed_mib},
          {"torch_mib", row.torch_mib}};
}

void PrintHeader() {
  fmt::print("{:<31} {:<18} {:<17} {:>3}  {:>9} {:>9} {:>6}  {:>6} {:>6}  {:>7} {:>7}  {}\n", "case", "shape", "pass", "thr",
             "heed ms", "torch ms", "ratio", "peak%", "torch", "MiB", "torch", "torch's path");
}

// Of the FMA peak; of the bandwidth, marked so, where memory is the limit.
std::string Share(double of_peak, double of_bandwidth) {
  return of_bandwidth > 0 ? fmt::format("{:.1f}b", of_bandwidth) : fmt::format("{:.1f}", of_peak);
}

void PrintRow(const lab::BenchRow& row) {
  fmt::print("{:<31} {:<18} {:<17} {:>3}  {:>9.2f} {:>9.2f} {:>6.2f}  {:>6} {:>6}  {:>7.1f} {:>7.1f}  {}\n", row.option,
             row.shape, row.pass, row.threads, row.heed_ms, row.torch_ms, row.ratio,
             Share(row.percent_of_peak, row.percent_of_bandwidth),
             Share(row.torch_percent_of_peak, row.torch_percent_of_bandwidth), row.heed_mib, row.torch_mib, row.torch_path);
  std::fflush(stdout);
}

int RunSuites(const BenchArguments& arguments, const Context& context) {
  lab::BenchOptions options = arguments.options;
  options.quiet = context.quiet;
  options.threads = std::max(1, context.threads);
  lab::CasesOf(options.suite);
  if (!arguments.out.empty()) lab::RequireWritableFolder(arguments.out);
  lab::WatchForInterrupt();
  if (!context.json) PrintHeader();
  const std::vector<lab::BenchRow> rows = lab::RunBench(options, [&](const lab::BenchRow& row) {
    if (!context.json) PrintRow(row);
  });
  auto list = nlohmann::ordered_json::array();
  for (const lab::BenchRow& row : rows) list.push_back(ToJson(row));
  if (context.json) {
    fmt::print("{}\n", lab::JsonText(list));
  } else {
    fmt::print(
        "Times are minima of interleaved rounds; peak {:.1f} GFLOP/s a core ({}); b: percent of the bandwidth of reading; "
        "geometric mean of the ratios {:.2f}.\n",
        rows.front().peak_gflops, SupportedTargets().front(), lab::GeometricMeanRatio(rows));
  }
  if (!arguments.out.empty()) {
    const std::filesystem::path folder = arguments.out;
    lab::WriteFile(folder / "bench.json", lab::JsonText(list, 1) + "\n");
    lab::WriteFigure(lab::BenchFigure(rows), folder);
  }
  return 0;
}

}  // namespace

void AddBench(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("bench", "Speed and memory beside LibTorch and the FMA peak of this processor");
  auto arguments = std::make_shared<BenchArguments>();
  std::string suites = "all";
  for (const std::string& name : lab::BenchSuites()) suites += ", " + name;
  command->add_option("--suite", arguments->options.suite, "One of " + suites)->capture_default_str();
  command->add_option("--against", arguments->against, "The other side")
      ->check(CLI::IsMember({"torch"}))
      ->capture_default_str();
  command->add_option("--rounds", arguments->options.rounds, "Interleaved rounds a case, at least")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  AddName(*command, "--out", arguments->out, "Folder for bench.json, bench.csv and bench.svg");
  command->footer(
      "Threads are 1 unless --threads or the case says otherwise.\n\nExample:\n  heed bench --suite full --threads 1");
  command->callback(
      [&run, arguments] { run = [arguments](const Context& context) { return RunSuites(*arguments, context); }; });
}

}  // namespace heed::cli
