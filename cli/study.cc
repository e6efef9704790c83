// heed study: which encoder and which positional encoding for a text or for labelled sequences, as one page.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "book/companions/companions.h"
#include "cli/command.h"
#include "cli/data_study.h"
#include "cli/fields.h"
#include "cli/outcome.h"
#include "cli/place.h"
#include "lab/data/reference_text.h"
#include "lab/study/findings.h"
#include "lab/study/study.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct StudyArguments {
  explicit StudyArguments(CLI::App& command) : flags(command, FieldsOf(text_study)) {
    flags.Add(command, FieldsOf(companions));
    flags.Add(command, FieldsOf(data_study));
  }

  lab::StudyOptions text_study;
  lab::CompanionOptions companions;
  lab::SeriesOptions data_study;
  std::string text, out = "report", budget = "default";
  FieldFlags flags;
  DataArguments data;
};

int RunStudyCommand(const StudyArguments& arguments, const Context& context) {
  if (arguments.data.Given()) {
    const lab::SeriesOptions options =
        OptionsOf(lab::SeriesBudget(arguments.budget), arguments.flags, "a study of labelled sequences", context);
    return RunDataStudy(arguments.text, arguments.data, options, arguments.flags.Given("horizon"), arguments.out, context);
  }
  lab::StudyOptions options = lab::BudgetOptions(arguments.budget);
  lab::CompanionOptions companions = lab::CompanionBudget(arguments.budget);
  lab::Fields fields = FieldsOf(options);
  std::ranges::move(FieldsOf(companions), std::back_inserter(fields));
  arguments.flags.Apply(fields, "a study of a text, without --target or --goal,");
  options.seed = context.seed, options.threads = ThreadsOf(context), options.quiet = context.quiet;
  lab::Validate(options);
  lab::Validate(companions, options);
  const lab::Text text = lab::TextOrReference(arguments.text, context.quiet);
  lab::WatchForInterrupt();
  const lab::StudyResult result = lab::RunStudy(text, options, arguments.out, lab::KeepsLearntTable());
  // The answer is there before what takes its time beside it.
  lab::WriteStudy(result, {}, arguments.out);
  const std::vector<lab::PageLink> beside = lab::WriteCompanions(text, result, companions, arguments.out);
  const std::filesystem::path page = lab::WriteStudy(result, beside, arguments.out);
  Show(context, lab::StudyJson(result, /*whole=*/false), page, [&] { PrintFindings(lab::Conclusion(result)); });
  return 0;
}

void AddStudy(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("study", "Compare encoders and positional encodings on a text, or on labelled sequences, as one page");
  const auto arguments = std::make_shared<StudyArguments>(*command);
  AddName(*command, "TEXT", arguments->text,
          "UTF-8 file; - for standard input; default: CPython's language reference; CSV or NPY with --target");
  AddName(*command, "--out", arguments->out,
          "Folder for report.html, its figures and numbers; a study that was stopped goes on")
      ->capture_default_str();
  command->add_option("--budget", arguments->budget, "quick: a minute, default: five, long: an hour, on two cores")
      ->capture_default_str();
  AddDataOptions(*command, arguments->data);
  command->footer(
      "Examples:\n  heed study book.txt --out report\n"
      "  heed study book.txt --budget quick --encoders attention,gru --positions none,alibi --out report\n"
      "  heed study walks.csv --sequence walk --time seconds --target label --out report");
  command->callback(
      [arguments, &run] { run = [arguments](const Context& context) { return RunStudyCommand(*arguments, context); }; });
}

const Command kStudy(10, &AddStudy);

}  // namespace
}  // namespace heed::cli
