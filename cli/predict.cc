// heed predict: what a kept model of labelled sequences says of new ones.
#include <iostream>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/data_file.h"
#include "cli/place.h"
#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/progress.h"
#include "lab/series/kept_model.h"
#include "lab/series/predictions.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct PredictArguments {
  std::string model, data, out;
};

int RunPredict(const PredictArguments& arguments, const Context& context) {
  if (!lab::HoldsSeriesModel(arguments.model))
    throw FileError(arguments.model + ": it holds no model of labelled sequences; heed study DATA --target COLUMN makes one");
  const lab::KeptModel model = lab::ReadModel(arguments.model);
  const lab::SeriesData data =
      IsNpy(arguments.data) ? lab::ReadArrayFor(model.form, arguments.data) : lab::ReadSeriesFor(model.form, arguments.data);
  lab::WatchForInterrupt();
  lab::Progress progress("predict", std::ssize(data.sequences), context.quiet);
  const lab::Predictions predictions = lab::Predict(model, data, [&](int64_t sequences) { progress.Update(sequences); });
  const std::string text = context.json ? lab::JsonText(predictions.Json()) + "\n" : predictions.Csv();
  if (arguments.out.empty()) {
    std::cout << text;
  } else {
    lab::WriteFile(arguments.out, text);
  }
  return 0;
}

void AddPredict(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = app.add_subcommand("predict", "Say what a model that a study kept makes of new labelled sequences");
  AddName(*command, "MODEL", arguments->model, "Folder of a model, as REPORT/model")->required();
  AddName(*command, "DATA", arguments->data,
          "CSV file with the columns that the model was trained on, in any order; - for standard input; or X.npy")
      ->required();
  AddName(*command, "--out", arguments->out, "File for the table; default: standard output");
  command->footer(
      "Examples:\n  heed predict report/model new.csv --out answers.csv\n"
      "  heed study sales.csv --target sold --time day --goal forecast --horizon 7 --out report\n"
      "  heed predict report/model sales.csv");
  command->callback(
      [arguments, &run] { run = [arguments](const Context& context) { return RunPredict(*arguments, context); }; });
}

const Command kPredict(15, &AddPredict);

}  // namespace
}  // namespace heed::cli
