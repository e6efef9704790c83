// heed inspect: attention maps of a trained model on a text, one offline page.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/outcome.h"
#include "cli/place.h"
#include "cli/table.h"
#include "lab/data/text.h"
#include "lab/inspection/arrays.h"
#include "lab/inspection/inspection.h"
#include "lab/inspection/output.h"
#include "lab/inspection/page.h"
#include "lab/report/file.h"
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

// The page itself where --out names one, else report.html in that folder.
std::filesystem::path PageOf(const std::string& out) {
  const std::filesystem::path path = out;
  return path.extension() == ".html" ? path : path / "report.html";
}

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

nlohmann::ordered_json JsonOf(const InspectArguments& arguments, const lab::Inspection& inspection, std::size_t page_bytes,
                              const std::vector<std::filesystem::path>& arrays) {
  nlohmann::ordered_json json = {{"model", arguments.folder}, {"text", arguments.text}, {"page_bytes", page_bytes}};
  json.update(lab::InspectionJson(inspection));
  json["arrays"] = nlohmann::ordered_json::array();
  for (const std::filesystem::path& path : arrays) json["arrays"].push_back(path.string());
  return json;
}

int RunInspect(const InspectArguments& arguments, const Context& context) {
  const auto model = lab::OpenModel(lab::RunFolder(arguments.folder));
  lab::SelectHeads(*model, arguments.options.selection);  // refused before the text is read
  const lab::Text text = lab::ReadText(arguments.text);
  const std::filesystem::path path = PageOf(arguments.out);
  lab::RequireWritableFile(path);
  if (!arguments.arrays.empty()) lab::RequireWritableFolder(arguments.arrays);
  lab::WatchForInterrupt();
  const lab::Inspection inspection = InspectText(arguments, *model, text, context.quiet);
  if (inspection.reduced() && !context.quiet) fmt::print(stderr, "inspect: {}\n", PrecisionInWords(inspection));
  const std::string page = InspectionPage(inspection, arguments.folder);
  lab::WriteFile(path, page);
  const std::vector<std::filesystem::path> arrays = WriteArrays(arguments, *model, inspection, context.quiet);
  Show(context, JsonOf(arguments, inspection, page.size(), arrays), path, [&] { PrintTable(lab::HeadTable(inspection)); });
  return 0;
}

void AddInspect(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<InspectArguments>();
  lab::InspectionOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("inspect", "Show what the attention heads of a trained model look at in a text");
  AddName(*command, "DIR", arguments->folder, "Folder of a training run with --encoder attention")->required();
  AddName(*command, "TEXT", arguments->text, "UTF-8 file; - for standard input")->required();
  AddName(*command, "--out", arguments->out, "Folder for report.html, or the name of a page that ends in .html")->required();
  command->add_option("--tokens", options.tokens, "Only the first N characters of TEXT; default: all, at most 4096")
      ->check(CLI::PositiveNumber);
  AddList(*command, "--only-layers", options.selection.layers, "Layers to show, counted from 0; default: all");
  AddList(*command, "--only-heads", options.selection.heads, "Heads to show, counted from 0; default: all");
  AddName(*command, "--arrays", arguments->arrays, "Directory for the exact weights and statistics as NPY, with a JSON index");
  command->footer("Example:\n  heed inspect run book.txt --tokens 500 --out maps.html --arrays maps");
  command->callback(
      [arguments, &run] { run = [arguments](const Context& context) { return RunInspect(*arguments, context); }; });
}

const Command kInspect(50, &AddInspect);

}  // namespace
}  // namespace heed::cli
