// heed depth: what depth does to stacks of attention layers, as they start and after a short training.
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/core.h>

#include "book/depth/output.h"
#include "cli/command.h"
#include "cli/fields.h"
#include "cli/outcome.h"
#include "lab/data/text.h"
#include "lab/report/file.h"
#include "lab/training/interrupt.h"
#include "lab/training/run_folder.h"

namespace heed::cli {
namespace {

struct DepthArguments {
  explicit DepthArguments(CLI::App& command) : flags(command, FieldsOf(described)) {
    AddName(command, "TEXT", text, "UTF-8 file; - for standard input; default: docstrings of CPython's library");
    AddName(command, "--out", out, "Folder for report.html, its figures and numbers; work that was stopped goes on");
    command.add_option("--budget", budget, "quick: seconds, default: half a minute, long: minutes, on two cores")
        ->capture_default_str();
    command.add_flag("--no-training", no_training, "Only measure stacks as they start: --trained none");
    command.footer(
        "Examples:\n  heed depth book.txt --out depth\n"
        "  heed depth book.txt --variants attention,post,pre --layers 128 --no-training --json");
  }

  lab::DepthOptions described;
  std::string text, out, budget = "default";
  bool no_training = false;
  FieldFlags flags;
};

int RunDepth(const DepthArguments& arguments, const Context& context) {
  lab::DepthOptions options = OptionsOf(lab::DepthBudget(arguments.budget), arguments.flags, "a study of depth", context);
  if (arguments.no_training) options.trained.clear();
  lab::Validate(options);
  const lab::Text text = lab::TextOrDefault(arguments.text, context.quiet);
  if (!arguments.out.empty()) lab::RequireWritableFolder(arguments.out);
  lab::WatchForInterrupt();
  const lab::Corpus corpus = lab::MakeCorpus(text, options.context);
  const std::optional<lab::ResultStore> store = lab::StoreOf(arguments.out, text);
  const lab::DepthResult result = lab::MeasureDepth(corpus, options, "depth", store ? &*store : nullptr);

  const std::filesystem::path folder = arguments.out;
  const std::filesystem::path page =
      folder.empty() ? folder : lab::WriteDepth(result, text.name, CommandOf(options, arguments.text, folder), folder);
  Show(context, lab::DepthJson(result), page, [&] {
    for (const lab::DepthFinding& finding : lab::DepthFindings(result)) {
      if (!finding.text.empty()) fmt::print("{}\n\n", finding.text);
    }
  });
  return 0;
}

const Command kDepth(80, "depth", "Measure deep stacks: rank, entropy and gradients by layer, and what trains", &RunDepth);

}  // namespace
}  // namespace heed::cli
