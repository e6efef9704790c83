#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/data_file.h"
#include "heed/error.h"
#include "heed/length_policy.h"
#include "heed/series_model.h"
#include "lab/data/corpus.h"
#include "lab/data/text.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/printable.h"
#include "lab/report/progress.h"
#include "lab/series/kept_model.h"
#include "lab/series/scores.h"
#include "lab/training/evaluation.h"
#include "lab/training/interrupt.h"
#include "lab/training/kept_counts.h"
#include "lab/training/trainer.h"

namespace heed::cli {
namespace {

constexpr const char* kBeyond = "refuse";

struct EvalArguments {
  explicit EvalArguments(CLI::App& command) {
    AddName(command, "DIR", folder, "Folder of a training run, or of a model that a study kept")->required();
    AddName(command, "TEXT", text, "UTF-8 file, or CSV with targets; - for standard input")->required();
    AddList(command, "--context", contexts, "Steps of a window, one number or several; default: as in training");
    command
        .add_option("--beyond", beyond,
                    "Windows longer than a learned position table: refuse them, or clamp, which repeats the last row")
        ->default_str(kBeyond);
    command.add_flag("--validation", validation, "Measure only the last tenth of TEXT, its validation part in training");
    command.add_option("--share", share, "For a forecast: the share at the end of each sequence to score; default: 0.2")
        ->check(CLI::Range(0.0, 1.0));
    AddName(command, "--from", from,
            "Score only the steps from this date, time or row of the file on; those before are what the model answers from");
    AddLaterOptions(command, csv);
    command.footer(
        "Examples:\n  heed eval report/model labelled.csv\n  heed eval report/model sales.csv --from 2024-03-01\n"
        "  heed eval run book.txt --context 64,128,256\n  heed eval run book.txt --context 128 --beyond clamp");
  }

