// heed inspect: attention maps of a trained model on a text, one offline page.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/place.h"
#include "lab/data/text.h"
#include "lab/inspection/arrays.h"
#include "lab/inspection/inspection.h"
#include "lab/inspection/page.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/output_place.h"
#include "lab/report/progress.h"
#include "lab/training/interrupt.h"
#include "lab/training/trained_model.h"

namespace heed::cli {
namespace {

struct InspectArguments {
  std::string folder, text, out, arrays;
  lab::InspectionOptions options;
};

struct Written {
  std::string page;
  std::size_t page_bytes;
  std::vector<std::filesystem::path> arrays;
};

lab::Inspection InspectText(const InspectArguments& arguments, lab::LanguageModel& model, const lab::Text& text, bool quiet) {
  std::unique_ptr<lab::Progress> progress;
  const auto show = [&](int64_t done, int64_t heads) {
    if (done == 1) progress = std::make_unique<lab::Progress>("inspect", heads, quiet);
    progress->Update(done);
  };
  return Inspect(model, text, arguments.options, show);
}

std::vector<std::filesystem::path> WriteArrays(const InspectArguments& arguments, lab::LanguageModel& model,
                                               const lab::Inspection& inspection, bool quiet) {
  if (arguments.arrays.empty()) return {};
  lab::Progress progress("arrays", static_cast<int64_t>(inspection.maps.size()), quiet);
  return lab::WriteArrays(model, inspection.text, inspection.selection, arguments.arrays,
                          [&](int64_t done) { progress.Update(done); });
}

void PrintJson(const InspectArguments& arguments, const lab::Inspection& inspection, const Written& written) {
  using Json = nlohmann::ordered_json;
  Json heads = Json::array(), arrays = Json::array();
  for (const lab::HeadMap& map : inspection.maps) {
    heads.push_back({{"layer", map.layer},
                     {"head", map.head},
                     {"entropy", map.statistics.entropy},
                     {"max_weight", map.statistics.max_weight},
                     {"mean_distance", map.statistics.mean_distance},
                     {"first_token", map.statistics.first_token}});
  }
  for (const std::filesystem::path& path : written.arrays) arrays.push_back(path.string());
  const Json result = {{"model", arguments.folder},
                       {"text", arguments.text},
                       {"page", written.page},
                       {"page_bytes", written.page_bytes},
                       {"tokens", inspection.geometry.tokens},
                       {"causal", inspection.geometry.causal},
                       {"tokens_per_cell", inspection.geometry.bin},
                       {"relative_error", inspection.code.relative_error()},
                       {"least_weight", inspection.code.least()},
                       {"heads", heads},
                       {"arrays", arrays}};
  std::cout << lab::JsonText(result) << "\n";
}

void PrintTable(const lab::Inspection& inspection, const Written& written) {
  std::cout << "layer  head  entropy  largest  distance  first token\n";
  for (const lab::HeadMap& map : inspection.maps) {
    char line[96];
    std::snprintf(line, sizeof line, "%5lld  %4lld  %7.3f  %7.3f  %8.1f  %9.1f %%\n", static_cast<long long>(map.layer),
                  static_cast<long long>(map.head), map.statistics.entropy, map.statistics.max_weight,
                  map.statistics.mean_distance, 100 * map.statistics.first_token);
    std::cout << line;
  }
  std::cout << written.page << "\n";
}

int RunInspect(const InspectArguments& arguments, const Context& context) {
  const auto model = lab::OpenModel(lab::RunFolder(arguments.folder));
  lab::SelectHeads(*model, arguments.options.selection);  // refused before the text is read
  const lab::Text text = lab::ReadText(arguments.text);
  lab::RequireWritableFile(arguments.out);
  if (!arguments.arrays.empty()) lab::RequireWritableFolder(arguments.arrays);
  lab::WatchForInterrupt();
  const lab::Inspection inspection = InspectText(arguments, *model, text, context.quiet);
  if (inspection.reduced() && !context.quiet) std::cerr << "inspect: " << PrecisionInWords(inspection) << "\n";
  const std::string page = InspectionPage(inspection, arguments.folder);
  lab::WriteFile(arguments.out, page);
  const Written written{arguments.out, page.size(), WriteArrays(arguments, *model, inspection, context.quiet)};
  if (context.json) {
    PrintJson(arguments, inspection, written);
  } else {
    PrintTable(inspection, written);
  }
  return 0;
}

}  // namespace

void AddInspect(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<InspectArguments>();
  lab::InspectionOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("inspect", "Show what the attention heads of a trained model look at in a text");
  AddName(*command, "DIR", arguments->folder, "Folder of a training run with --encoder attention")->required();
  AddName(*command, "TEXT", arguments->text, "UTF-8 file; - for standard input")->required();
  AddName(*command, "--out", arguments->out, "HTML page to write")->required();
  command->add_option("--tokens", options.tokens, "Only the first N characters of TEXT; default: all, at most 4096")
      ->check(CLI::PositiveNumber);
  AddList(*command, "--layers", options.selection.layers, "Layers to show, counted from 0; default: all");
  AddList(*command, "--heads", options.selection.heads, "Heads to show, counted from 0; default: all");
  AddName(*command, "--arrays", arguments->arrays, "Directory for the exact weights and statistics as NPY, with a JSON index");
  command->footer("Example:\n  heed inspect run book.txt --tokens 500 --out maps.html --arrays maps");
  command->callback(
      [arguments, &run] { run = [arguments](const Context& context) { return RunInspect(*arguments, context); }; });
}

}  // namespace heed::cli
