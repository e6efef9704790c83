// heed predict: what a kept model of labelled sequences says of new ones.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "cli/command.h"
#include "cli/data_file.h"
#include "heed/counting_model.h"
#include "heed/error.h"
#include "heed/nn/replacement_file.h"
#include "heed/series_model.h"
#include "heed/shown_name.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/progress.h"
#include "lab/series/data.h"
#include "lab/series/form.h"
#include "lab/series/kept_model.h"
#include "lab/series/predictions.h"
#include "lab/series/stream.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct PredictArguments {
  explicit PredictArguments(CLI::App& command) {
    AddName(command, "MODEL", model, "Folder of a model, as REPORT/model")->required();
    AddName(command, "DATA", data,
            "CSV file with the columns that the model was trained on, in any order; - for standard input; or X.npy")
        ->required();
    AddName(command, "--out", out, "File for the table, written only when all answers are there; default: standard output");
    AddLaterOptions(command, csv);
    command.footer(
        "Examples:\n  heed predict report/model new.csv --out answers.csv\n"
        "  heed study sales.csv --target sold --time day --goal forecast --horizon 7 --out report\n"
        "  heed predict report/model sales.csv");
  }

  std::string model, data, out;
  lab::LaterCsv csv;
};

// A table that is written as its parts come: to standard output, or beside the file whose place it takes at the end.
class Table {
 public:
  Table(const std::string& out, bool json) : json_(json) {
    if (out.empty()) return;
    lab::MakeFolderOf(out);
    file_.emplace(out);
  }

  void Add(const lab::Predictions& part) {
    if (json_) {
      const std::string list = lab::JsonText(part.Json());
      if (!part.rows.empty()) Write((any_ ? "," : "[") + list.substr(1, list.size() - 2));
    } else {
      Write(part.Csv(/*header=*/!any_));
    }
    any_ = any_ || !part.rows.empty();
  }

  void End() {
    if (json_) Write(any_ ? "]\n" : "[]\n");
    if (file_) file_->Commit();
  }

 private:
  void Write(const std::string& text) { file_ ? file_->Write(text.data(), text.size()) : void(std::cout << text); }

  bool json_, any_ = false;
  std::optional<nn::ReplacementFile> file_;
};

// Sequences with fewer steps than a forecast reads.
class ShortHistories {
 public:
  explicit ShortHistories(const lab::KeptModel& model) : form_(model.form) {}

  void Look(const lab::SeriesData& data) {
    for (const lab::SeriesSequence& sequence : data.sequences) {
      if (!form_.Forecasts() || sequence.steps >= form_.context) continue;
      if (count_++ == 0) first_ = fmt::format("sequence {} has {}", ShownName(sequence.id), sequence.steps);
    }
  }
  std::string Note() const {
    if (count_ == 0) return {};
    const std::string others = count_ == 1 ? "" : fmt::format(", and {} others have fewer too", count_ - 1);
    return fmt::format("{} of the {} steps that a forecast reads{}: expect worse answers, or give their earlier rows too",
                       first_, form_.context, others);
  }

 private:
  const lab::SeriesForm& form_;
  int64_t count_ = 0;
  std::string first_;
};

int RunPredict(const PredictArguments& arguments, const Context& context) {
  if (CountingModel::IsIn(arguments.model))
    throw FileError(arguments.model +
                    ": it holds a model that counts the characters of a text; heed generate continues a text " +
                    "with it, and heed eval scores it");
  if (!SeriesModel::IsIn(arguments.model))
    throw FileError(arguments.model + ": it holds no model of labelled sequences; heed study DATA --target COLUMN makes one");
  if (IsNpy(arguments.data)) RequireNoLaterOptions(arguments.csv, "an NPY file has no cells; only CSV files do");
  const lab::KeptModel model = lab::ReadModel(arguments.model);
  lab::WatchForInterrupt();
  const std::unique_ptr<lab::SeriesStream> stream =
      IsNpy(arguments.data) ? lab::NpyStream(model, arguments.data) : lab::CsvStream(model, arguments.data, arguments.csv);
  if (std::error_code unknown; std::filesystem::equivalent(arguments.out, arguments.data, unknown))
    throw InvalidArgument("out: " + arguments.out + " is the file of the data; choose another name");
  Table table(arguments.out, context.json);
  std::optional<lab::Progress> progress;
  progress.emplace("predict, KiB", (stream->size() + 1023) / 1024, context.quiet);
  int64_t answers = 0;
  ShortHistories brief(model);
  while (const std::optional<lab::SeriesData> part = stream->Next()) {
    if (lab::Interrupted()) throw lab::Interruption("interrupted; no file was written");
    const lab::Predictions predictions = lab::Predict(model, *part);
    table.Add(predictions);
    brief.Look(*part);
    answers += std::ssize(predictions.rows);
    progress->Update((stream->read() + 1023) / 1024, fmt::format("{} answers", answers));
  }
  table.End();
  progress.reset();
  std::vector<std::string> notes = stream->Notes();
  if (std::string note = brief.Note(); !note.empty()) notes.push_back(std::move(note));
  TellNotes(lab::NameOfInput(arguments.data), notes, context);
  return 0;
}

const Command kPredict(15, "predict", "Answer new labelled sequences with a kept model", &RunPredict);

}  // namespace
}  // namespace heed::cli
