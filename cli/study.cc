// heed study: which encoder and which positional encoding for a text or for labelled sequences, as one page.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "book/companions/companions.h"
#include "cli/command.h"
#include "cli/data_file.h"
#include "cli/fields.h"
#include "cli/outcome.h"
#include "heed/error.h"
#include "lab/data/text.h"
#include "lab/study/study.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct StudyArguments {
  explicit StudyArguments(CLI::App& command) : flags(command, FieldsOf(text_study)) {
    flags.Add(command, FieldsOf(companions));
    flags.Add(command, FieldsOf(table_study));
    AddName(command, "TEXT", text,
            "UTF-8 file; - for standard input; default: docstrings of CPython's library; CSV or NPY with --target");
    AddName(command, "--out", out, "Folder for report.html, its figures and numbers; a stopped study goes on in it")
        ->capture_default_str();
    command.add_option("--budget", budget, "quick: a minute, default: five, long: an hour, on two cores")
        ->capture_default_str();
    AddDataOptions(command, data);
    command.footer(
        "Examples:\n  heed study book.txt --out report\n"
        "  heed study book.txt --budget quick --encoders attention,gru --positions none,alibi --out report\n"
        "  heed study walks.csv --sequence walk --time seconds --target label --out report\n"
        "  heed study walks.csv --sequence walk --time seconds --target label --dry-run");
  }

  lab::StudyOptions text_study, table_study{.kind = lab::StudyKind::kTable};
  lab::CompanionOptions companions;
  std::string text, out = "report", budget = "default";
  FieldFlags flags;
  DataArguments data;
};

// Prints the conclusion and where the page is.
int Tell(const lab::StudyResult& result, const std::filesystem::path& page, const Context& context) {
  Show(context, lab::StudyJson(result), page, [&] { PrintFindings(lab::Conclusion(result)); });
  return 0;
}

int StudyTable(const StudyArguments& arguments, const Context& context) {
  const lab::StudyOptions options = OptionsOf(lab::BudgetOptions(arguments.budget, lab::StudyKind::kTable), arguments.flags,
                                              "a study of labelled sequences", context);
  lab::Validate(options);
  const std::vector<lab::SeriesData> data = ReadData(arguments.text, arguments.data, &arguments.flags, /*several=*/true);
  if (arguments.data.dry_run) {
    for (const lab::SeriesData& one : data) PrintData(one, options.horizon, context);
    return 0;
  }
  TellNotes(data.front().name, data.front().notes, context);
  lab::WatchForInterrupt();
  const lab::Subject subject = lab::SubjectOf(data, arguments.data.Words(arguments.text), options);
  const lab::StudyResult result = lab::RunStudy(subject, options, arguments.out);
  return Tell(result, lab::WriteStudy(result, {}, arguments.out), context);
}

int StudyText(const StudyArguments& arguments, const Context& context) {
  lab::StudyOptions options = lab::BudgetOptions(arguments.budget);
  lab::CompanionOptions companions = lab::CompanionBudget(arguments.budget);
  lab::Fields fields = FieldsOf(options);
  std::ranges::move(FieldsOf(companions), std::back_inserter(fields));
  arguments.flags.Apply(fields, "a study of a text, without --target or --goal,");
  options.seed = context.seed, options.threads = ThreadsOf(context), options.quiet = context.quiet;
  lab::Validate(options);
  lab::Validate(companions, options);
  const lab::Text text = lab::TextOrDefault(arguments.text, context.quiet);
  lab::WatchForInterrupt();
  const lab::Subject subject = lab::SubjectOf(text, options, lab::LearntTable);
  const lab::StudyResult result = lab::RunStudy(subject, options, arguments.out);
  // The answer is there before what takes its time beside it.
  lab::WriteStudy(result, {}, arguments.out);
  return Tell(result, lab::WriteStudy(result, lab::WriteCompanions(text, result, companions, arguments.out), arguments.out),
              context);
}

int RunStudyCommand(StudyArguments& arguments, const Context& context) {
  arguments.data.TakeFile(arguments.text);
  return arguments.data.Given() ? StudyTable(arguments, context) : StudyText(arguments, context);
}

const Command kStudy(10, "study",
                     "Compare encoders and positional encodings on a text or on labelled sequences, and write a page",
                     &RunStudyCommand);

}  // namespace
}  // namespace heed::cli
