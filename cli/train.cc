#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/data_file.h"
#include "cli/fields.h"
#include "heed/error.h"
#include "lab/data/text.h"
#include "lab/report/environment.h"
#include "lab/report/json.h"
#include "lab/report/printable.h"
#include "lab/report/progress.h"
#include "lab/study/study.h"
#include "lab/training/data_parallel.h"
#include "lab/training/interrupt.h"
#include "lab/training/ranks.h"
#include "lab/training/sequence_model.h"
#include "lab/training/side_by_side.h"
#include "lab/training/train.h"
#include "lab/training/trainer.h"

namespace heed::cli {
namespace {

// Of the model, then of its training.
lab::Fields AllFields(lab::TrainOptions& options) {
  lab::Fields fields = FieldsOf(options.model);
  std::ranges::move(FieldsOf(options), std::back_inserter(fields));
  return fields;
}

// Of a model of labelled sequences and its training; the other names of a model are a text's.
lab::Fields TableFields(lab::TrainOptions& one, lab::StudyOptions& options) {
  lab::Fields fields = AllFields(one), of_study = FieldsOf(options);
  const auto keep = [](lab::Fields& of, const std::set<std::string>& names) {
    std::erase_if(of, [&](const lab::Field& field) { return !names.contains(field.name); });
  };
  keep(fields, {"encoder", "position", "steps", "lr"});
  keep(of_study, {"layers", "heads", "width", "context", "batch", "horizon", "longest", "validation_share"});
  std::ranges::move(of_study, std::back_inserter(fields));
  return fields;
}

struct TrainArguments {
  explicit TrainArguments(CLI::App& command) : flags(command, AllFields(defaults), FieldFlags::Of::kCommand) {
    lab::StudyOptions options = lab::BudgetOptions("default", lab::StudyKind::kTable);
    flags.Add(command, lab::Grouped(TableFields(defaults, options), "Training on labelled sequences"));
    AddName(command, "TEXT", text,
            "UTF-8 file; - for standard input; default: docstrings of CPython's library; CSV or NPY with --target");
    AddName(command, "--out", out,
            "Folder for config.json, model.safetensors and, for a text, checkpoint.safetensors and metrics.jsonl")
        ->required();
    AddDataOptions(command, data);
    command.add_flag("--resume", resume,
                     "Go on where the run in --out stopped, to the same bits; only --lr, --min-lr, --weight-decay and --clip "
                     "may differ, to mend a run whose numbers were no longer finite");
    CLI::Option* const together =
        command.add_flag("--distributed", distributed,
                         "Train as one of the processes that torchrun starts, each on its share of every "
                         "batch; they reach the results of one process");
    command
        .add_option(
            "--sequence-ranks", sequence_ranks,
            "So many processes share the tokens of each window, for contexts too long for one; groups of them share the "
            "windows. Divides the number of processes; needs attention or decomposable")
        ->capture_default_str()
        ->needs(together);
    command.add_option("--time-out", time_out, "Seconds that a process waits for the others before it ends with an error")
        ->capture_default_str()
        ->needs(together);
    command.footer(
        "Examples:\n  heed train book.txt --out run --position alibi --steps 2000\n  heed generate run --prompt 'The '\n"
        "  torchrun --no-python --nproc-per-node 4 heed train book.txt --out run --distributed\n"
        "  heed train walks.csv --sequence walk --target label --encoder gru --steps 1000 --out walks");
  }

  lab::TrainOptions defaults;
  FieldFlags flags;
  DataArguments data;
  std::string text, out;
  bool resume = false, distributed = false;
  double time_out = 300;
  int64_t sequence_ranks = 1;

