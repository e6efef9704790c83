#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "cli/command.h"
#include "cli/fields.h"
#include "cli/place.h"
#include "heed/attention.h"
#include "lab/bench/output.h"
#include "lab/report/json.h"
#include "lab/report/output_place.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct BenchArguments {
  explicit BenchArguments(CLI::App& command) : flags(command, FieldsOf(described), FieldFlags::Of::kCommand) {}

  lab::BenchOptions described;
  std::string against = "torch";
  std::string out;
  FieldFlags flags;
};

void PrintHeader() {
  fmt::print("{:<31} {:<18} {:<17} {:>3}  {:>9} {:>9} {:>6}  {:>6} {:>6}  {:>7} {:>7}  {}\n", "case", "shape", "pass", "thr",
             "heed ms", "torch ms", "ratio", "peak%", "torch", "MiB", "torch", "torch's path");
}

void PrintRow(const lab::BenchRow& row) {
  fmt::print("{:<31} {:<18} {:<17} {:>3}  {:>9.2f} {:>9.2f} {:>6.2f}  {:>6} {:>6}  {:>7.1f} {:>7.1f}  {}\n", row.option,
             row.shape, row.pass, row.threads, row.heed_ms, row.torch_ms, row.ratio,
             lab::ShareText(row.percent_of_peak, row.percent_of_bandwidth),
             lab::ShareText(row.torch_percent_of_peak, row.torch_percent_of_bandwidth), row.heed_mib, row.torch_mib,
             row.torch_path);
  std::fflush(stdout);
}

lab::BenchOptions OptionsOf(const BenchArguments& arguments, const Context& context) {
  lab::BenchOptions options;
  arguments.flags.Apply(FieldsOf(options), "a bench");
  options.threads = std::max(1, context.threads);
  options.quiet = context.quiet;
  Check(FieldsOf(options));
  return options;
}

int RunSuites(const BenchArguments& arguments, const Context& context) {
  const lab::BenchOptions options = OptionsOf(arguments, context);
  const std::filesystem::path folder = arguments.out;
  if (!folder.empty()) lab::RequireWritableFolder(folder);
  lab::WatchForInterrupt();
  if (!context.json) PrintHeader();
  const std::vector<lab::BenchRow> rows = lab::RunBench(options, [&](const lab::BenchRow& row) {
    if (!context.json) PrintRow(row);
  });
  if (context.json) {
    fmt::print("{}\n", lab::JsonText(lab::BenchJson(rows)));
  } else {
    fmt::print(
        "Times are minima of interleaved rounds; peak {:.1f} GFLOP/s a core ({}); b: percent of the bandwidth of reading; "
        "geometric mean of the ratios {:.2f}.\n",
        rows.front().peak_gflops, SupportedTargets().front(), lab::GeometricMeanRatio(rows));
  }
  if (folder.empty()) return 0;
  const std::filesystem::path page = lab::WriteBench(rows, options, folder);
  if (!context.quiet) fmt::print(stderr, "wrote {}\n", page.string());
  return 0;
}

void AddBench(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("bench", "Speed and memory beside LibTorch and the FMA peak of this processor");
  const auto arguments = std::make_shared<BenchArguments>(*command);
  command->add_option("--against", arguments->against, "The other side")
      ->check(CLI::IsMember({"torch"}))
      ->capture_default_str();
  AddName(*command, "--out", arguments->out, "Folder for report.html, bench.json and the figure");
  command->footer(
      "Threads are 1 unless --threads or the case says otherwise.\n\nExample:\n  heed bench --suite full --threads 1");
  command->callback(
      [&run, arguments] { run = [arguments](const Context& context) { return RunSuites(*arguments, context); }; });
}

const Command kBench(100, &AddBench);

}  // namespace
}  // namespace heed::cli
