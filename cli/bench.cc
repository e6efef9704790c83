#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "bench/suites/output.h"
#include "bench/suites/plan.h"
#include "bench/suites/shape.h"
#include "cli/command.h"
#include "cli/fields.h"
#include "cli/outcome.h"
#include "heed/attention.h"
#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/printable.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct BenchArguments {
  explicit BenchArguments(CLI::App& command) : flags(command, FieldsOf(described), FieldFlags::Of::kCommand) {
    flags.Add(command, FieldsOf(shape));
    flags.Add(command, FieldsOf(rates));
    flags.Add(command, FieldsOf(search));
    flags.Add(command, {CaseField(one_case)});
    command.add_option("--against", against, "Library to compare with")->check(CLI::IsMember({"torch"}))->capture_default_str();
    command.add_flag("--plan", plan,
                     "Print tasks, work, bytes and balance of --n for 1 to 128 threads, without computing the calls");
    AddName(command, "--out", out, "Folder for report.html, bench.json and the figure");
    command.footer(
        "The bench runs on one thread unless --threads or --case gives more. --n measures heed alone, at your own shapes; with "
        "--plan it prints how such calls spread over many threads. --search draws calls at random, on one and on --threads "
        "threads, and lists those where heed is slowest beside LibTorch, each with its --case. Ctrl-C ends the first "
        "within a call, and the last then lists what it has.\n\nWords of --case, the first four in this order:\n" +
        lab::CaseGrammar() +
        "\nExamples:\n"
        "  heed bench --suite full --threads 1\n  heed bench --search 300 --threads 1\n"
        "  heed bench --case 'B2 H8:2 n1:4096 d64 bfloat16 causal window=128 pass=forward'\n"
        "  heed bench --n 8192,262144 --pass forward --threads 2\n  heed bench --plan --n 1048576 --heads 8 --causal");
  }
  static lab::Field CaseField(std::string& text) {
    return {.name = "case",
            .value = &text,
            .text = "Measure one call, as 'B2 H8:2 n1:4096 d64 bfloat16 causal threads=2 pass=forward'"};
  }

  lab::BenchOptions described;
  lab::ShapeOptions shape;
  lab::ThreadRates rates;
  lab::SearchOptions search;
  std::string one_case;
  bool plan = false;
  std::string against = "torch";
  std::string out;
  FieldFlags flags;
};

void PrintHeader() {
  fmt::print("{:<31} {:<18} {:<17} {:>3}  {:>9} {:>9} {:>6}  {:>6} {:>6}  {:>7} {:>7}  {}\n", "case", "shape", "pass", "thr",
             "heed ms", "torch ms", "ratio", "peak%", "torch", "MiB", "torch", "torch's path");
}

void PrintRow(const lab::BenchRow& row) {
  fmt::print("{:<31} {:<18} {:<17} {:>3}  {:>9} {:>9} {:>6.2f}  {:>6} {:>6}  {:>7.1f} {:>7.1f}  {}\n", row.option, row.shape,
             row.pass, row.threads, lab::MillisecondsText(row.heed_ms), lab::MillisecondsText(row.torch_ms), row.ratio,
             lab::ShareText(row.percent_of_peak, row.percent_of_bandwidth),
             lab::ShareText(row.torch_percent_of_peak, row.torch_percent_of_bandwidth), row.heed_mib, row.torch_mib,
             lab::PathText(row));
  std::fflush(stdout);
}

void SayWritten(const std::filesystem::path& page, const Context& context) {
  if (!context.quiet) fmt::print(stderr, "wrote {}\n", lab::Printable(page.string()));
}