  // Whether an option of config.json's name was given on the command line.
  bool Given(const std::string& name, const Context& context) const {
    return flags.Given(name) || (name == "seed" && context.seed_given);
  }
};

lab::TrainOptions FreshOptions(const TrainArguments& arguments, const Context& context) {
  lab::TrainOptions options;
  arguments.flags.Apply(AllFields(options), "heed train");
  options.seed = context.seed;
  if (!arguments.flags.Given("min_lr")) options.min_lr = options.lr / 10;
  if (!arguments.flags.Given("position") && options.model.encoder != "attention") options.model.position = "none";
  return options;
}

std::map<std::string, std::string> Values(lab::TrainOptions options) {
  std::map<std::string, std::string> values;
  for (const lab::Field& field : AllFields(options)) values[field.name] = field.Text();
  return values;
}

// A run goes on with the options it began with; another value on the command line is a mistake to point out. Only what keeps
// the numbers finite may change, so that a run which diverged goes on; nothing is returned where nothing changes.
std::optional<lab::TrainOptions> ChangedOptions(const TrainArguments& arguments, const Context& context,
                                                const lab::RunConfig& config) {
  const lab::TrainOptions fresh = FreshOptions(arguments, context);
  const auto asked = Values(fresh), stored = Values(config.options);
  const std::set<std::string> changeable = {"lr", "min_lr", "weight_decay", "clip"};
  std::string changes;
  for (const auto& [name, value] : stored) {
    if (!arguments.Given(name, context) || asked.at(name) == value) continue;
    if (!changeable.contains(name)) {
      throw InvalidArgument(fmt::format("{}: the run in {} began with {}, not {}; leave the option out to resume it", name,
                                        arguments.out, value, asked.at(name)));
    }
    changes += fmt::format("{}{} is {} instead of {}", changes.empty() ? "" : ", ", name, asked.at(name), value);
  }
  if (changes.empty()) return std::nullopt;
  if (!context.quiet) std::fprintf(stderr, "heed: from here on %s\n", lab::Printable(changes).c_str());
  lab::TrainOptions options = config.options;
  arguments.flags.Apply(AllFields(options), "heed train");
  if (arguments.flags.Given("lr")) options.min_lr = fresh.min_lr;
  return options;
}

// The bar on stderr: a smoothed loss, the speed, and the last validation loss.
class TrainingProgress {
 public:
  TrainingProgress(int64_t steps, bool quiet) : steps_(steps), quiet_(quiet) {}

  lab::TrainCallbacks Callbacks() {
    lab::TrainCallbacks callbacks;
    callbacks.on_start = [this](lab::LanguageModel& model, int64_t step) {
      if (!quiet_) {
        std::fprintf(stderr, "%lld parameters, vocabulary of %lld characters, %d threads\n",
                     static_cast<long long>(lab::ParameterCount(*model)), static_cast<long long>(model->vocabulary().size()),
                     lab::ComputeThreads());
        if (step > 0) std::fprintf(stderr, "resuming after step %lld\n", static_cast<long long>(step));
      }
      bar_.emplace("train", steps_, quiet_, step);
    };
    callbacks.on_step = [this](int64_t step, double loss, double tokens_per_second) {
      smoothed_ = smoothed_ ? 0.95 * *smoothed_ + 0.05 * loss : loss;
      training_ = fmt::format("loss {:.3f}, {:.0f} tokens/s", *smoothed_, tokens_per_second);
      bar_->Update(step, training_ + validation_);
    };
    callbacks.on_report = [this](const lab::Metrics& metrics) {
      validation_ = fmt::format(", val_loss {:.4f}", metrics.val_loss);
      bar_->Update(metrics.step, training_ + validation_);
    };
    return callbacks;
  }
  void End() { bar_.reset(); }

