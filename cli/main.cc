// The heed program: finds the command, runs it, turns errors into messages and exit codes.
#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "heed/error.h"
#include "heed/executor.h"
#include "heed/safetensors.h"
#include "lab/report/file.h"
#include "lab/report/printable.h"
#include "lab/training/interrupt.h"
#include "lab/training/side_by_side.h"

namespace heed::cli {

std::map<int, Command::Add>& Command::All() {
  static std::map<int, Add> commands;
  return commands;
}

int ThreadsOf(const Context& context) { return context.threads > 0 ? context.threads : AvailableThreads(); }

namespace {

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130 };

constexpr std::size_t kMostShown = 3500;  // bytes of a message

// Seconds of `heed train`, 60 steps of width 64, two threads on two cores (AMD EPYC, Zen 4), of gru and of attention; "busy" is
// beside a process that never waits. libgomp's own choice: quiet 8.2 and 2.3, busy 22.1 and 7.8. 1000: quiet 6.4 and 2.5,
// busy 13.5 and 4.5. 200: quiet 10.1 and 2.5, busy 9.5 and 3.7.
constexpr const char* kSpins = "1000";

constexpr std::array<std::string_view, 4> kTraining = {"depth", "study", "tasks", "train"};

// Makes idle threads sleep soon, where the command is one that trains for long. By default they spin for a millisecond and
// more, and where another process wants a core too, they keep it from the thread that they wait for. libgomp reads how long
// they may spin when it is loaded, so this starts the program again in the same process, with GOMP_SPINCOUNT set. It does
// nothing where the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT, and where the program cannot be started again.
void LetIdleThreadsSleep(int count, char** arguments) {
  if (count < 2 || std::ranges::find(kTraining, arguments[1]) == kTraining.end()) return;
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (getauxval(AT_BASE) == 0) return;  // started by naming the loader, which /proc/self/exe then is
  setenv("GOMP_SPINCOUNT", kSpins, 1);
  execv("/proc/self/exe", arguments);
}

constexpr int64_t kMostBytes = 1 << 20;

// "--name value" or "--name=value"; nothing behind "--", where names of files follow.
std::optional<std::string> ValueOf(const std::vector<std::string>& arguments, const std::string& flag) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (arguments[i] == flag) return i + 1 < arguments.size() ? arguments[i + 1] : std::string();
    if (arguments[i].starts_with(flag + "=")) return arguments[i].substr(flag.size() + 1);
  }
  return std::nullopt;
}

std::vector<CLI::ConfigItem> ReadItems(const std::string& path) {
  std::istringstream text{std::string(lab::RequireUtf8(path, lab::ReadFile(path, kMostBytes)))};
  try {
    return CLI::ConfigBase().from_config(text);
  } catch (const CLI::Error& error) {
    throw FileError(path + ": " + error.what());
  }
}

const CLI::App* CommandNamed(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

// The arguments of the program, with those behind them that the file of --config gives and they do not. The file is TOML or INI
// as CLI11 reads it: a line an option, as steps = 300, by the names of the flags; lists with commas; names with spaces in
// quotes. What stands below [study] is for that command alone. Throws InvalidArgument where the command has no such option,
// and FileError.
std::vector<std::string> WithConfig(const CLI::App& app, std::vector<std::string> arguments) {
  const std::optional<std::string> path = ValueOf(arguments, "--config");
  // A name that is missing or empty is refused with the other arguments.
  const CLI::App* command = path && !path->empty() ? CommandNamed(app, arguments.front()) : nullptr;
  if (command == nullptr) return arguments;
  std::vector<std::string> given;
  for (const CLI::ConfigItem& item : ReadItems(*path)) {
    const bool opens_or_closes = item.name == "++" || item.name == "--";
    if (opens_or_closes || (!item.parents.empty() && item.parents.front() != command->get_name())) {
      const std::string& section = item.parents.empty() ? item.name : item.parents.front();
      if (CommandNamed(app, section) == nullptr) throw InvalidArgument(*path + ": [" + ShownName(section) + "] is no command");
      continue;
    }
    const std::string flag = "--" + item.name;
    if (item.parents.size() > 1 || item.name == "config" || command->get_option_no_throw(flag) == nullptr) {
      throw InvalidArgument(*path + ": '" + ShownName(item.fullname()) + "' is no option of heed " + command->get_name());
    }
    if (!ValueOf(arguments, flag)) given.push_back(fmt::format("{}={}", flag, fmt::join(item.inputs, ",")));
  }
  // Before "--", behind which nothing is an option.
  arguments.insert(std::ranges::find(arguments, "--"), given.begin(), given.end());
  return arguments;
}

// Optimal string alignment distance (Damerau 1964).
std::size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

void AddCommonOptions(CLI::App& app, Context& context) {
  for (CLI::App* command : app.get_subcommands({})) {
    command->add_flag("--json", context.json, "Print results as JSON");
    command->add_option("--seed", context.seed, "Seed of every random choice")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str()
        ->each([&context](const std::string&) { context.seed_given = true; });
    command->add_option("--threads", context.threads, "Threads to compute with; default: all that this process may use")
        ->check(CLI::Range(1, 1024));
    AddName(*command, "--config", context.config,
            "File with options, one a line as steps = 300; options of the command line win");
    command->add_flag("--quiet", context.quiet, "No messages and no progress on stderr");
  }
}

int Fail(const std::string& message, ExitCode code) {
  std::cerr << "heed: " + lab::PrintableLines(message, kMostShown) + "\n";  // in one write: the ranks of a run share a terminal
  return code;
}

// What was typed, where "help COMMAND" is another way to type "COMMAND --help".
std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (arguments.size() > 1 && arguments[0] == "help" && !arguments[1].starts_with('-')) {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  return arguments;
}

// A command that does not exist, named with the nearest that does, by insertions, deletions, replacements and swaps of
// neighbours that are at most a third of its letters, or two. CLI11 itself would only say that it was not expected.
std::string UnknownCommand(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with('-') || CommandNamed(app, arguments.front()) != nullptr) return {};
  const std::string& word = arguments.front();
  std::string meant;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::size_t distance = Distance(word, command->get_name());
    if (distance < least) least = distance, meant = "; did you mean '" + command->get_name() + "'?";
  }
  return "'" + ShownName(word) + "' is not a command" + meant + "\nRun 'heed --help' for the list of commands.";
}