// What follows the rows, or all of them as JSON; and the page, where there is a folder for it.
int End(const std::vector<lab::BenchRow>& rows, const std::string& command, const std::filesystem::path& folder,
        const Context& context) {
  if (context.json) {
    fmt::print("{}\n", lab::JsonText(lab::BenchJson(rows)));
  } else {
    fmt::print(
        "Times are minima of interleaved rounds; peak {:.1f} GFLOP/s a core ({}); b: percent of the bandwidth of reading; "
        "geometric mean of the ratios {:.2f}.\n",
        rows.front().peak_gflops, SupportedTargets().front(), lab::GeometricMeanRatio(rows));
  }
  if (!folder.empty()) SayWritten(lab::WriteBench(rows, command, folder), context);
  return 0;
}

int RunSuites(const BenchArguments& arguments, const Context& context) {
  lab::BenchOptions options;
  arguments.flags.Apply(FieldsOf(options), "a bench without --n");
  options.threads = std::max(1, context.threads);
  options.quiet = context.quiet;
  Check(FieldsOf(options));
  const std::filesystem::path folder = arguments.out;
  if (!folder.empty()) lab::RequireWritableFolder(folder);
  lab::WatchForInterrupt();
  if (!context.json) PrintHeader();
  const std::vector<lab::BenchRow> rows = lab::RunBench(options, [&](const lab::BenchRow& row) {
    if (!context.json) PrintRow(row);
  });
  return End(rows, CommandOf(options, folder), folder, context);
}

int RunOneCase(const BenchArguments& arguments, const Context& context) {
  lab::BenchOptions options;
  std::string text;
  lab::Fields fields = FieldsOf(options);
  std::erase_if(fields, [](const lab::Field& field) { return field.name != "rounds"; });
  fields.push_back(BenchArguments::CaseField(text));
  arguments.flags.Apply(fields, "a bench of --case");
  fields.front().Check();
  if (context.threads > 0) throw InvalidArgument("--threads: expected none beside --case, which names them, as threads=2");
  const lab::CallCase one = lab::ParseCase(text, "--case");
  const std::filesystem::path folder = arguments.out;
  if (!folder.empty()) lab::RequireWritableFolder(folder);
  if (!context.json) PrintHeader();
  const std::vector<lab::BenchRow> rows = {MeasureCall(one, {options.rounds, options.seconds})};
  if (!context.json) PrintRow(rows.front());
  return End(rows, CommandOf(rows.front()) + " --out " + lab::ShellWord(folder.string()), folder, context);
}

void PrintSearch(const lab::SearchResult& result, const lab::SearchOptions& options) {
  constexpr const char* kRow = "{:>6}  {:>9} {:>9}  {:>6} {:>6}  {:>7} {:>7}  {}\n";
  fmt::print(kRow, "ratio", "heed ms", "torch ms", "peak%", "torch", "MiB", "torch", "torch's path");
  for (std::size_t x = 0; x < result.rows.size() && static_cast<int64_t>(x) < options.worst; ++x) {
    const lab::BenchRow& row = result.rows[x];
    const auto known = [&row](const std::string& text) { return row.times_alone ? "-" : text; };
    fmt::print(kRow, fmt::format("{:.2f}", row.ratio), lab::MillisecondsText(row.heed_ms), lab::MillisecondsText(row.torch_ms),
               known(lab::ShareText(row.percent_of_peak, row.percent_of_bandwidth)),
               known(lab::ShareText(row.torch_percent_of_peak, row.torch_percent_of_bandwidth)),
               known(fmt::format("{:.1f}", row.heed_mib)), known(fmt::format("{:.1f}", row.torch_mib)), lab::PathText(row));
    fmt::print("        {}\n", CommandOf(row));
  }
  fmt::print("{}\n{}\n", SearchSummary(result, options), TimedOn(options));
}

int RunSearchCommand(const BenchArguments& arguments, const Context& context) {
  lab::SearchOptions options;
  options.threads = ThreadsOf(context);
  options.seed = context.seed;
  options.quiet = context.quiet;
  arguments.flags.Apply(FieldsOf(options), "a search");
  Check(FieldsOf(options));
  const std::filesystem::path folder = arguments.out;
  if (!folder.empty()) lab::RequireWritableFolder(folder);
  lab::WatchForInterrupt();
  const lab::SearchResult result = RunSearch(options);
  if (context.json) {
    fmt::print("{}\n", lab::JsonText(SearchJson(result, options)));
  } else {
    PrintSearch(result, options);
  }
  if (!folder.empty() && !result.rows.empty()) SayWritten(WriteSearch(result, options, folder), context);
  if (result.interrupted) throw lab::Interruption(fmt::format("interrupted after {} calls", result.rows.size()));
  return 0;
}