 private:
  int64_t steps_;
  bool quiet_;
  std::optional<lab::Progress> bar_;
  std::optional<double> smoothed_;
  std::string training_, validation_;  // the two halves of the note
};

void PrintResult(const TrainArguments& arguments, const lab::TrainResult& result, bool json) {
  const lab::Metrics& last = result.metrics.back();
  if (json) {
    const nlohmann::ordered_json row = {{"out", arguments.out},
                                        {"step", last.step},
                                        {"train_loss", last.train_loss},
                                        {"val_loss", last.val_loss},
                                        {"tokens_per_second", last.tokens_per_second},
                                        {"parameters", lab::ParameterCount(**result.model)},
                                        {"seconds", result.seconds}};
    std::cout << lab::JsonText(row) << "\n";
    return;
  }
  fmt::print("step {}  train_loss {:.4f}  val_loss {:.4f}  {:.0f} tokens/s\n", last.step, last.train_loss, last.val_loss,
             last.tokens_per_second);
}

lab::TrainResult ResumeRun(const TrainArguments& arguments, const Context& context, const lab::Text& text,
                           const lab::RunFolder& folder, const lab::RunConfig& config, const lab::TrainCallbacks& callbacks,
                           lab::Ranks* ranks) {
  const std::optional<lab::TrainOptions> changed = ChangedOptions(arguments, context, config);
  if (!context.quiet && config.threads != lab::ComputeThreads()) {
    std::fprintf(stderr, "heed: the run began with %d threads; with %d its last digits may differ\n", config.threads,
                 lab::ComputeThreads());
  }
  return lab::Resume(text, folder, callbacks, changed, ranks);
}

// Trains on a text that read() returns.
int RunTrain(const TrainArguments& arguments, const Context& context, const std::function<lab::Text()>& read,
             lab::Ranks* ranks) {
  const lab::RunFolder folder(arguments.out);
  std::optional<lab::RunConfig> config;
  if (arguments.resume) config = folder.ReadConfig(ranks);
  const lab::TrainOptions options = config ? config->options : FreshOptions(arguments, context);
  lab::Validate(options);
  const lab::Text text = read();
  lab::WatchForInterrupt();
  TrainingProgress progress(options.steps, context.quiet);
  const lab::TrainResult result = config ? ResumeRun(arguments, context, text, folder, *config, progress.Callbacks(), ranks)
                                         : lab::Train(text, options, folder, progress.Callbacks(), ranks);
  progress.End();
  if (ranks == nullptr || ranks->first()) PrintResult(arguments, result, context.json);
  return 0;
}

// The number in an environment variable, or 1 where it holds none.
int CountIn(const char* variable) {
  int count = 1;
  const char* text = std::getenv(variable);
  if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), count);
  return count;
}

int RunAlone(const TrainArguments& arguments, const Context& context) {
  const int size = CountIn("WORLD_SIZE");
  if (std::getenv("TORCHELASTIC_RUN_ID") != nullptr && size > 1) {
    throw InvalidArgument(fmt::format(
        "distributed: torchrun started {} processes, each of which would train alone into --out; give --distributed", size));
  }
  return RunTrain(
      arguments, context, [&] { return lab::TextOrDefault(arguments.text, context.quiet); }, nullptr);
}

void PrintTrained(const TrainArguments& arguments, const lab::TrainedOne& trained, bool json) {
  nlohmann::ordered_json row = {{"out", arguments.out},
                                {"encoder", trained.model.encoder},
                                {"position", trained.model.position},
                                {"parameters", trained.model.parameters},
                                {"step", trained.outcome.best_steps}};
  std::string text = fmt::format("{}, step {}", trained.model.Label(), trained.outcome.best_steps);
  for (std::size_t i = 0; i < trained.columns.size(); ++i) {
    const std::string& name = trained.columns[i].measure.name;
    row[name] = trained.outcome.values[i];
    text += fmt::format("  {} {:.4g}", name, trained.outcome.values[i]);
  }
  fmt::print("{}\n", json ? lab::JsonText(row) : text);
}

