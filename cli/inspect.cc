// heed inspect: attention maps of a trained model on a text or a sequence, one offline page.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/data_file.h"
#include "cli/outcome.h"
#include "heed/error.h"
#include "heed/series_model.h"
#include "lab/data/text.h"
#include "lab/inspection/inspection.h"
#include "lab/inspection/page.h"
#include "lab/inspection/reading.h"
#include "lab/report/file.h"
#include "lab/report/progress.h"
#include "lab/series/kept_model.h"
#include "lab/series/stream.h"
#include "lab/training/interrupt.h"
#include "lab/training/trainer.h"

namespace heed::cli {
namespace {

struct InspectArguments {
  explicit InspectArguments(CLI::App& command) {
    AddName(command, "DIR", folder, "Folder of a training run with --encoder attention, or of a model that a study kept")
        ->required();
    AddName(command, "TEXT", read, "UTF-8 file, or CSV or X.npy for a model of sequences; - for standard input")->required();
    AddName(command, "--out", out, "Folder for report.html, or the name of a page that ends in .html")->required();
    AddName(command, "--only-sequence", sequence, "Which sequence of a CSV file to show; default: the first");
    command.add_option("--tokens", tokens, "Only the first N characters or steps; default: all, at most 4096")
        ->check(CLI::PositiveNumber);
    AddList(command, "--only-layers", options.selection.layers, "Layers to show, counted from 0; default: all");
    AddList(command, "--only-heads", options.selection.heads, "Heads to show, counted from 0; default: all");
    AddName(command, "--arrays", arrays, "Folder for the exact weights and statistics as NPY, with a JSON index");
    AddLaterOptions(command, csv);
    command.footer(
        "Examples:\n  heed inspect run book.txt --tokens 500 --out maps.html --arrays maps\n"
        "  heed inspect report/model labelled.csv --only-sequence 7 --out maps.html");
  }

  std::string folder, read, sequence, out, arrays;
  int64_t tokens = 0;
  lab::LaterCsv csv;
  lab::InspectionOptions options;
};

// The page itself where --out names one, else report.html in that folder.
std::filesystem::path PageOf(const std::string& out) {
  const std::filesystem::path path = out;
  return path.extension() == ".html" ? path : path / "report.html";
}

lab::SeriesData ReadWhole(const lab::KeptModel& model, const InspectArguments& arguments, const Context& context) {
  const int64_t block = lab::MostDataBytes() + 1;
  const std::string& path = arguments.read;
  if (IsNpy(path)) RequireNoLaterOptions(arguments.csv, "an NPY file has no cells; only CSV files do");
  const auto stream = IsNpy(path) ? lab::NpyStream(model, path, block) : lab::CsvStream(model, path, arguments.csv, block);
  std::optional<lab::SeriesData> data = stream->Next();
  if (!data) throw FileError(path + ": it holds no rows");
  TellNotes(data->name, stream->Notes(), context);
  return *std::move(data);
}

lab::Reading ReadingOf(const InspectArguments& arguments, const Context& context) {
  if (SeriesModel::IsIn(arguments.folder)) {
    const lab::KeptModel model = lab::ReadModel(arguments.folder);
    return lab::ReadingOf(model, ReadWhole(model, arguments, context), arguments.sequence, arguments.tokens);
  }
  if (!arguments.sequence.empty()) throw InvalidArgument("only-sequence: " + arguments.folder + " holds a model of text");
  RequireNoLaterOptions(arguments.csv, "is for labelled sequences; " + arguments.folder + " holds a model of text");
  const lab::LanguageModel model = lab::LoadModel(lab::RunFolder(arguments.folder));
  return lab::ReadingOf(model, lab::ReadText(arguments.read), arguments.tokens);
}

lab::Inspection Inspect(const InspectArguments& arguments, const lab::Reading& reading, bool quiet) {
  std::unique_ptr<lab::Progress> progress;
  const auto show = [&](int64_t done, int64_t heads) {
    if (done == 1) progress = std::make_unique<lab::Progress>("inspect", heads, quiet);
    progress->Update(done);
  };
  return lab::Inspect(reading, arguments.options, show);
}

std::vector<std::filesystem::path> WriteArrays(const InspectArguments& arguments, const lab::Inspection& inspection,
                                               bool quiet) {
  if (arguments.arrays.empty()) return {};
  lab::Progress progress("arrays", static_cast<int64_t>(inspection.maps.size()), quiet);
  return lab::WriteArrays(inspection.reading, inspection.selection, arguments.arrays,
                          [&](int64_t done) { progress.Update(done); });
}

nlohmann::ordered_json JsonOf(const InspectArguments& arguments, const lab::Inspection& inspection, std::size_t page_bytes,
                              const std::vector<std::filesystem::path>& arrays) {
  nlohmann::ordered_json json = {{"model", arguments.folder}, {"text", arguments.read}, {"page_bytes", page_bytes}};
  json.update(lab::InspectionJson(inspection));
  json["arrays"] = nlohmann::ordered_json::array();
  for (const std::filesystem::path& path : arrays) json["arrays"].push_back(path.string());
  return json;
}

int RunInspect(const InspectArguments& arguments, const Context& context) {
  const lab::Reading reading = ReadingOf(arguments, context);
  const std::filesystem::path path = PageOf(arguments.out);
  lab::RequireWritableFile(path);
  if (!arguments.arrays.empty()) lab::RequireWritableFolder(arguments.arrays);
  lab::WatchForInterrupt();
  const lab::Inspection inspection = Inspect(arguments, reading, context.quiet);
  if (inspection.reduced() && !context.quiet) fmt::print(stderr, "inspect: {}\n", PrecisionInWords(inspection));
  const std::string page = InspectionPage(inspection, arguments.folder);
  lab::WriteFile(path, page);
  const std::vector<std::filesystem::path> arrays = WriteArrays(arguments, inspection, context.quiet);
  Show(context, JsonOf(arguments, inspection, page.size(), arrays), path, [&] { PrintTable(lab::HeadTable(inspection)); });
  return 0;
}

const Command kInspect(50, "inspect", "Show what the attention heads of a trained model look at in a text or a sequence",
                       &RunInspect);

}  // namespace
}  // namespace heed::cli
