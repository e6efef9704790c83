// heed depth: what depth does to stacks of attention layers, as they start and after a short training.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
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
  std::string text, out, budget = "default";
  std::vector<std::string> variants, positions, trained;  // empty: the defaults
  std::vector<int64_t> depths;
  std::optional<int64_t> layers, steps, width, heads, context, batch;
  std::optional<double> lr;
  bool no_training = false;
};

lab::DepthOptions OptionsOf(const DepthArguments& arguments, const Context& context) {
  lab::DepthOptions options = lab::DepthBudget(arguments.budget);
  if (!arguments.variants.empty()) options.variants = arguments.variants;
  if (!arguments.positions.empty()) options.positions = arguments.positions;
  if (!arguments.trained.empty()) options.trained = arguments.trained;
  if (!arguments.depths.empty()) options.depths = arguments.depths;
  std::sort(options.depths.begin(), options.depths.end());
  if (arguments.no_training) options.trained.clear();
  options.layers = arguments.layers.value_or(options.layers);
  options.steps = arguments.steps.value_or(options.steps);
  options.width = arguments.width.value_or(options.width);
  options.heads = arguments.heads.value_or(options.heads);
  options.context = arguments.context.value_or(options.context);
  options.batch = arguments.batch.value_or(options.batch);
  options.lr = arguments.lr.value_or(options.lr);
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

// As a command that gives the same numbers.
std::string CommandOf(const std::string& budget, const lab::DepthOptions& options) {
  const auto list = [](const auto& values) { return fmt::format("{}", fmt::join(values, ",")); };
  const std::string training =
      options.trained.empty() || options.depths.empty()
          ? " --no-training"
          : fmt::format(" --trained {} --depths {} --steps {}", list(options.trained), list(options.depths), options.steps);
  return fmt::format("heed depth TEXT --budget {} --variants {} --positions {} --layers {}", budget, list(options.variants),
                     list(options.positions), options.layers) +
         training +
         fmt::format(" --width {} --heads {} --context {} --batch {} --lr {} --seed {} --out DIR", options.width, options.heads,
                     options.context, options.batch, options.lr, options.seed);
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
  if (!arguments.out.empty()) page = WritePage(result, text.name, CommandOf(arguments.budget, options), arguments.out);
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
  const auto arguments = std::make_shared<DepthArguments>();
  CLI::App* command = app.add_subcommand("depth", "Measure deep stacks: rank, entropy and gradients by layer, and what trains");
  AddName(*command, "TEXT", arguments->text, "UTF-8 file; - for standard input; default: CPython's language reference");
  AddName(*command, "--out", arguments->out, "Folder for depth.html, its figures and numbers; work that was stopped goes on");
  command->add_option("--budget", arguments->budget, "quick: seconds, default: half a minute, long: minutes, on two cores")
      ->capture_default_str();
  std::string known;
  for (const lab::StackVariant& variant : lab::AllVariants()) known += (known.empty() ? "" : ", ") + variant.id;
  const auto list = [command](const char* name, auto& values, const std::string& text) {
    command->add_option(name, values, text)->expected(1, -1)->delimiter(',');
  };
  list("--variants", arguments->variants, "Stacks to measure as they start, some of " + known + "; default: all");
  list("--positions", arguments->positions, "Schemes for attention alone, of those that heed train knows");
  list("--trained", arguments->trained, "Stacks to train, some of the same; default: pre, post, residual, norm");
  list("--depths", arguments->depths, "Layers of the trained stacks, as 1,2,4");
  command->add_flag("--no-training", arguments->no_training, "Only measure stacks as they start");
  const auto add = [command](const char* name, auto& value, const char* text) {
    command->add_option(name, value, text)->group("Instead of the budget's");
  };
  add("--layers", arguments->layers, "Layers of the stacks that are measured as they start");
  add("--steps", arguments->steps, "Training steps of a stack");
  add("--width", arguments->width, "Features of a step");
  add("--heads", arguments->heads, "Heads of a layer");
  add("--context", arguments->context, "Characters of a window");
  add("--batch", arguments->batch, "Windows a step");
  add("--lr", arguments->lr, "Learning rate after the warm-up");
  command->footer(
      "Examples:\n  heed depth book.txt --out depth\n"
      "  heed depth book.txt --variants attention,post,pre --layers 128 --no-training --json");
  command->callback([arguments, &run] { run = [arguments](const Context& context) { return RunDepth(*arguments, context); }; });
}

}  // namespace heed::cli