int RunTable(const TrainArguments& arguments, const Context& context) {
  for (const auto& [option, given] : {std::pair("resume", arguments.resume), {"distributed", arguments.distributed}}) {
    if (given) throw InvalidArgument(std::string(option) + ": it is for a text; labelled sequences train from the first step");
  }
  lab::TrainOptions one;
  lab::StudyOptions options = lab::BudgetOptions("default", lab::StudyKind::kTable);
  const lab::Fields fields = TableFields(one, options);
  arguments.flags.Apply(fields, "a training on labelled sequences");
  Check(fields);
  const bool attends = one.model.encoder == "attention";
  if (!arguments.flags.Given("position") && !attends) one.model.position = "none";
  one.model.heads = options.heads, one.model.width = options.width;
  lab::Validate(one.model);
  options.encoders = {one.model.encoder}, options.positions = {one.model.position};
  options.rates = {one.lr}, options.all_steps = one.steps;
  options.seed = context.seed, options.seeds = 1, options.quiet = context.quiet;
  lab::Validate(options);
  const lab::SeriesData data = std::move(ReadData(arguments.text, arguments.data, &arguments.flags).front());
  if (arguments.data.dry_run) return PrintData(data, options.horizon, context), 0;
  TellNotes(data.name, data.notes, context);
  lab::WatchForInterrupt();
  const lab::Subject subject = lab::SubjectOf(data, arguments.data.Words(arguments.text), options);
  PrintTrained(arguments, lab::TrainOne(subject, options, arguments.out), context.json);
  return 0;
}

// What every rank must have been started with.
std::map<std::string, std::string> Settings(const TrainArguments& arguments, const Context& context, const lab::Text& text) {
  const lab::TextIdentity identity = lab::Identify(text);
  std::map<std::string, std::string> settings = Values(FreshOptions(arguments, context));
  const lab::Environment environment = lab::ThisEnvironment();
  settings["version"] = environment.version;
  settings["libtorch"] = environment.libtorch;
  settings["text"] = fmt::format("{} characters with fingerprint {}", identity.characters, identity.fingerprint);
  settings["resume"] = fmt::format("{}", arguments.resume);
  settings["sequence_ranks"] = std::to_string(arguments.sequence_ranks);
  settings["time_out"] = fmt::format("{:g}", arguments.time_out);
  // Sums over elements depend on it, and the ranks' updates must not differ.
  settings["threads"] = std::to_string(lab::ComputeThreads());
  return settings;
}

// As many as this process may use, shared among those that torchrun started on this machine.
int ThreadsOfRank(const Context& context) {
  const int ranks = std::max(1, CountIn("LOCAL_WORLD_SIZE"));
  return context.threads > 0 ? context.threads : std::max(1, ThreadsOf(context) / ranks);
}

int RunDistributed(const TrainArguments& arguments, const Context& given) {
  if (arguments.text == "-")
    throw InvalidArgument("TEXT: expected a file, because every process reads it; standard input serves only one");
  lab::ComputeWith(ThreadsOfRank(given));
  const std::unique_ptr<lab::Ranks> ranks = lab::Ranks::Join(arguments.time_out);
  Context context = given;
  context.quiet = given.quiet || !ranks->first();
  lab::Text text;
  ranks->Agree([&] {
    lab::RequireGroups(arguments.sequence_ranks, ranks->size());
    if (!arguments.resume) {
      const lab::TrainOptions options = FreshOptions(arguments, context);
      lab::Validate(options);
      lab::RequireShared(options.model, arguments.sequence_ranks);
    }
    text = lab::TextOrDefault(arguments.text, context.quiet);
    return Settings(arguments, context, text);
  });
  ranks->ShareSequences(arguments.sequence_ranks);
  return RunTrain(
      arguments, context, [&] { return std::move(text); }, ranks.get());
}

int RunTrainCommand(TrainArguments& arguments, const Context& context) {
  arguments.data.TakeFile(arguments.text);
  if (arguments.data.Given()) return RunTable(arguments, context);
  return arguments.distributed ? RunDistributed(arguments, context) : RunAlone(arguments, context);
}

const Command kTrain(20, "train", "Train a language model over the characters of a text, or a model of labelled sequences",
                     &RunTrainCommand);

}  // namespace
}  // namespace heed::cli