  std::string folder, text;
  std::vector<int64_t> contexts;
  bool validation = false;
  std::optional<std::string> beyond;
  std::optional<double> share;
  std::string from;
  lab::LaterCsv csv;
};

LengthPolicy ParseBeyond(const std::string& name) {
  if (name == "refuse") return LengthPolicy::kError;
  if (name == "clamp") return LengthPolicy::kClamp;
  throw InvalidArgument("beyond: '" + name + "' is unknown; choose refuse or clamp");
}

std::vector<int32_t> TokensOf(const EvalArguments& arguments, const lab::Vocabulary& vocabulary) {
  const lab::Text text = lab::ReadText(arguments.text);
  lab::WatchForInterrupt();
  std::vector<int32_t> tokens = vocabulary.Encode(text);
  if (arguments.validation) tokens.erase(tokens.begin(), tokens.begin() + lab::TrainLength(tokens.size()));
  return tokens;
}

std::vector<lab::Evaluation> EvaluateAll(const EvalArguments& arguments, lab::LanguageModel model, bool quiet) {
  const std::vector<int64_t> contexts =
      arguments.contexts.empty() ? std::vector<int64_t>{model->options().context} : arguments.contexts;
  for (const int64_t context : contexts) lab::RequireReach(model, context);
  const std::vector<int32_t> tokens = TokensOf(arguments, model->vocabulary());
  std::vector<lab::Evaluation> rows;
  for (const int64_t context : contexts) {
    lab::Progress progress("eval, context " + std::to_string(context), static_cast<int64_t>(tokens.size()), quiet);
    rows.push_back(lab::Evaluate(model, tokens, context, [&](int64_t done) { progress.Update(done); }));
    progress.Update(static_cast<int64_t>(tokens.size()));
  }
  return rows;
}

void PrintJson(const EvalArguments& arguments, const std::vector<lab::Evaluation>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const lab::Evaluation& row : rows) {
    list.push_back({{"context", row.context},
                    {"predictions", row.predictions},
                    {"loss", row.loss},
                    {"perplexity", row.perplexity},
                    {"tokens_per_second", row.tokens_per_second}});
  }
  const nlohmann::ordered_json result = {
      {"model", arguments.folder}, {"text", arguments.text}, {"beyond", arguments.beyond.value_or(kBeyond)}, {"rows", list}};
  std::cout << lab::JsonText(result) << "\n";
}

void PrintRows(const std::vector<lab::Evaluation>& rows) {
  std::cout << "context  predictions      loss  perplexity   (loss in nats a character)\n";
  for (const lab::Evaluation& row : rows)
    fmt::print("{:7}  {:11}  {:8.4f}  {:10.4f}\n", row.context, row.predictions, row.loss, row.perplexity);
}

// Of a score of labelled sequences; empty where it has none.
std::string UnitOf(const std::string& score, const std::string& target) {
  if (score == "loss") return "nats a label";
  if (score == "mse") return target + " squared";
  if (score == "mae" || score == "pinball") return target;
  if (score == "accuracy" || score == "coverage") return "of 1";
  return {};
}

int RunTable(const EvalArguments& arguments, const Context& context) {
  if (!arguments.contexts.empty() || arguments.validation)
    throw InvalidArgument("context, validation: they are for a text; " + arguments.folder +
                          " holds a model of labelled sequences");
  if (arguments.beyond)
    throw InvalidArgument("beyond: it is for a text; " + arguments.folder + " holds a model of labelled sequences");
  if (IsNpy(arguments.text)) throw InvalidArgument("TEXT: expected a CSV file, whose columns hold the targets too");
  if (arguments.share && !arguments.from.empty()) throw InvalidArgument("share: expected none, as --from says what is scored");
  const lab::KeptModel model = lab::ReadModel(arguments.folder);
  if (arguments.share && !model.form.Forecasts())
    throw InvalidArgument("share: it is for a forecast; of " + lab::Printable(model.name) + " every answer is scored");
  lab::WatchForInterrupt();
  std::optional<lab::Progress> progress;
  const auto show = [&](int64_t done, int64_t of) {
    if (!progress) progress.emplace("eval, KiB", (of + 1023) / 1024, context.quiet);
    progress->Update((done + 1023) / 1024);
  };
  const lab::SeriesScores scores = lab::ScoresOfCsv(model, arguments.text, arguments.share.value_or(0.2), arguments.csv, show,
                                                    lab::kBlockBytes, arguments.from);
  progress.reset();
  TellNotes(lab::NameOfInput(arguments.text), scores.notes, context);
  if (context.json) {
    nlohmann::ordered_json json = {
        {"model", arguments.folder}, {"data", arguments.text}, {"name", model.name}, {"answers", scores.answers}};
    for (const auto& [name, value] : scores.numbers) json[name] = value;
    std::cout << lab::JsonText(json) << "\n";
    return 0;
  }
  std::printf("%s, %lld answers\n", lab::Printable(model.name).c_str(), static_cast<long long>(scores.answers));
  for (const auto& [name, value] : scores.numbers) {
    const std::string unit = UnitOf(name, lab::Printable(model.form.target));
    fmt::print("  {:8}  {:.6g}{}{}\n", name, value, unit.empty() ? "" : " ", unit);
  }
  return 0;
}

std::vector<lab::Evaluation> EvaluateCounts(const EvalArguments& arguments) {
  const CountingModel model(arguments.folder);
  if (arguments.beyond) throw InvalidArgument("beyond: " + lab::Printable(model.name()) + " only counts, and has no positions");
  if (!arguments.contexts.empty())
    throw InvalidArgument(fmt::format("context: {} only counts, and looks at {} characters before each",
                                      lab::Printable(model.name()), model.order() - 1));
  return {lab::Evaluate(model, TokensOf(arguments, lab::Vocabulary(model.characters())))};
}

int RunEval(const EvalArguments& arguments, const Context& context) {
  if (SeriesModel::IsIn(arguments.folder)) return RunTable(arguments, context);
  const std::string why = "is for labelled sequences; " + arguments.folder + " holds a model of a text";
  RequireNoLaterOptions(arguments.csv, why);
  if (!arguments.from.empty()) throw InvalidArgument("from: " + why);
  if (arguments.share) throw InvalidArgument("share: " + why);
  const LengthPolicy beyond = ParseBeyond(arguments.beyond.value_or(kBeyond));
  const std::vector<lab::Evaluation> rows =
      CountingModel::IsIn(arguments.folder)
          ? EvaluateCounts(arguments)
          : EvaluateAll(arguments, lab::LoadModel(lab::RunFolder(arguments.folder), beyond), context.quiet);
  if (context.json) {
    PrintJson(arguments, rows);
  } else {
    PrintRows(rows);
  }
  return 0;
}

const Command kEval(40, "eval", "Measure how well a trained model predicts a text, or labelled sequences", &RunEval);

}  // namespace
}  // namespace heed::cli
