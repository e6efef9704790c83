// heed rates: which learning rate each encoder wants on a text.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/fields.h"
#include "cli/outcome.h"
#include "cli/place.h"
#include "lab/data/reference_text.h"
#include "lab/rates/rates.h"
#include "lab/report/output_place.h"
#include "lab/training/interrupt.h"
#include "lab/training/run_folder.h"

namespace heed::cli {
namespace {

struct RateArguments {
  explicit RateArguments(CLI::App& command) : flags(command, FieldsOf(described)) {}

  lab::RateOptions described;
  std::string text, out, budget = "default";
  FieldFlags flags;
};

int RunRates(const RateArguments& arguments, const Context& context) {
  const lab::RateOptions options = OptionsOf(lab::RateBudget(arguments.budget), arguments.flags, "a study of rates", context);
  lab::Validate(options);
  const lab::Text text = lab::TextOrReference(arguments.text, context.quiet);
  const std::filesystem::path folder = arguments.out;
  if (!folder.empty()) lab::RequireWritableFolder(folder);
  lab::WatchForInterrupt();
  const lab::Corpus corpus = lab::MakeCorpus(text, options.context);
  const std::optional<lab::ResultStore> store = lab::StoreOf(folder, text);
  const lab::RatesResult result = lab::MeasureRates(corpus, options, store ? &*store : nullptr);
  const std::filesystem::path page =
      folder.empty() ? folder : lab::WriteRates(result, text.name, CommandOf(options, arguments.text, folder), folder);
  Show(context, lab::RatesJson(result), page, [&] { PrintFindings(lab::RatesConclusion(result)); });
  return 0;
}

void AddRates(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("rates", "Find the learning rate that each encoder wants on a text");
  const auto arguments = std::make_shared<RateArguments>(*command);
  AddName(*command, "TEXT", arguments->text, "UTF-8 file; - for standard input; default: CPython's language reference");
  AddName(*command, "--out", arguments->out, "Folder for report.html and its numbers; work that was stopped goes on");
  command->add_option("--budget", arguments->budget, "quick: seconds, default: two minutes, long: twenty, on two cores")
      ->capture_default_str();
  command->footer("Example:\n  heed rates book.txt --encoders attention,gru --rates 0.002,0.006,0.018 --out rates");
  command->callback([arguments, &run] { run = [arguments](const Context& context) { return RunRates(*arguments, context); }; });
}

const Command kRates(85, &AddRates);

}  // namespace
}  // namespace heed::cli