int Parse(CLI::App& app, const std::vector<std::string>& given, bool& proceed) {
  const std::string unknown = UnknownCommand(app, given);
  if (!unknown.empty()) return Fail(unknown, kUsage);
  try {
    std::vector<std::string> arguments = WithConfig(app, given);
    std::ranges::reverse(arguments);  // as CLI11 takes them
    app.parse(arguments);
    proceed = true;
    return kDone;
  } catch (const InvalidArgument& error) {
    return Fail(error.what(), kUsage);
  } catch (const Error& error) {
    return Fail(error.what(), kFailed);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "heed" : "heed " + chosen.front()->get_name();
    return Fail(lab::PrintableLines(error.what(), kMostShown / 2) + "\nRun '" + command + " --help' for more.", kUsage);
  }
}

// What the chosen command has of options whose smaller values need less memory.
std::string OutOfMemory(const CLI::App& app) {
  std::string options;
  for (const CLI::App* command : app.get_subcommands()) {
    for (const char* name :
         {"--batch", "--context", "--width", "--layers", "--tokens", "--length", "--lengths", "--influence"}) {
      if (command->get_option_no_throw(name) != nullptr) options += (options.empty() ? "; lower " : ", ") + std::string(name);
    }
  }
  const std::size_t last = options.rfind(", ");
  return "there is not enough memory" + (last == std::string::npos ? options : options.replace(last, 2, " or "));
}

int Execute(const Run& run, const Context& context, const CLI::App& app) {
  try {
    lab::ComputeWith(ThreadsOf(context));
    return run(context);
  } catch (const InvalidArgument& error) {
    return Fail(error.what(), kUsage);
  } catch (const Error& error) {
    return Fail(error.what(), kFailed);
  } catch (const lab::Interruption& interruption) {
    return Fail(interruption.what(), kInterrupted);
  } catch (const std::bad_alloc&) {
    return Fail(OutOfMemory(app), kFailed);
  } catch (const std::length_error&) {  // of a container that no memory could hold
    return Fail(OutOfMemory(app), kFailed);
  } catch (const std::exception& error) {
    if (const auto compute = lab::AsComputeError(error)) {
      return Fail(compute->out_of_memory ? OutOfMemory(app) : compute->text, kFailed);
    }
    if (std::ferror(stdout) != 0) return kDone;  // Finished says so
    return Fail(error.what(), kFailed);
  }
}

// The one place where output that was not written shows: of --help as of results.
int Finished(int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0 && std::cout) return code;
  const std::string reason = errno != 0 ? std::string(": ") + std::strerror(errno) : std::string();
  return Fail("standard output cannot be written" + reason, code == kDone ? kFailed : static_cast<ExitCode>(code));
}

// The first file that is opened would take the place of a stream that was closed before the start, and messages would be
// written into it. What is printed all the same then fails as on a full disk.
void OpenStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    if (stream == STDIN_FILENO || open("/dev/full", O_WRONLY) < 0) open("/dev/null", O_RDWR);
  }
}

int Main(int argc, char** argv) {
  LetIdleThreadsSleep(argc, argv);
  // A file that outgrows a limit is then an error of the write, like a full disk, instead of a sudden end.
  std::signal(SIGXFSZ, SIG_IGN);
  OpenStandardStreams();

  CLI::App app("Self-attention with positions on the CPU: train, measure and compare sequence encoders.", "heed");
  app.set_version_flag("-v,--version", "heed " HEED_VERSION);
  app.require_subcommand(1);
  app.footer(std::string("Run 'heed help COMMAND' for the options of a command and an example.\n\nExit codes: ") + kExitCodes);
  Context context;
  Run run;
  for (const auto& [place, add] : Command::All()) add(app, run);
  AddCommonOptions(app, context);

  bool proceed = false;
  const int code = Parse(app, Arguments(argc, argv), proceed);
  return Finished(proceed ? Execute(run, context, app) : code);
}

}  // namespace
}  // namespace heed::cli

int main(int argc, char** argv) {
  try {
    return heed::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {  // before a command runs, or of a message: what is said here takes no memory
    static constexpr char kMessage[] = "heed: there is not enough memory\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
    return heed::cli::kFailed;
  }
}
