// heed depth: what depth does to stacks of attention layers, as they start and after a short training.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/fields.h"
#include "cli/place.h"
#include "lab/data/text.h"
#include "lab/depth/findings.h"
#include "lab/depth/output.h"
#include "lab/report/environment.h"
#include "lab/report/json.h"
#include "lab/report/output_place.h"
#include "lab/study/reference_text.h"
#include "lab/training/interrupt.h"
#include "lab/training/run_folder.h"

namespace heed::cli {
namespace {

struct DepthArguments {
  explicit DepthArguments(CLI::App& command) : flags(command, FieldsOf(described)) {}

  lab::DepthOptions described;
  std::string text, out, budget = "default";
  bool no_training = false;
  FieldFlags flags;
};

lab::DepthOptions OptionsOf(const DepthArguments& arguments, const Context& context) {
  lab::DepthOptions options = lab::DepthBudget(arguments.budget);
  arguments.flags.Apply(FieldsOf(options), "a study of depth");
  if (arguments.no_training) options.trained.clear();
  options.seed = context.seed;
  options.threads = ThreadsOf(context);
  options.quiet = context.quiet;
  return options;
}

// Finished stacks, kept in the folder of the page; none without a folder.
std::optional<lab::ResultStore> StoreOf(const DepthArguments& arguments, const lab::Text& text) {
  if (arguments.out.empty()) return std::nullopt;
  nlohmann::ordered_json shared = {{"text", lab::Identify(text).fingerprint}};
  shared.update(lab::ResultSettings(lab::ThisEnvironment()));
  return lab::ResultStore(std::filesystem::path(arguments.out) / "runs", shared);
}

std::string WritePage(const lab::DepthResult& result, const std::string& text, const std::string& command,
                      const std::filesystem::path& folder) {
  lab::Report report("Depth: what becomes of a stack of attention layers");
  report.Section("Stacks over " + text);
  lab::AddDepth(result, command, folder, report);
  const std::filesystem::path page = folder / "depth.html";
  report.Write(page);
  return page.string();
}

int RunDepth(const DepthArguments& arguments, const Context& context) {
  const lab::DepthOptions options = OptionsOf(arguments, context);
  lab::Validate(options);
  const lab::Text text = lab::TextOrReference(arguments.text, context.quiet);
  if (!arguments.out.empty()) lab::RequireWritableFolder(arguments.out);
  lab::WatchForInterrupt();
  const lab::Corpus corpus = lab::MakeCorpus(text, options.context);
  const std::optional<lab::ResultStore> store = StoreOf(arguments, text);
  const lab::DepthResult result = lab::MeasureDepth(corpus, options, "depth", store ? &*store : nullptr);

  std::string page;
  if (!arguments.out.empty())
    page = WritePage(result, text.name, CommandOf(options, arguments.text, arguments.out), arguments.out);
  if (context.json) {
    nlohmann::ordered_json json = lab::DepthJson(result);
    if (!page.empty()) json["page"] = page;
    std::cout << lab::JsonText(json, 2) << "\n";
  } else {
    for (const std::string& finding : lab::DepthFindings(result)) std::cout << finding << "\n\n";
  }
  if (!page.empty() && !context.quiet) std::fprintf(stderr, "wrote %s\n", page.c_str());
  return 0;
}

}  // namespace

void AddDepth(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("depth", "Measure deep stacks: rank, entropy and gradients by layer, and what trains");
  const auto arguments = std::make_shared<DepthArguments>(*command);
  AddName(*command, "TEXT", arguments->text, "UTF-8 file; - for standard input; default: CPython's language reference");
  AddName(*command, "--out", arguments->out, "Folder for depth.html, its figures and numbers; work that was stopped goes on");
  command->add_option("--budget", arguments->budget, "quick: seconds, default: half a minute, long: minutes, on two cores")
      ->capture_default_str();
  command->add_flag("--no-training", arguments->no_training, "Only measure stacks as they start: --trained none");
  command->footer(
      "Examples:\n  heed depth book.txt --out depth\n"
      "  heed depth book.txt --variants attention,post,pre --layers 128 --no-training --json");
  command->callback([arguments, &run] { run = [arguments](const Context& context) { return RunDepth(*arguments, context); }; });
}

}  // namespace heed::cli