lab::Fields Joined(lab::Fields fields, const lab::Fields& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

int Plan(const BenchArguments& arguments, const Context& context) {
  lab::ShapeOptions shape;
  lab::ThreadRates rates;
  const lab::Fields fields = Joined(FieldsOf(shape), FieldsOf(rates));
  arguments.flags.Apply(fields, "a plan");
  Check(fields);
  if (shape.lengths.empty()) throw InvalidArgument("--plan: expected lengths beside it, as --n 4096 or --n 1024:65536");
  std::vector<lab::PlanRow> rows;
  for (const lab::ShapeCall& call : CallsOf(shape))
    for (lab::PlanRow& row : PlanCall(call, rates)) rows.push_back(std::move(row));
  if (context.json) {
    fmt::print("{}\n", lab::JsonText(PlanJson(rows)));
  } else {
    PrintTable(PlanTable(rows, rates));
  }
  return 0;
}

int RunOwnShapes(const BenchArguments& arguments, const Context& context) {
  lab::ShapeOptions shape;
  lab::BenchOptions options;
  lab::Fields fields = FieldsOf(options);
  std::erase_if(fields, [](const lab::Field& field) { return field.name == "suite"; });
  fields = Joined(fields, FieldsOf(shape));
  arguments.flags.Apply(fields, "a bench of --n");
  options.threads = std::max(1, context.threads);
  Check(fields);
  if (!arguments.out.empty()) throw InvalidArgument("--out: expected none beside --n, whose rows go to standard output");
  if (shape.lengths.empty()) throw InvalidArgument("--n: expected lengths, as 4096 or 1024:65536, got none");
  lab::WatchForInterrupt();
  constexpr const char* kRow = "{:<26} {:<22} {:<9} {:>3} {:>4}  {:>11} {:>11}  {:>8} {:>6}  {:>10} {:>12}\n";
  if (!context.json)
    fmt::print(kRow, "shape", "option", "pass", "thr", "runs", "ms", "median", "GFLOP/s", "peak%", "arrays MiB",
               "resident MiB");
  const lab::ShapeRuns runs{options.threads, options.rounds, options.seconds, context.seed, context.quiet};
  const std::vector<lab::ShapeRow> rows = RunShapes(CallsOf(shape), runs, [&](const lab::ShapeRow& row) {
    if (context.json) return;
    fmt::print(kRow, row.shape, row.option, row.pass, row.threads, row.runs, fmt::format("{:.2f}", row.ms),
               fmt::format("{:.2f}", row.median_ms), fmt::format("{:.1f}", row.gflops),
               fmt::format("{:.1f}", row.percent_of_peak), fmt::format("{:.1f}", row.array_mib),
               fmt::format("{:.1f}", row.resident_mib));
    std::fflush(stdout);
  });
  if (context.json) fmt::print("{}\n", lab::JsonText(ShapeJson(rows)));
  return 0;
}

int RunBenchCommand(const BenchArguments& arguments, const Context& context) {
  if (arguments.plan) return Plan(arguments, context);
  if (arguments.flags.Given("case")) return RunOneCase(arguments, context);
  if (arguments.flags.Given("search")) return RunSearchCommand(arguments, context);
  return arguments.flags.Given("n") ? RunOwnShapes(arguments, context) : RunSuites(arguments, context);
}

const Command kBench(100, "bench", "Measure speed and memory beside LibTorch and the FMA peak of this processor",
                     &RunBenchCommand);

}  // namespace
}  // namespace heed::cli
